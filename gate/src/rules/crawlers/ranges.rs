//! Address ranges as operators of crawlers publish them: `{"prefixes": [{"ipv4Prefix": "192.0.2.0/24"}, …]}`.

use std::fmt;

use serde::Deserialize;

use crate::kernel::settings::Prefix;
use crate::rules::address::AddressRange;

#[derive(Debug, Deserialize)]
struct Published {
    prefixes: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    ipv4_prefix: Option<String>,
    ipv6_prefix: Option<String>,
}

/// A file of ranges that cannot be used.
#[derive(Debug)]
pub enum RangesError {
    /// It is no such JSON.
    Shape(serde_json::Error),
    /// It has no prefixes at all.
    Empty,
    /// One of its entries, counted from 0.
    Entry { index: usize, problem: String },
}

impl fmt::Display for RangesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape(error) => write!(
                f,
                "must be JSON such as {{\"prefixes\": [{{\"ipv4Prefix\": \"192.0.2.0/24\"}}]}}: {error}"
            ),
            Self::Empty => f.write_str("has no prefixes"),
            Self::Entry { index, problem } => write!(f, "prefixes[{index}]: {problem}"),
        }
    }
}

impl std::error::Error for RangesError {}

/// Reads such a file's text. Members that are not known are passed over: operators add some.
///
/// # Errors
/// Its first fault.
pub fn parse_ranges(text: &str) -> Result<Vec<AddressRange>, RangesError> {
    let published: Published = serde_json::from_str(text).map_err(RangesError::Shape)?;
    if published.prefixes.is_empty() {
        return Err(RangesError::Empty);
    }
    let mut ranges = Vec::with_capacity(published.prefixes.len());
    for (index, entry) in published.prefixes.into_iter().enumerate() {
        let fault = |problem: String| RangesError::Entry { index, problem };
        let texts = [entry.ipv4_prefix, entry.ipv6_prefix];
        if texts.iter().all(Option::is_none) {
            return Err(fault("has neither ipv4Prefix nor ipv6Prefix".to_owned()));
        }
        for text in texts.into_iter().flatten() {
            let prefix: Prefix = text
                .parse()
                .map_err(|error| fault(format!("{text:?}: {error}")))?;
            ranges.push(prefix.into());
        }
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::AddressSet;

    #[test]
    fn reads_what_operators_publish() {
        let text = r#"{"creationTime": "2026-01-01T00:00:00", "prefixes": [
            {"ipv6Prefix": "2001:db8::/64"}, {"ipv4Prefix": "192.0.2.0/27", "service": "x"}]}"#;
        let set: AddressSet = parse_ranges(text).unwrap().into_iter().collect();
        assert!(set.contains("192.0.2.31".parse().unwrap()));
        assert!(!set.contains("192.0.2.32".parse().unwrap()));
        assert!(set.contains("2001:db8::9".parse().unwrap()));
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, expected) in [
            ("", "must be JSON such as"),
            ("[]", "must be JSON such as"),
            ("{\"prefixes\": []}", "has no prefixes"),
            ("{\"prefixes\": [{}]}", "prefixes[0]: has neither"),
            (
                "{\"prefixes\": [{\"ipv4Prefix\": \"192.0.2.0/24\"}, {\"ipv4Prefix\": \"a\"}]}",
                "prefixes[1]: \"a\": ",
            ),
        ] {
            let error = parse_ranges(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
