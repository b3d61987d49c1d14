//! What strings of an expression mean: bytes, regular expressions and wildcards.

use regex::bytes::{Regex, RegexBuilder};

/// Largest compiled form of one regular expression. A larger one is refused.
pub const REGEX_BYTES_MAX: usize = 1_048_576;

/// A string as written, without its quotes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text<'t> {
    /// In `"…"`.
    Quoted(&'t str),
    /// In `r"…"`: there are no escapes.
    Raw(&'t str),
}

/// The bytes of a string.
pub(super) fn bytes(text: Text<'_>) -> Result<Vec<u8>, String> {
    let source = match text {
        Text::Raw(source) => return Ok(source.as_bytes().to_vec()),
        Text::Quoted(source) => source,
    };
    let mut out = Vec::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        rest = match after.as_bytes() {
            [b'"' | b'\\', ..] => {
                out.push(after.as_bytes()[0]);
                &after[1..]
            }
            [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let byte = u8::from_str_radix(&after[1..3], 16);
                out.push(byte.map_err(|error| error.to_string())?);
                &after[3..]
            }
            _ => {
                return Err("escapes are \\\", \\\\ and \\xHH; r\"…\" has none".to_owned());
            }
        };
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

/// In quotes only `\"` is an escape of the string's; all others are the regular expression's.
pub(super) fn regex(text: Text<'_>) -> Result<Regex, String> {
    match text {
        Text::Raw(source) => build(source),
        Text::Quoted(source) => build(&source.replace("\\\"", "\"")),
    }
}

/// `*` is any text, in any case; `\*` is a star and `\\` a backslash.
pub(super) fn wildcard(text: Text<'_>) -> Result<Regex, String> {
    build(&pattern("(?si-u)^", text)?)
}

/// [`wildcard`] that tells capitals from small letters.
pub(super) fn strict_wildcard(text: Text<'_>) -> Result<Regex, String> {
    build(&pattern("(?s-u)^", text)?)
}

fn pattern(beginning: &str, text: Text<'_>) -> Result<String, String> {
    let (Text::Quoted(source) | Text::Raw(source)) = text;
    let mut pattern = String::from(beginning);
    let mut characters = source.chars();
    let mut previous_is_star = false;
    while let Some(character) = characters.next() {
        if character == '*' {
            if previous_is_star {
                return Err("two stars stand together".to_owned());
            }
            previous_is_star = true;
            pattern.push_str(".*");
            continue;
        }
        previous_is_star = false;
        let literal = if character == '\\' {
            characters
                .next()
                .filter(|next| matches!(next, '*' | '\\' | '"'))
                .ok_or("escapes are \\*, \\\\ and \\\"")?
        } else {
            character
        };
        let mut utf8 = [0; 4];
        pattern.push_str(&regex::escape(literal.encode_utf8(&mut utf8)));
    }
    pattern.push('$');
    Ok(pattern)
}

fn build(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| {
            // The last line says what is wrong; those before it draw the place.
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            format!(
                "no regular expression: {}",
                last.trim_start_matches("error: ")
            )
        })
}
