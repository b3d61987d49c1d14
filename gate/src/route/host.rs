//! Host names: of a route as configured, and of a request as sent. Resolves nothing.

use std::fmt;

/// Longest name the DNS knows.
const NAME_BYTES_MAX: usize = 253;

/// The host of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// Every host, and requests that name none.
    Any,
    /// In lower case, without port and final dot.
    Name(String),
}

/// Why a text is no host of a route. `Display` says what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    Empty,
    Scheme,
    Path,
    Port,
    Wildcard,
    NotAscii,
    TooLong,
    Character(char),
    EmptyLabel,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a host name such as shop.example.com, or \"*\" for every host: ")?;
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::Scheme => f.write_str("leave out the scheme"),
            Self::Path => f.write_str("the path has a key of its own, `path`"),
            Self::Port => f.write_str("leave out the port; a room covers its host on every port"),
            Self::Wildcard => f.write_str("no wildcards within a name; list the hosts"),
            Self::NotAscii => f.write_str("write an international name in its xn-- form"),
            Self::TooLong => write!(f, "it is longer than {NAME_BYTES_MAX} bytes"),
            Self::Character(character) => write!(f, "no {character:?}"),
            Self::EmptyLabel => f.write_str("two dots stand together, or one stands in front"),
        }
    }
}

impl std::error::Error for HostError {}

impl Host {
    /// Reads a configured host: `*`, a name, or an IP address (IPv6 in brackets).
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.contains("://") {
            return Err(HostError::Scheme);
        }
        if text.contains('/') {
            return Err(HostError::Path);
        }
        if text.contains('*') {
            return Err(HostError::Wildcard);
        }
        if !text.is_ascii() {
            return Err(HostError::NotAscii);
        }
        if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            return match inner.parse::<std::net::Ipv6Addr>() {
                Ok(address) => Ok(Self::Name(format!("[{address}]"))),
                Err(_) => Err(HostError::Character('[')),
            };
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.len() > NAME_BYTES_MAX {
            return Err(HostError::TooLong);
        }
        if let Some((head, port)) = name.split_once(':') {
            return Err(if !head.is_empty() && !port.contains(':') {
                HostError::Port
            } else {
                HostError::Character(':')
            });
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if let Some(character) = name.chars().find(|c| !allowed(*c)) {
            return Err(HostError::Character(character));
        }
        if name.split('.').any(str::is_empty) {
            return Err(HostError::EmptyLabel);
        }
        Ok(Self::Name(name.to_ascii_lowercase()))
    }

    /// Whether one request could be meant for both.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::Name(own), Self::Name(others)) => own == others,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// The host name in a `Host` header or an authority: without user information, port, blanks and final dots. Its case is
/// as sent. Never fails: what is no name matches no named route.
pub fn name_of(authority: &[u8]) -> &[u8] {
    let mut name = authority.trim_ascii();
    if let Some(at) = name.iter().rposition(|byte| *byte == b'@') {
        name = &name[at + 1..];
    }
    let bracket = name.iter().rposition(|byte| *byte == b']');
    if let Some(colon) = name.iter().rposition(|byte| *byte == b':')
        && bracket.is_none_or(|bracket| bracket < colon)
        && name[colon + 1..].iter().all(u8::is_ascii_digit)
    {
        name = &name[..colon];
    }
    while let [rest @ .., b'.'] = name {
        name = rest;
    }
    name
}

/// Compares a configured name (lower case) with one as sent.
pub(super) fn compare(configured: &str, sent: &[u8]) -> std::cmp::Ordering {
    configured
        .bytes()
        .cmp(sent.iter().map(u8::to_ascii_lowercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_hosts_are_checked() {
        let name = |text: &str| Ok(Host::Name(text.to_owned()));
        assert_eq!(Host::parse("*"), Ok(Host::Any));
        assert_eq!(Host::parse("Shop.Example.COM."), name("shop.example.com"));
        assert_eq!(Host::parse("127.0.0.1"), name("127.0.0.1"));
        assert_eq!(Host::parse("[2001:DB8::0:1]"), name("[2001:db8::1]"));
        for (text, error) in [
            ("", HostError::Empty),
            (".", HostError::EmptyLabel),
            ("https://shop.example.com", HostError::Scheme),
            ("shop.example.com/sale", HostError::Path),
            ("shop.example.com:8080", HostError::Port),
            ("*.example.com", HostError::Wildcard),
            ("müller.example", HostError::NotAscii),
            ("shop example", HostError::Character(' ')),
            ("shop..example", HostError::EmptyLabel),
            ("::1", HostError::Character(':')),
            ("[::g]", HostError::Character('[')),
        ] {
            assert_eq!(Host::parse(text), Err(error), "{text}");
        }
        assert_eq!(Host::parse(&"a".repeat(254)), Err(HostError::TooLong));
    }

    #[test]
    fn sent_hosts_lose_port_dots_and_user() {
        for (sent, name) in [
            ("shop.example.com", "shop.example.com"),
            ("shop.example.com:80", "shop.example.com"),
            ("shop.example.com.:80", "shop.example.com"),
            ("shop.example.com..", "shop.example.com"),
            ("user:pass@shop.example.com:80", "shop.example.com"),
            (" shop.example.com ", "shop.example.com"),
            ("shop.example.com:", "shop.example.com"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("", ""),
            (":80", ""),
            ("...", ""),
        ] {
            assert_eq!(name_of(sent.as_bytes()), name.as_bytes(), "{sent}");
        }
    }
}
