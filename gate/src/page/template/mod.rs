//! Custom pages: Mustache as Mustache.js reads it, compiled once and filled for every answer.
//!
//! Written here because the kept Mustache crates take `0` and `""` as true, while the field's templates rely on
//! Mustache.js, where both are false (`{{^refreshIntervalSeconds}}` is how a page learns that it does not refresh). The
//! context is a flat, fixed set of variables, so names are resolved and faults are found when a page is written, and
//! filling one is a walk over a list: it cannot fail, recurse or look anything up by name.
//!
//! Like Mustache.js: sections, inverted sections, `{{{raw}}}` and `{{&raw}}`, comments, other delimiters, `{{.}}`, lines that hold only
//! tags vanish, `& < > " ' / ` =` are escaped. Partials have nowhere to come from; they render nothing and are reported.
//!
//! ESA's `${name}` is filled as well. Outside scripts it means nothing else; inside `<script>` it is JavaScript's own and only
//! filled where the room speaks ESA's dialect.

mod parse;

use std::fmt;
use std::ops::Range;

use super::language::Language;
use super::texts::Words;
use super::values::{Personal, Values, Variable, Vocabulary};
use crate::room::WaitView;

/// Longest template, the field's limit. A longer one is refused when written.
pub const TEMPLATE_BYTES_MAX: usize = 1_048_576;
/// Sections inside sections. A template with more is refused when written.
pub const SECTION_DEPTH_MAX: usize = 64;
/// Warnings kept for one template; further ones are dropped.
pub const TEMPLATE_WARNINGS_MAX: usize = 100;

/// Where `${name}` is filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Outside scripts only: a Cloudflare page may hold JavaScript template literals.
    #[default]
    Cloudflare,
    /// Everywhere, as ESA does.
    Esa,
}

/// A checked page, ready to fill.
#[derive(Clone)]
pub struct Template {
    source: Box<str>,
    operations: Box<[Operation]>,
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template")
            .field("bytes", &self.source.len())
            .field("operations", &self.operations.len())
            .finish()
    }
}

/// Whether a value is escaped for HTML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    Html,
    Raw,
}

impl Escape {
    /// Escapes what was written since `start`.
    pub(super) fn apply(self, out: &mut String, start: usize) {
        match self {
            Self::Raw => {}
            Self::Html => escape_tail(out, start),
        }
    }
}

/// When a section is rendered. Unknown variables (`None`) are false.
#[derive(Clone, Copy, Debug)]
enum Condition {
    If(Option<Variable>),
    Unless(Option<Variable>),
}

#[derive(Clone, Debug)]
enum Operation {
    Literal(Range<usize>),
    Fill(Variable, Escape),
    /// Goes on at `end` unless the condition holds.
    Section {
        condition: Condition,
        end: usize,
    },
}

/// Where something stands in a template; both count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a text is no template. What was in force before stays in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// Longer than [`TEMPLATE_BYTES_MAX`].
    TooLong {
        bytes: usize,
    },
    UnclosedTag(Location),
    TagWithoutName(Location),
    UnclosedSection {
        at: Location,
        name: String,
    },
    /// A section is closed that was not open.
    UnopenedSection {
        at: Location,
        name: String,
    },
    /// A section is closed while another is open inside it.
    CrossedSections {
        at: Location,
        closed: String,
        open: String,
    },
    BadDelimiters(Location),
    /// Deeper than [`SECTION_DEPTH_MAX`].
    TooDeep(Location),
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => write!(
                f,
                "the template has {bytes} bytes; at most {TEMPLATE_BYTES_MAX} are allowed"
            ),
            Self::UnclosedTag(at) => write!(f, "{at}: the tag that begins here is not closed"),
            Self::TagWithoutName(at) => write!(f, "{at}: the tag names no variable"),
            Self::UnclosedSection { at, name } => {
                write!(f, "{at}: the section {name:?} is not closed")
            }
            Self::UnopenedSection { at, name } => {
                write!(f, "{at}: the section {name:?} is closed but was not opened")
            }
            Self::CrossedSections { at, closed, open } => write!(
                f,
                "{at}: the section {closed:?} is closed while {open:?} is still open"
            ),
            Self::BadDelimiters(at) => write!(
                f,
                "{at}: a change of delimiters must be two of them between equals signs, as in {{{{=<% %>=}}}}"
            ),
            Self::TooDeep(at) => write!(
                f,
                "{at}: sections are nested more than {SECTION_DEPTH_MAX} deep"
            ),
        }
    }
}

