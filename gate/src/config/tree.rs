//! The raw configuration: a tree of values that know where they stand in the file. Knows no key of ours.
//!
//! A tree rather than serde structs: serde stops at the first fault, and a file's faults are to be shown all at once.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use toml::de::{DeInteger, DeTable, DeValue};

use super::error::Fault;

/// Longest value shown in a fault; the rest is cut.
const SHOWN_CHARS_MAX: usize = 60;

/// One value of the file.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Bytes of the file.
    pub(super) span: Range<usize>,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    String(String),
    /// Anything `i64` cannot hold is kept as it was written, to be shown.
    Integer(Result<i64, String>),
    Float(String),
    Boolean(bool),
    Datetime(String),
    Array(Vec<Node>),
    Table(Table),
}

/// A table's entries, ordered by key.
pub(super) type Table = Vec<Entry>;

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    /// Bytes of the key in the file.
    pub(super) key_span: Range<usize>,
    pub(super) node: Node,
}

impl Node {
    /// What kind of value this is, for messages.
    pub(super) const fn kind(&self) -> &'static str {
        match self.value {
            Value::String(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a number with a fraction",
            Value::Boolean(_) => "a boolean",
            Value::Datetime(_) => "a time",
            Value::Array(_) => "an array",
            Value::Table(_) => "a table",
        }
    }

    /// The value as it is shown in a fault.
    pub(super) fn shown(&self) -> String {
        let text = self.to_string();
        if text.chars().count() <= SHOWN_CHARS_MAX {
            return text;
        }
        let mut short: String = text.chars().take(SHOWN_CHARS_MAX).collect();
        short.push('…');
        short
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            // Debug escapes what would break a terminal or the line.
            Value::String(text) => {
                let head: String = text.chars().take(SHOWN_CHARS_MAX + 1).collect();
                write!(f, "{head:?}")
            }
            Value::Integer(Ok(number)) => write!(f, "{number}"),
            Value::Integer(Err(text)) | Value::Float(text) | Value::Datetime(text) => {
                f.write_str(text)
            }
            Value::Boolean(value) => write!(f, "{value}"),
            Value::Array(items) if items.len() > 8 => write!(f, "[{} items]", items.len()),
            Value::Array(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}{item}")?;
                }
                f.write_str("]")
            }
            Value::Table(_) => f.write_str("{…}"),
        }
    }
}

/// Reads TOML text.
///
/// # Errors
/// Every syntax fault of the text; values are not looked at then, since a broken text yields misleading ones.
pub(super) fn parse(text: &str) -> Result<Table, Vec<Fault>> {
    let lines = Lines::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(table_from(table.into_inner()));
    }
    Err(errors
        .iter()
        .map(|error| Fault {
            line: error.span().map(|span| lines.of(span.start)),
            key: String::new(),
            value: None,
            problem: format!("not TOML: {}", error.message()),
        })
        .collect())
}

fn table_from(table: DeTable<'_>) -> Table {
    table
        .into_iter()
        .map(|(key, value)| Entry {
            key_span: key.span(),
            key: Cow::into_owned(key.into_inner()),
            node: Node {
                span: value.span(),
                value: value_from(value.into_inner()),
            },
        })
        .collect()
}

fn value_from(value: DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Integer(number) => Value::Integer(integer_from(&number)),
        DeValue::Float(number) => Value::Float(number.as_str().to_owned()),
        DeValue::Boolean(value) => Value::Boolean(value),
        DeValue::Datetime(time) => Value::Datetime(time.to_string()),
        DeValue::Array(items) => Value::Array(
            items
                .into_iter()
                .map(|item| Node {
                    span: item.span(),
                    value: value_from(item.into_inner()),
                })
                .collect(),
        ),
        DeValue::Table(table) => Value::Table(table_from(table)),
    }
}

fn integer_from(number: &DeInteger<'_>) -> Result<i64, String> {
    i64::from_str_radix(number.as_str(), number.radix()).map_err(|_| number.to_string())
}

/// Where the lines of a text begin.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        let after_breaks = text
            .bytes()
            .enumerate()
            .filter(|(_, byte)| *byte == b'\n')
            .map(|(index, _)| index + 1);
        Self {
            starts: std::iter::once(0).chain(after_breaks).collect(),
        }
    }

    /// Line of a byte, from 1.
    pub(super) fn of(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte)
    }
}

impl Value {
    pub(super) const fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(Ok(number)) => Some(*number),
            Self::String(_)
            | Self::Integer(Err(_))
            | Self::Float(_)
            | Self::Boolean(_)
            | Self::Datetime(_)
            | Self::Array(_)
            | Self::Table(_) => None,
        }
    }
}
