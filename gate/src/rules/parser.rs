//! The grammar: from words to a compiled expression, or the first fault with its place.
//!
//! ```text
//! or      = xor (("or" | "||") xor)*
//! xor     = and (("xor" | "^^") and)*
//! and     = unary (("and" | "&&") unary)*
//! unary   = ("not" | "!") unary | "(" or ")" | ("any" | "all") "(" test ")" | test
//! test    = ("starts_with" | "ends_with") "(" operand "," text ")" | operand [operator value]
//! operand = ("lower" | "upper" | "len") "(" operand ")" | field [ "[" text "]" ] [ "[" (number | "*") "]" ]
//! ```

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use memchr::memmem;

use super::address::{AddressRange, AddressSet};
use super::error::{ExpressionError, Place};
use super::expression::{Function, Node, NumberOrder, Operand, Pick, Predicate, Test};
use super::field::{FIELDS, Field, Shape, unsupported};
use super::lexer::{Token, tokens};
use super::list::{HostSet, List, Lists};
use super::text::{self, Text};

/// What may stand before `in $name`.
const LISTS_COMPARE: &str =
    "lists hold addresses or host names; ip.src and http.host are compared with them";

/// Deepest nesting of parentheses, `not` and functions. A deeper expression is refused.
pub const DEPTH_MAX: usize = 64;

type Result<T> = std::result::Result<T, ExpressionError>;

/// What kind of value an operand has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Address,
    Number,
    Truth,
    /// A list as a whole.
    List,
}

pub(super) fn parse(text: &str, lists: &Lists) -> Result<Node> {
    let tokens = tokens(text)?;
    let mut parser = Parser {
        end: Place::of(text, text.trim_end().len()),
        tokens: &tokens,
        at: 0,
        depth: 0,
        lists,
    };
    if tokens.is_empty() {
        return Err(parser.fault("the expression is empty"));
    }
    let node = parser.or()?;
    match parser.peek() {
        None => Ok(node),
        Some(Token::Symbol(")")) => Err(parser.fault("this `)` closes nothing")),
        Some(token) => Err(parser.fault(format!(
            "{token} does not belong here; comparisons are joined by and, or, xor"
        ))),
    }
}

struct Parser<'p, 't> {
    tokens: &'p [(Token<'t>, Place)],
    at: usize,
    depth: usize,
    lists: &'p Lists,
    end: Place,
}

