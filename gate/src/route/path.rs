//! Paths in the form in which they are compared. The forwarded request keeps its own.
//!
//! Origins read one path in many ways: they decode once or twice, merge slashes or not, resolve `..` or not, cut `;…` or not.
//! A path is brought to the form in which the most lenient origin would read it, so that no spelling of a covered page slips
//! past its room. Where an origin that resolves `..` and one that does not would serve different pages, both readings are
//! looked up ([`PathReading`]).

use std::borrow::Cow;
use std::fmt;

/// Longest path of a route.
pub const PATH_BYTES_MAX: usize = 2_048;

/// A route's path in comparison form: begins with `/`, ends without one, except that the root is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoutePath(Vec<u8>);

/// Why a text is no path of a route. `Display` says what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    NoSlash,
    Wildcard,
    Query,
    DotSegment,
    TooLong,
    Control,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlash => "must begin with \"/\"",
            Self::Wildcard => "must have no \"*\": everything below the path is covered without it",
            Self::Query => "must have no query or fragment",
            Self::DotSegment => "must have no \".\" or \"..\" between slashes",
            Self::TooLong => "must have at most 2048 bytes",
            Self::Control => "must have no blanks or control characters",
        })
    }
}

impl std::error::Error for PathError {}

impl RoutePath {
    /// Reads a configured path.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if !text.starts_with('/') {
            return Err(PathError::NoSlash);
        }
        if text.len() > PATH_BYTES_MAX {
            return Err(PathError::TooLong);
        }
        if text.contains('*') {
            return Err(PathError::Wildcard);
        }
        if text.contains(['?', '#']) {
            return Err(PathError::Query);
        }
        if text.chars().any(|c| c.is_control() || c == ' ') {
            return Err(PathError::Control);
        }
        let decoded = decode(text.as_bytes());
        if segments(&decoded).any(|segment| matches!(segment, b"." | b"..")) {
            return Err(PathError::DotSegment);
        }
        Ok(Self(join(&decoded, DotDot::Resolved)))
    }

    /// The path that covers everything.
    pub fn root() -> Self {
        Self(Vec::new())
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// How many segments it has; 0 for the root.
    pub(super) fn depth(&self) -> usize {
        self.0.iter().filter(|byte| **byte == b'/').count()
    }

    pub(super) fn to_ascii_lowercase(&self) -> Self {
        Self(self.0.to_ascii_lowercase())
    }
}

impl fmt::Display for RoutePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("/");
        }
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// A request's path in comparison form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathReading<'p> {
    /// As an origin reads it that resolves `..`.
    pub resolved: Cow<'p, [u8]>,
    /// As an origin reads it that takes `..` for a name like any other, where that differs.
    pub unresolved: Option<Vec<u8>>,
}

/// What `..` means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DotDot {
    /// One segment up.
    Resolved,
    /// Nothing.
    Dropped,
}

impl<'p> PathReading<'p> {
    /// Reads a path as sent; a query is cut off. Ordinary paths are borrowed, not copied.
    pub fn of(path: &'p [u8]) -> Self {
        let query = path.iter().position(|byte| *byte == b'?');
        let end = query.unwrap_or(path.len());
        let path = &path[..end];
        if is_plain(path) {
            let path = path.strip_suffix(b"/").unwrap_or(path);
            return Self {
                resolved: Cow::Borrowed(path),
                unresolved: None,
            };
        }
        let decoded = decode(path);
        let has_dot_dot = segments(&decoded).any(|segment| segment == b"..");
        Self {
            resolved: Cow::Owned(join(&decoded, DotDot::Resolved)),
            unresolved: has_dot_dot.then(|| join(&decoded, DotDot::Dropped)),
        }
    }
}

/// Whether a path is in comparison form already, apart from one final slash.
fn is_plain(path: &[u8]) -> bool {
    if path.first() != Some(&b'/') {
        return path.is_empty();
    }
    let mut after_slash = false;
    for byte in path {
        match byte {
            b'%' | b';' | b'#' | b'\\' | 0 => return false,
            // A dot at the beginning of a segment may be `.` or `..`; a hidden file takes the long way.
            b'/' | b'.' if after_slash => return false,
            b'/' => after_slash = true,
            _ => after_slash = false,
        }
    }
    true
}

