//! Bypass rules: expressions in the field's Rules language on a request's head. Requests that fit are forwarded as if there
//! were no room. Checked when written, compiled once; the decision is the room's only where no rule fits.
//!
//! The language's own engine, the crate `wirefilter-engine`, is not used: the registry has version 0.6.1 of 2019, which knows
//! neither functions nor `starts_with`, arrays, named lists or wildcards, and later versions are not published there. Words are
//! read with `winnow`, regular expressions with `regex` (linear time on every input).
//!
//! A request's path is compared as sent where it has one reading. A path that origins read in several ways (`//`, `/./`,
//! `/../`, `%2F`, `;`, `\`) must fit in each of them, so that no spelling of a covered page slips past its room on the
//! strength of a rule for another one.

mod address;
pub mod crawlers;
mod error;
mod expression;
mod field;
mod lexer;
mod list;
mod parser;
mod path;
#[cfg(test)]
mod tests;
mod text;

pub use address::{AddressRange, AddressSet};
pub use crawlers::{CrawlerSettings, Crawlers, Dns, DnsError, SystemDns, parse_ranges};
pub use error::{ExpressionError, Place};
pub use field::{Facts, Transport};
pub use list::{HostPattern, HostSet, List, ListEntry, Lists, MixedList};
pub use parser::DEPTH_MAX;
pub use text::REGEX_BYTES_MAX;

/// Longest expression. A longer one is refused.
pub const EXPRESSION_BYTES_MAX: usize = 4_096;

/// One compiled expression.
#[derive(Clone, Debug)]
pub struct Expression(expression::Node);

impl Expression {
    /// Reads and checks an expression.
    ///
    /// # Errors
    /// Its first fault, with line and column.
    pub fn parse(text: &str, lists: &Lists) -> Result<Self, ExpressionError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(ExpressionError::new(
                Place { line: 1, column: 1 },
                format!(
                    "the expression has {} bytes; at most {EXPRESSION_BYTES_MAX} are allowed",
                    text.len()
                ),
            ));
        }
        parser::parse(text, lists).map(Self)
    }

    /// Whether a request fits, by every reading of its path.
    pub fn matches(&self, facts: &Facts<'_>) -> bool {
        self.0.holds(facts)
            && path::other_readings(facts.path)
                .iter()
                .all(|path| self.0.holds(&Facts { path, ..*facts }))
    }
}

/// One rule of a room (`[[rooms.rules]]`).
#[derive(Clone, Debug)]
pub struct Rule {
    pub description: String,
    pub expression: Expression,
}

/// The rules of a room that are enabled.
#[derive(Clone, Debug, Default)]
pub struct BypassRules(Vec<Rule>);

impl BypassRules {
    pub fn new(rules: Vec<Rule>) -> Self {
        Self(rules)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn rules(&self) -> &[Rule] {
        &self.0
    }

    /// Whether one of them fits.
    pub fn matches(&self, facts: &Facts<'_>) -> bool {
        self.0.iter().any(|rule| rule.expression.matches(facts))
    }
}
