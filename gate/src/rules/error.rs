//! What is wrong with an expression, and where.

use std::fmt;

/// A place in an expression; both count characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

impl Place {
    /// The place of a byte that begins a character.
    pub(super) fn of(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// Why an expression cannot be used: the first fault, with its line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    pub place: Place,
    /// What is wrong and what is allowed.
    pub problem: String,
}

impl ExpressionError {
    pub(super) fn new(place: Place, problem: impl Into<String>) -> Self {
        Self {
            place,
            problem: problem.into(),
        }
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column } = self.place;
        write!(f, "line {line}, column {column}: {}", self.problem)
    }
}

impl std::error::Error for ExpressionError {}