impl std::error::Error for TemplateError {}

/// Something in a template that renders nothing and probably was not meant to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateWarning {
    pub at: Location,
    pub kind: TemplateWarningKind,
}

/// What a [`TemplateWarning`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateWarningKind {
    /// No variable has this name.
    UnknownVariable(String),
    /// `{{> name}}`: there are no partials.
    Partial(String),
}

impl fmt::Display for TemplateWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at;
        match &self.kind {
            TemplateWarningKind::UnknownVariable(name) => {
                write!(f, "{at}: there is no variable {name:?}; it renders nothing")
            }
            TemplateWarningKind::Partial(name) => {
                write!(f, "{at}: there are no partials; {name:?} renders nothing")
            }
        }
    }
}

impl Template {
    /// Checks and compiles a custom page.
    pub fn parse(
        source: &str,
        dialect: Dialect,
    ) -> Result<(Self, Vec<TemplateWarning>), TemplateError> {
        parse::parse(source, parse::Dollars::Of(dialect), Vocabulary::Custom)
    }

    /// Compiles a page of our own, which may use the variables of the built-in page.
    pub(super) fn built_in(source: &str) -> Result<Self, TemplateError> {
        let (template, warnings) =
            parse::parse(source, parse::Dollars::Literal, Vocabulary::BuiltIn)?;
        debug_assert_eq!(warnings, []);
        Ok(template)
    }

    /// Appends the page for one view.
    pub fn fill(&self, language: Language, view: &WaitView, out: &mut String) {
        let values = Values::new(view, Words::of(language));
        self.walk(&values, out, |_, variable, escape, out| {
            fill_one(&values, variable, escape, out);
        });
    }

    /// Appends the page without what is personal, and tells `hole` where that goes.
    pub(super) fn prepare(
        &self,
        language: Language,
        view: &WaitView,
        out: &mut String,
        mut hole: impl FnMut(usize, Personal, Escape),
    ) {
        let values = Values::new(view, Words::of(language));
        self.walk(&values, out, |personal, variable, escape, out| {
            match personal {
                Some(personal) => hole(out.len(), personal, escape),
                None => fill_one(&values, variable, escape, out),
            };
        });
    }

    fn walk(
        &self,
        values: &Values<'_>,
        out: &mut String,
        mut fill: impl FnMut(Option<Personal>, Variable, Escape, &mut String),
    ) {
        let mut next = 0;
        while let Some(operation) = self.operations.get(next) {
            next += 1;
            match operation {
                Operation::Literal(range) => out.push_str(&self.source[range.clone()]),
                Operation::Fill(variable, escape) => {
                    fill(variable.personal(), *variable, *escape, out);
                }
                Operation::Section { condition, end } => {
                    let is_truthy =
                        |of: &Option<Variable>| of.is_some_and(|of| values.is_truthy(of));
                    let renders = match condition {
                        Condition::If(of) => is_truthy(of),
                        Condition::Unless(of) => !is_truthy(of),
                    };
                    if !renders {
                        next = *end;
                    }
                }
            }
        }
    }
}

fn fill_one(values: &Values<'_>, variable: Variable, escape: Escape, out: &mut String) {
    let start = out.len();
    values.write(variable, out);
    escape.apply(out, start);
}

/// Escapes what was written since `start` as Mustache.js does.
fn escape_tail(out: &mut String, start: usize) {
    const ESCAPED: [u8; 8] = *b"&<>\"'/`=";
    if !out.as_bytes()[start..]
        .iter()
        .any(|byte| ESCAPED.contains(byte))
    {
        return;
    }
    let tail = out.split_off(start);
    for character in tail.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '/' => out.push_str("&#x2F;"),
            '`' => out.push_str("&#x60;"),
            '=' => out.push_str("&#x3D;"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests;
