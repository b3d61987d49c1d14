//! The address of an origin, as configured. Resolves nothing.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Where requests go: an HTTP origin without TLS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Without brackets.
    host: String,
    port: u16,
    address: Option<SocketAddr>,
}

/// Why a text is no origin. `Display` says what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginError {
    Tls,
    Scheme,
    Path,
    Host,
    Port,
}

impl fmt::Display for OriginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be http://HOST or http://HOST:PORT: ")?;
        f.write_str(match self {
            Self::Tls => "origins with TLS are not supported",
            Self::Scheme => "it does not begin with http://",
            Self::Path => "leave out path, query and user",
            Self::Host => "the host is no name or address",
            Self::Port => "the port is no number from 1 to 65535",
        })
    }
}

impl std::error::Error for OriginError {}

impl Origin {
    /// Name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address, where the host is one and not a name.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        if text.starts_with("https://") {
            return Err(OriginError::Tls);
        }
        let rest = text.strip_prefix("http://").ok_or(OriginError::Scheme)?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '@']) {
            return Err(OriginError::Path);
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let port = match port {
            None => 80,
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or(OriginError::Port)?,
            Some(_) => return Err(OriginError::Port),
        };
        let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let (host, address) = match (inner, crate::route::Host::parse(host)) {
            (Some(inner), Ok(_)) => (inner, inner.parse::<IpAddr>().ok()),
            (None, Ok(crate::route::Host::Name(_))) => (host, host.parse::<IpAddr>().ok()),
            (_, Ok(crate::route::Host::Any) | Err(_)) => return Err(OriginError::Host),
        };
        Ok(Self {
            host: host.to_owned(),
            port,
            address: address.map(|ip| SocketAddr::new(ip, port)),
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "http://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "http://{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_and_addresses() {
        for (text, shown, has_address) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080", true),
            ("http://[::1]:81/", "http://[::1]:81", true),
            ("http://[::1]", "http://[::1]:80", true),
            ("http://shop.internal", "http://shop.internal:80", false),
        ] {
            let origin: Origin = text.parse().unwrap();
            assert_eq!(origin.to_string(), shown);
            assert_eq!(origin.address().is_some(), has_address);
        }
    }

    #[test]
    fn refuses_what_it_cannot_reach() {
        for (text, error) in [
            ("https://a", OriginError::Tls),
            ("a:80", OriginError::Scheme),
            ("http://", OriginError::Host),
            ("http://*", OriginError::Host),
            ("http://::1", OriginError::Host),
            ("http://a/b", OriginError::Path),
            ("http://u@a", OriginError::Path),
            ("http://a:0", OriginError::Port),
            ("http://a:99999", OriginError::Port),
            ("http://a:+1", OriginError::Port),
        ] {
            let parsed: Result<Origin, _> = text.parse();
            assert_eq!(parsed.unwrap_err(), error, "{text}");
        }
    }
}