/// Decodes percent escapes until none is left, in one pass: whenever the output ends in an escape it is replaced, so that
/// `%2566` ends up as `f`. Backslashes become slashes.
fn decode(path: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(path.len());
    for byte in path {
        out.push(*byte);
        while let [.., b'%', high, low] = out.as_slice() {
            let (Some(high), Some(low)) = (hex(*high), hex(*low)) else {
                break;
            };
            out.truncate(out.len() - 3);
            out.push(high << 4 | low);
        }
    }
    for byte in &mut out {
        if *byte == b'\\' {
            *byte = b'/';
        }
    }
    out
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// The segments of a decoded path, each without what some origin might take for no part of it: `;…` parameters, a fragment,
/// a query behind a decoded `?`, and what follows a zero byte.
fn segments(decoded: &[u8]) -> impl Iterator<Item = &[u8]> {
    decoded.split(|byte| *byte == b'/').map(|segment| {
        let end = segment
            .iter()
            .position(|byte| matches!(byte, b';' | b'#' | b'?' | 0));
        &segment[..end.unwrap_or(segment.len())]
    })
}

fn join(decoded: &[u8], dot_dot: DotDot) -> Vec<u8> {
    let mut out = Vec::with_capacity(decoded.len() + 1);
    for segment in segments(decoded) {
        match (segment, dot_dot) {
            (b"" | b".", _) | (b"..", DotDot::Dropped) => {}
            (b"..", DotDot::Resolved) => {
                let parent = out.iter().rposition(|byte| *byte == b'/');
                out.truncate(parent.unwrap_or(0));
            }
            (name, _) => {
                out.push(b'/');
                out.extend_from_slice(name);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(path: &str) -> String {
        let reading = PathReading::of(path.as_bytes());
        String::from_utf8_lossy(&reading.resolved).into_owned()
    }

    #[test]
    fn spellings_of_one_path_read_alike() {
        for spelling in [
            "/shop/cart",
            "/shop/cart/",
            "//shop//cart",
            "/./shop/./cart/.",
            "/x/../shop/cart",
            "/../../shop/cart",
            "/shop/x/../cart",
            "/%73hop/c%61rt",
            "/%2573hop/cart",
            "/%25252573hop/cart",
            "/shop%2Fcart",
            "/shop%2fcart",
            "/shop%252Fcart",
            "/shop%5Ccart",
            "/shop\\cart",
            "/shop;v=1/cart;jsessionid=2",
            "/shop%3Bv/cart",
            "/shop/%2e/cart",
            "/x/%2e%2E/shop/cart",
            "/x/..;/shop/cart",
            "/shop/cart?next=/other",
            "/shop/cart#fragment",
            "/x#/../shop/cart",
            "/shop/cart%3Fx",
            "/shop/cart%00.css",
            "shop/cart",
        ] {
            assert_eq!(resolved(spelling), "/shop/cart", "{spelling}");
        }
    }

    #[test]
    fn different_paths_stay_different() {
        for (path, form) in [
            ("/", ""),
            ("", ""),
            ("*", "/*"),
            ("/Shop", "/Shop"),
            ("/shop%", "/shop%"),
            ("/shop%2", "/shop%2"),
            ("/shop%zz", "/shop%zz"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a..b", "/a..b"),
            ("/...", "/..."),
        ] {
            assert_eq!(resolved(path), form, "{path}");
        }
    }

    #[test]
    fn both_readings_of_dot_dot_are_kept() {
        let reading = PathReading::of(b"/shop/../x");
        assert_eq!(reading.resolved.as_ref(), b"/x");
        assert_eq!(reading.unresolved.as_deref(), Some(b"/shop/x".as_slice()));
        assert_eq!(PathReading::of(b"/shop/./x").unresolved, None);
    }

    #[test]
    fn ordinary_paths_are_not_copied() {
        for path in ["/", "/shop", "/shop/", "/a/b.css", "/a/b?x=//%2e"] {
            let reading = PathReading::of(path.as_bytes());
            assert!(matches!(reading.resolved, Cow::Borrowed(_)), "{path}");
        }
    }

    #[test]
    fn decoding_is_one_pass() {
        // Twenty-five thousand nested escapes; a pass per level would take minutes.
        let nested = format!("/%{}66", "25".repeat(25_000));
        assert_eq!(resolved(&nested), "/f");
    }

    #[test]
    fn configured_paths_are_checked() {
        let path = |text: &str| RoutePath::parse(text).map(|path| path.to_string());
        assert_eq!(path("/"), Ok("/".to_owned()));
        assert_eq!(path("/shop/"), Ok("/shop".to_owned()));
        assert_eq!(path("/sh%6Fp//x"), Ok("/shop/x".to_owned()));
        for (text, error) in [
            ("shop", PathError::NoSlash),
            ("", PathError::NoSlash),
            ("/shop/*", PathError::Wildcard),
            ("/shop?x=1", PathError::Query),
            ("/shop/../x", PathError::DotSegment),
            ("/shop/%2e", PathError::DotSegment),
            ("/sh op", PathError::Control),
        ] {
            assert_eq!(path(text), Err(error), "{text}");
        }
        let long = format!("/{}", "a".repeat(PATH_BYTES_MAX));
        assert_eq!(path(&long), Err(PathError::TooLong));
    }
}
