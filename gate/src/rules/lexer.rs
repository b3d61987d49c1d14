//! From the text of an expression to its words. Knows no field and no function.

use winnow::Parser as _;
use winnow::ascii::multispace0;
use winnow::combinator::{alt, delimited, preceded, repeat};
use winnow::stream::{LocatingSlice, Location as _};
use winnow::token::{any, none_of, take_until, take_while};

use super::error::{ExpressionError, Place};

type Input<'t> = LocatingSlice<&'t str>;

/// One word of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A field, a function or an operator written in letters.
    Name(&'t str),
    /// `$name`, without the sign.
    List(&'t str),
    /// A number, an address, a prefix or a range.
    Literal(&'t str),
    /// What stands between quotes, escapes and all.
    Text(&'t str),
    /// What stands between the quotes of `r"…"` or `r#"…"#`.
    RawText(&'t str),
    Symbol(&'t str),
}

impl std::fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(text) | Self::Literal(text) | Self::Symbol(text) => write!(f, "`{text}`"),
            Self::List(name) => write!(f, "`${name}`"),
            Self::Text(_) | Self::RawText(_) => f.write_str("a string"),
        }
    }
}

/// Longer ones first.
const SYMBOLS: [&str; 19] = [
    "==", "!=", "<=", ">=", "&&", "||", "^^", "<", ">", "~", "!", "(", ")", "{", "}", "[", "]",
    ",", "*",
];

/// The words, each with its place.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token<'_>, Place)>, ExpressionError> {
    let mut input = LocatingSlice::new(text);
    let mut tokens = Vec::new();
    loop {
        skip_blanks(&mut input);
        if input.is_empty() {
            return Ok(tokens);
        }
        let start = input.current_token_start();
        let place = Place::of(text, start);
        match token(&mut input) {
            Ok(token) => tokens.push((token, place)),
            Err(_) => return Err(ExpressionError::new(place, unreadable(&text[start..]))),
        }
    }
}

fn unreadable(rest: &str) -> String {
    match rest.chars().next() {
        Some('"') => "the string that begins here is not closed".to_owned(),
        Some('=') => "`=` is no operator; equality is `==` or `eq`".to_owned(),
        Some('&' | '|' | '^') => {
            "an operator has this sign twice, or is `and`, `or`, `xor`".to_owned()
        }
        Some('\'') => "strings stand in double quotes".to_owned(),
        Some(other) => format!("{other:?} has no meaning here"),
        None => "something is missing here".to_owned(),
    }
}

fn skip_blanks(input: &mut Input<'_>) {
    // Blanks, however few, always match.
    let _blanks: winnow::Result<&str> = multispace0.parse_next(input);
}

fn token<'t>(input: &mut Input<'t>) -> winnow::Result<Token<'t>> {
    alt((
        raw_text,
        quoted.map(Token::Text),
        preceded('$', take_while(1.., is_word)).map(Token::List),
        alt(SYMBOLS).map(Token::Symbol),
        take_while(1.., is_word).map(word),
    ))
    .parse_next(input)
}

fn quoted<'t>(input: &mut Input<'t>) -> winnow::Result<&'t str> {
    let piece = alt((none_of(['"', '\\']).void(), ('\\', any).void()));
    delimited('"', repeat::<_, _, (), _, _>(0.., piece).take(), '"').parse_next(input)
}

fn raw_text<'t>(input: &mut Input<'t>) -> winnow::Result<Token<'t>> {
    let hashes = delimited('r', take_while(0..=255, '#'), '"').parse_next(input)?;
    let end = format!("\"{hashes}");
    let inner = take_until(0.., end.as_str()).parse_next(input)?;
    end.as_str().parse_next(input)?;
    Ok(Token::RawText(inner))
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | ':' | '/')
}

fn word(text: &str) -> Token<'_> {
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if is_name && !text.contains(':') {
        Token::Name(text)
    } else {
        Token::Literal(text)
    }
}