impl<'t> Parser<'_, 't> {
    fn peek(&self) -> Option<Token<'t>> {
        self.tokens.get(self.at).map(|(token, _)| *token)
    }

    fn place(&self) -> Place {
        self.tokens
            .get(self.at)
            .map_or(self.end, |(_, place)| *place)
    }

    fn next(&mut self) -> Option<Token<'t>> {
        let token = self.peek();
        self.at += usize::from(token.is_some());
        token
    }

    /// A fault at the next word.
    fn fault(&self, problem: impl Into<String>) -> ExpressionError {
        ExpressionError::new(self.place(), problem)
    }

    fn missing(&self, wanted: &str) -> ExpressionError {
        match self.peek() {
            Some(token) => self.fault(format!("{wanted} must stand here, not {token}")),
            None => self.fault(format!("the expression ends where {wanted} must stand")),
        }
    }

    fn takes(&mut self, symbol: &str) -> bool {
        let is_there = self.peek() == Some(Token::Symbol(symbol));
        self.at += usize::from(is_there);
        is_there
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_there = self.peek() == Some(Token::Name(word));
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.takes(symbol) {
            Ok(())
        } else {
            Err(self.missing(&format!("`{symbol}`")))
        }
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return Err(self.fault(format!("nested more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn or(&mut self) -> Result<Node> {
        self.chain(["or", "||"], Node::Or, |parser| {
            parser.chain(["xor", "^^"], Node::Xor, |parser| {
                parser.chain(["and", "&&"], Node::And, Self::unary)
            })
        })
    }

    fn chain(
        &mut self,
        [word, symbol]: [&str; 2],
        join: impl FnOnce(Vec<Node>) -> Node,
        mut part: impl FnMut(&mut Self) -> Result<Node>,
    ) -> Result<Node> {
        let first = part(self)?;
        let mut nodes = vec![first];
        while self.takes_word(word) || self.takes(symbol) {
            nodes.push(part(self)?);
        }
        Ok(match nodes.len() {
            1 => nodes.swap_remove(0),
            _ => join(nodes),
        })
    }

    fn unary(&mut self) -> Result<Node> {
        if self.takes_word("not") || self.takes("!") {
            let node = self.nested(Self::unary)?;
            return Ok(Node::Not(Box::new(node)));
        }
        if self.takes("(") {
            let node = self.nested(Self::or)?;
            self.expect(")")?;
            return Ok(node);
        }
        for (word, quantified) in [("any", Node::Any as fn(Test) -> Node), ("all", Node::All)] {
            if self.peek() != Some(Token::Name(word)) {
                continue;
            }
            self.at += 1;
            self.expect("(")?;
            let place = self.place();
            let test = self.test()?;
            if test.operand.pick != Pick::Each {
                return Err(ExpressionError::new(
                    place,
                    format!("{word}(…) is about a list: put [*] behind it"),
                ));
            }
            self.expect(")")?;
            return Ok(quantified(test));
        }
        let place = self.place();
        let test = self.test()?;
        if test.operand.pick == Pick::Each {
            return Err(ExpressionError::new(
                place,
                "a comparison with [*] has many answers: put it into any(…) or all(…)",
            ));
        }
        Ok(Node::Test(test))
    }

    fn test(&mut self) -> Result<Test> {
        for (word, predicate) in [
            (
                "starts_with",
                Predicate::StartsWith as fn(Box<[u8]>) -> Predicate,
            ),
            ("ends_with", Predicate::EndsWith),
        ] {
            if self.peek() != Some(Token::Name(word)) {
                continue;
            }
            self.at += 1;
            self.expect("(")?;
            let operand = self.operand_of(Kind::Text, word)?;
            self.expect(",")?;
            let wanted = self.text()?;
            self.expect(")")?;
            return Ok(Test {
                operand,
                predicate: predicate(wanted.into()),
            });
        }
        let place = self.place();
        let (operand, kind) = self.operand()?;
        let predicate = match kind {
            Kind::Truth => self.truth()?,
            Kind::Text => self.text_predicate(operand.field)?,
            Kind::Number => self.number_predicate()?,
            Kind::Address => self.address_predicate()?,
            Kind::List => {
                return Err(ExpressionError::new(
                    place,
                    "a list is compared value by value: any(…[*] …), or its first value: …[0]",
                ));
            }
        };
        Ok(Test { operand, predicate })
    }

    fn operand_of(&mut self, wanted: Kind, function: &str) -> Result<Operand> {
        let place = self.place();
        let (operand, kind) = self.operand()?;
        if kind == wanted {
            return Ok(operand);
        }
        let problem = match kind {
            Kind::List => format!("{function}() takes one text: put [*] or [0] behind the list"),
            Kind::Text | Kind::Address | Kind::Number | Kind::Truth => {
                format!("{function}() takes a text")
            }
        };
        Err(ExpressionError::new(place, problem))
    }

    fn operand(&mut self) -> Result<(Operand, Kind)> {
        let place = self.place();
        let Some(Token::Name(name)) = self.peek() else {
            return Err(self.missing("a field or function"));
        };
        self.at += 1;
        if self.takes("(") {
            let result = self.nested(|parser| parser.function(name, place))?;
            self.expect(")")?;
            // The field's texts write it again behind a function over a list.
            if result.0.pick == Pick::Each && self.takes("[") {
                self.expect("*")?;
                self.expect("]")?;
            }
            return Ok(result);
        }
        let Some((_, field, shape)) = FIELDS.iter().find(|(known, ..)| *known == name) else {
            return Err(ExpressionError::new(place, unknown_field(name)));
        };
        let key = match shape {
            Shape::Map => Some(self.key(name, *field)?),
            Shape::Text | Shape::Address | Shape::Truth | Shape::List => None,
        };
        let pick = match shape {
            Shape::Map | Shape::List => self.pick()?,
            Shape::Text | Shape::Address | Shape::Truth => Pick::Single,
        };
        let kind = match (shape, pick) {
            (Shape::Address, _) => Kind::Address,
            (Shape::Truth, _) => Kind::Truth,
            (Shape::List | Shape::Map, Pick::Whole) => Kind::List,
            (Shape::Text | Shape::List | Shape::Map, _) => Kind::Text,
        };
        let operand = Operand {
            field: *field,
            key,
            pick,
            functions: Vec::new(),
        };
        Ok((operand, kind))
    }

    fn function(&mut self, name: &str, place: Place) -> Result<(Operand, Kind)> {
        let function = match name {
            "lower" => Function::Lower,
            "upper" => Function::Upper,
            "len" => Function::Length,
            "any" | "all" | "starts_with" | "ends_with" => {
                return Err(ExpressionError::new(
                    place,
                    format!("{name}() is true or false, and no value that could be worked with"),
                ));
            }
            _ => {
                return Err(ExpressionError::new(
                    place,
                    format!(
                        "no function {name}(); there are starts_with, ends_with, lower, upper, len, any and all"
                    ),
                ));
            }
        };
        if function != Function::Length {
            let mut operand = self.operand_of(Kind::Text, name)?;
            operand.functions.push(function);
            return Ok((operand, Kind::Text));
        }
        let inner = self.place();
        let (mut operand, kind) = self.operand()?;
        match kind {
            // How many values a list has is what reading it as a whole gives.
            Kind::List => {}
            Kind::Text => operand.functions.push(function),
            Kind::Address | Kind::Number | Kind::Truth => {
                return Err(ExpressionError::new(inner, "len() takes a text or a list"));
            }
        }
        Ok((operand, Kind::Number))
    }

    /// `["name"]` behind a map.
    fn key(&mut self, name: &str, field: Field) -> Result<String> {
        if !self.takes("[") {
            return Err(self.fault(format!("{name} is taken by name: {name}[\"…\"]")));
        }
        let place = self.place();
        let key = String::from_utf8(self.text()?)
            .map_err(|_| ExpressionError::new(place, "the name must be UTF-8"))?;
        self.expect("]")?;
        Ok(if field == Field::Headers {
            key.to_ascii_lowercase()
        } else {
            key
        })
    }

    /// `[*]` or `[0]` behind a list; nothing for all of it.
    fn pick(&mut self) -> Result<Pick> {
        if !self.takes("[") {
            return Ok(Pick::Whole);
        }
        let pick = if self.takes("*") {
            Pick::Each
        } else if let Some(Token::Literal(number)) = self.peek()
            && let Ok(index) = number.parse::<u16>()
        {
            self.at += 1;
            Pick::Index(usize::from(index))
        } else {
            return Err(self.missing("`*` or a number from 0 to 65535"));
        };
        self.expect("]")?;
        Ok(pick)
    }

    fn truth(&mut self) -> Result<Predicate> {
        match self.peek() {
            Some(Token::Symbol("==" | "!=") | Token::Name("eq" | "ne")) => Err(self.fault(
                "this field is true or false by itself: write it alone, or with `not` before it",
            )),
            _ => Ok(Predicate::IsTrue),
        }
    }

    fn text_predicate(&mut self, field: Field) -> Result<Predicate> {
        let place = self.place();
        let operator = self.operator()?;
        Ok(match operator {
            "==" | "eq" => Predicate::Equals(self.text()?.into()),
            "!=" | "ne" => Predicate::Differs(self.text()?.into()),
            "contains" => {
                let finder = memmem::Finder::new(&self.text()?).into_owned();
                Predicate::Contains(Box::new(finder))
            }
            "matches" | "~" => Predicate::Matches(self.compiled(text::regex)?),
            "wildcard" => Predicate::Matches(self.compiled(text::wildcard)?),
            "strict" => {
                if !self.takes_word("wildcard") {
                    return Err(self.missing("`wildcard`"));
                }
                Predicate::Matches(self.compiled(text::strict_wildcard)?)
            }
            "in" => {
                if let Some(Token::List(name)) = self.peek() {
                    return self.hosts(name, field);
                }
                let mut set: HashSet<Box<[u8]>> = HashSet::new();
                self.set(|parser| {
                    set.insert(parser.text()?.into());
                    Ok(())
                })?;
                Predicate::OneOf(set)
            }
            other => {
                return Err(ExpressionError::new(
                    place,
                    format!(
                        "`{other}` does not compare texts; eq, ne, contains, matches, wildcard, strict wildcard and in do"
                    ),
                ));
            }
        })
    }

    fn number_predicate(&mut self) -> Result<Predicate> {
        let place = self.place();
        let order = match self.operator()? {
            "==" | "eq" => NumberOrder::Equal,
            "!=" | "ne" => NumberOrder::Different,
            "<" | "lt" => NumberOrder::Less,
            "<=" | "le" => NumberOrder::LessOrEqual,
            ">" | "gt" => NumberOrder::Greater,
            ">=" | "ge" => NumberOrder::GreaterOrEqual,
            "in" => {
                let mut ranges = Vec::new();
                self.set(|parser| {
                    ranges.push(parser.numbers()?);
                    Ok(())
                })?;
                return Ok(Predicate::NumberIn(ranges));
            }
            other => {
                return Err(ExpressionError::new(
                    place,
                    format!("`{other}` does not compare numbers; eq, ne, lt, le, gt, ge and in do"),
                ));
            }
        };
        let place = self.place();
        let range = self.numbers()?;
        if range.start() != range.end() {
            return Err(ExpressionError::new(
                place,
                "a range stands in {…} behind `in`",
            ));
        }
        Ok(Predicate::Number(order, *range.start()))
    }

    fn address_predicate(&mut self) -> Result<Predicate> {
        let place = self.place();
        match self.operator()? {
            "==" | "eq" => Ok(Predicate::AddressIn(self.one_address()?)),
            "!=" | "ne" => Ok(Predicate::AddressNotIn(self.one_address()?)),
            "in" => {
                if let Some(Token::List(name)) = self.peek() {
                    return self.address_list(name);
                }
                let mut ranges = Vec::new();
                self.set(|parser| {
                    ranges.push(parser.addresses()?);
                    Ok(())
                })?;
                Ok(Predicate::AddressIn(Arc::new(ranges.into_iter().collect())))
            }
            other => Err(ExpressionError::new(
                place,
                format!("`{other}` does not compare addresses; eq, ne and in do"),
            )),
        }
    }

    /// The name of a list of addresses, which is next.
    fn address_list(&mut self, name: &str) -> Result<Predicate> {
        let set = match self.list(name)? {
            List::Addresses(set) => Arc::clone(set),
            List::Empty => Arc::new(AddressSet::default()),
            List::Hosts(_) => {
                return Err(self.fault(format!(
                    "${name} is a list of host names; http.host is compared with it"
                )));
            }
        };
        self.at += 1;
        Ok(Predicate::AddressIn(set))
    }

    /// The name of a list of host names, which is next.
    fn hosts(&mut self, name: &str, field: Field) -> Result<Predicate> {
        let set = match self.list(name)? {
            _ if field != Field::Host => {
                return Err(self.fault(LISTS_COMPARE));
            }
            List::Hosts(set) => Arc::clone(set),
            List::Empty => Arc::new(HostSet::default()),
            List::Addresses(_) => {
                return Err(self.fault(format!(
                    "${name} is a list of addresses; ip.src is compared with it"
                )));
            }
        };
        self.at += 1;
        Ok(Predicate::HostIn(set))
    }

    fn list(&self, name: &str) -> Result<&List> {
        if let Some(list) = self.lists.get(name) {
            return Ok(list);
        }
        Err(self.fault(if name.starts_with("cf.") {
            format!("${name} is a list of the vendor's; write one of your own into [lists]")
        } else {
            format!("no list {name} in [lists]")
        }))
    }

    fn operator(&mut self) -> Result<&'t str> {
        match self.peek() {
            Some(
                Token::Symbol(operator @ ("==" | "!=" | "<" | "<=" | ">" | ">=" | "~"))
                | Token::Name(operator),
            ) => {
                self.at += 1;
                Ok(operator)
            }
            _ => Err(self.missing("an operator")),
        }
    }

    /// `{…}`, its items separated by blanks; a comma between them is taken, too.
    fn set(&mut self, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if let Some(Token::List(_)) = self.peek() {
            return Err(self.fault(LISTS_COMPARE));
        }
        self.expect("{")?;
        if self.takes("}") {
            return Err(self.fault("the set before this is empty"));
        }
        loop {
            item(self)?;
            if self.takes("}") {
                return Ok(());
            }
            self.takes(",");
        }
    }

    fn numbers(&mut self) -> Result<RangeInclusive<i64>> {
        let Some(Token::Literal(literal)) = self.peek() else {
            return Err(self.missing("a number"));
        };
        let (low, high) = literal.split_once("..").unwrap_or((literal, literal));
        let (Ok(low), Ok(high)) = (low.parse::<i64>(), high.parse::<i64>()) else {
            return Err(self.missing("a number"));
        };
        if low > high {
            return Err(self.fault("the range runs backwards"));
        }
        self.at += 1;
        Ok(low..=high)
    }

    fn addresses(&mut self) -> Result<AddressRange> {
        match self.peek() {
            // `::1` and `fe80::1`, but also `abc`, are read as some word.
            Some(Token::Literal(text) | Token::Name(text)) => {
                let range = text
                    .parse()
                    .map_err(|problem: String| self.fault(problem))?;
                self.at += 1;
                Ok(range)
            }
            Some(Token::Text(_) | Token::RawText(_)) => {
                Err(self.fault("addresses stand without quotes"))
            }
            Some(Token::List(_) | Token::Symbol(_)) | None => Err(self.missing("an address")),
        }
    }

    fn one_address(&mut self) -> Result<Arc<AddressSet>> {
        if let Some(Token::Literal(text)) = self.peek()
            && (text.contains('/') || text.contains(".."))
        {
            return Err(self.fault(format!(
                "{text} is more than one address: write ip.src in {{{text}}}"
            )));
        }
        let range = self.addresses()?;
        Ok(Arc::new(std::iter::once(range).collect()))
    }

    fn text(&mut self) -> Result<Vec<u8>> {
        self.compiled(text::bytes)
    }

    /// A string, as `read` understands it.
    fn compiled<T>(
        &mut self,
        read: impl FnOnce(Text<'t>) -> std::result::Result<T, String>,
    ) -> Result<T> {
        let text = match self.peek() {
            Some(Token::Text(source)) => Text::Quoted(source),
            Some(Token::RawText(source)) => Text::Raw(source),
            Some(Token::Name(_) | Token::List(_) | Token::Literal(_) | Token::Symbol(_)) | None => {
                return Err(self.missing("a string in double quotes"));
            }
        };
        let value = read(text).map_err(|problem| self.fault(problem))?;
        self.next();
        Ok(value)
    }
}

/// Smallest likeness (Jaro-Winkler, 0 to 1) at which an unknown field is taken for a misspelt known one.
const LIKENESS_MIN: f64 = 0.85;

fn unknown_field(name: &str) -> String {
    if let Some(reason) = unsupported(name) {
        return format!("{name} is not supported: {reason}");
    }
    let nearest = FIELDS
        .iter()
        .filter(|_| name.len() <= 128)
        .map(|(known, ..)| (strsim::jaro_winkler(name, known), known))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    match nearest {
        Some((_, known)) => format!("no field {name}; did you mean {known}?"),
        None => {
            let known: Vec<&str> = FIELDS.iter().map(|(known, ..)| *known).collect();
            format!("no field {name}; there are {}", known.join(", "))
        }
    }
}
