//! Whether a request asks for JSON, by its `Accept` header.

/// Media ranges looked at in one `Accept` header; the rest is ignored.
const ACCEPT_RANGES_MAX: usize = 32;
/// Quality values as whole numbers.
const QUALITY_THOUSANDTHS_MAX: u32 = 1000;

/// Which requests are answered with JSON (`json_response_enabled`, `json_response_negotiation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JsonNegotiation {
    /// None.
    #[default]
    Off,
    /// `Accept` is exactly `application/json`: Cloudflare's rule.
    Exact,
    /// `Accept` contains `application/json`: ESA's rule.
    Contains,
    /// `Accept` prefers `application/json` to `text/html`: by quality, then by naming JSON where HTML is only covered by a
    /// wildcard (as the usual script libraries do), then by order. `*/*` alone stays HTML.
    QValues,
}

impl JsonNegotiation {
    /// Whether this `Accept` header asks for JSON. Several headers are one, joined with commas.
    pub fn wants_json(self, accept: &str) -> bool {
        match self {
            Self::Off => false,
            Self::Exact => accept.trim().eq_ignore_ascii_case("application/json"),
            Self::Contains => accept.to_ascii_lowercase().contains("application/json"),
            Self::QValues => {
                let json = Preference::of(accept, "application", "json");
                let html = Preference::of(accept, "text", "html");
                json.quality_thousandths > 0 && json > html && json.specificity > 0
            }
        }
    }
}

/// How much a header likes one media type; more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Preference {
    quality_thousandths: u32,
    /// 2 for the type by name, 1 for `application/*`, 0 for `*/*` or nothing.
    specificity: u8,
    /// Counts down, so that the earlier of equals is more.
    order: usize,
}

impl Preference {
    /// The most specific range of the header decides, whatever its quality.
    fn of(accept: &str, kind: &str, subtype: &str) -> Self {
        let mut found = Self {
            quality_thousandths: 0,
            specificity: 0,
            order: 0,
        };
        let mut is_found = false;
        for (index, range) in accept.split(',').take(ACCEPT_RANGES_MAX).enumerate() {
            let (name, quality) = split_quality(range);
            let (range_kind, range_subtype) = name.split_once('/').unwrap_or((name, ""));
            let specificity = if range_kind.eq_ignore_ascii_case(kind) {
                if range_subtype.eq_ignore_ascii_case(subtype) {
                    2
                } else if range_subtype == "*" {
                    1
                } else {
                    continue;
                }
            } else if name == "*/*" {
                0
            } else {
                continue;
            };
            if !is_found || specificity > found.specificity {
                is_found = true;
                found = Self {
                    quality_thousandths: quality,
                    specificity,
                    order: ACCEPT_RANGES_MAX - index,
                };
            }
        }
        found
    }
}

/// Splits `text/html;level=1;q=0.8` into `text/html` and 800. No quality is 1000; one that is malformed is 0: not acceptable.
pub(super) fn split_quality(range: &str) -> (&str, u32) {
    let mut parameters = range.split(';').map(str::trim);
    let name = parameters.next().unwrap_or_default();
    let quality = parameters
        .find_map(|parameter| {
            parameter
                .strip_prefix("q=")
                .or_else(|| parameter.strip_prefix("Q="))
        })
        .map_or(QUALITY_THOUSANDTHS_MAX, |value| {
            parse_quality_thousandths(value.trim())
        });
    (name, quality)
}

fn parse_quality_thousandths(value: &str) -> u32 {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return 0;
    }
    let thousandths = format!("{fraction:0<3}").parse().unwrap_or(0);
    match whole {
        "0" => thousandths,
        "1" if thousandths == 0 => QUALITY_THOUSANDTHS_MAX,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_its_own_idea_of_json() {
        const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        const AXIOS: &str = "application/json, text/plain, */*";
        for (accept, exact, contains, q_values) in [
            ("application/json", true, true, true),
            (" Application/JSON ", true, true, true),
            ("application/json;q=0.9", false, true, true),
            (AXIOS, false, true, true),
            ("application/json, text/html", false, true, true),
            ("text/html, application/json", false, true, false),
            ("text/html;q=0.5, application/json", false, true, true),
            ("text/html, application/json;q=0.9", false, true, false),
            ("application/json;q=0, */*", false, true, false),
            ("application/*", false, false, true),
            ("application/json;q=2", false, true, false),
            ("text/html;q=0, */*", false, false, false),
            (BROWSER, false, false, false),
            ("*/*", false, false, false),
            ("", false, false, false),
            (",;/;q=", false, false, false),
        ] {
            let wants = |negotiation: JsonNegotiation| negotiation.wants_json(accept);
            assert_eq!(wants(JsonNegotiation::Exact), exact, "exact: {accept}");
            assert_eq!(
                wants(JsonNegotiation::Contains),
                contains,
                "contains: {accept}"
            );
            assert_eq!(wants(JsonNegotiation::QValues), q_values, "q: {accept}");
            assert!(!wants(JsonNegotiation::Off));
        }
    }
}
