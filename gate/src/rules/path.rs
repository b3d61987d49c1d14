//! The readings of a path that a rule must fit beside the one as sent.

use crate::route::PathReading;

/// The path as other origins would read it; empty for a path that all read alike.
pub(super) fn other_readings(path: &[u8]) -> Vec<Vec<u8>> {
    if reads_alike(path) {
        return Vec::new();
    }
    let reading = PathReading::of(path);
    let finish = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        // The final slash is kept: rules are written with it.
        if bytes.is_empty() || path.ends_with(b"/") {
            bytes.push(b'/');
        }
        bytes
    };
    let resolved = finish(&reading.resolved);
    let unresolved = reading.unresolved.as_deref().map(finish);
    std::iter::once(resolved).chain(unresolved).collect()
}

/// Whether every origin takes this path for the same page: no empty or dot segments, no backslash, no parameters, and no
/// escape of what need not be escaped or would mean something else.
fn reads_alike(path: &[u8]) -> bool {
    if path.first() != Some(&b'/') {
        return path.is_empty();
    }
    let mut rest = path;
    while let [byte, after @ ..] = rest {
        match (byte, after) {
            (b'/', [b'/', ..]) | (b'/', [b'.'] | [b'.', b'/', ..]) => return false,
            (b'/', [b'.', b'.'] | [b'.', b'.', b'/', ..]) => return false,
            (b'\\' | b';' | b'#' | 0, _) => return false,
            (b'%', [high, low, ..]) => {
                let escape = std::str::from_utf8(&[*high, *low])
                    .ok()
                    .and_then(|digits| u8::from_str_radix(digits, 16).ok());
                if !escape.is_some_and(needs_its_escape) {
                    return false;
                }
            }
            (b'%', _) => return false,
            _ => {}
        }
        rest = after;
    }
    true
}

/// Bytes that have no other spelling in a path and divide nothing: blanks, quotes, non-ASCII letters and the like.
const fn needs_its_escape(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'"' | b'<' | b'>' | b'[' | b']' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80..
    )
}
