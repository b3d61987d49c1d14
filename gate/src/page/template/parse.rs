//! Reads a template into operations.

use std::ops::Range;

use super::{
    Condition, Dialect, Escape, Location, Operation, SECTION_DEPTH_MAX, TEMPLATE_BYTES_MAX,
    TEMPLATE_WARNINGS_MAX, Template, TemplateError, TemplateWarning, TemplateWarningKind, Variable,
    Vocabulary,
};

/// How far the end of `${name}` is looked for, so that a line of `${${${…` costs no more than its length. Anything longer is
/// text.
const DOLLAR_NAME_BYTES_MAX: usize = 64;

/// What `${name}` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dollars {
    Literal,
    Of(Dialect),
}

pub(super) fn parse(
    source: &str,
    dollars: Dollars,
    vocabulary: Vocabulary,
) -> Result<(Template, Vec<TemplateWarning>), TemplateError> {
    if source.len() > TEMPLATE_BYTES_MAX {
        return Err(TemplateError::TooLong {
            bytes: source.len(),
        });
    }
    let mut parser = Parser {
        source,
        dollars,
        vocabulary,
        operations: Vec::new(),
        open: Vec::new(),
        line: Line::default(),
        script: Script::Outside,
        warnings: Vec::new(),
        lines: LineCounter::default(),
    };
    parser.run()?;
    let template = Template {
        source: source.into(),
        operations: merge_literals(parser.operations),
    };
    Ok((template, parser.warnings))
}

/// A section whose end was not read yet.
#[derive(Debug)]
struct OpenSection<'s> {
    name: &'s str,
    tag_at: usize,
    operation: usize,
    /// What `{{.}}` means inside: nothing for booleans, which Mustache.js does not push.
    current: Option<Variable>,
}

/// The line being read, to drop it if it holds nothing but tags.
#[derive(Debug, Default)]
struct Line {
    has_section_tag: bool,
    has_content: bool,
    /// Operations that are white space of this line.
    blanks: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    Outside,
    Inside,
}

/// Turns offsets, which only ever grow, into locations without counting from the start each time.
#[derive(Debug)]
struct LineCounter {
    counted: usize,
    line: usize,
    line_start: usize,
}

impl Default for LineCounter {
    fn default() -> Self {
        Self {
            counted: 0,
            line: 1,
            line_start: 0,
        }
    }
}

impl LineCounter {
    fn locate(&mut self, source: &str, offset: usize) -> Location {
        if offset < self.counted {
            *self = Self::default();
        }
        for (index, _) in source[self.counted..offset].match_indices('\n') {
            self.line += 1;
            self.line_start = self.counted + index + 1;
        }
        self.counted = offset;
        Location {
            line: self.line,
            column: source[self.line_start..offset].chars().count() + 1,
        }
    }
}

struct Parser<'s> {
    source: &'s str,
    dollars: Dollars,
    vocabulary: Vocabulary,
    operations: Vec<Operation>,
    open: Vec<OpenSection<'s>>,
    line: Line,
    script: Script,
    warnings: Vec<TemplateWarning>,
    lines: LineCounter,
}

impl<'s> Parser<'s> {
    fn run(&mut self) -> Result<(), TemplateError> {
        let mut opening = "{{";
        let mut closing = "}}";
        let mut at = 0;
        while let Some(found) = self.source[at..].find(opening) {
            let tag_at = at + found;
            self.text(at..tag_at);
            let inside = tag_at + opening.len();
            let body = self.source[inside..].trim_start();
            let body_at = self.source.len() - body.len();
            let sigil = body.chars().next().unwrap_or(' ');
            // What must stand between the tag's text and the closing delimiter.
            let suffix = match sigil {
                '{' => "}",
                '=' => "=",
                _ => "",
            };
            let has_sigil = "#^/>{&=!".contains(sigil);
            let content_at = body_at + usize::from(has_sigil);
            let unclosed = |parser: &mut Self| TemplateError::UnclosedTag(parser.locate(tag_at));
            let (content, end) =
                find_end(self.source, content_at, suffix, closing).ok_or_else(|| unclosed(self))?;
            match sigil {
                '!' => self.line.has_section_tag = true,
                '=' => {
                    self.line.has_section_tag = true;
                    let mut two = content.split_whitespace();
                    match (two.next(), two.next(), two.next()) {
                        (Some(new_opening), Some(new_closing), None) if !content.contains('=') => {
                            opening = new_opening;
                            closing = new_closing;
                        }
                        _ => return Err(TemplateError::BadDelimiters(self.locate(tag_at))),
                    }
                }
                _ => self.tag(sigil, content, tag_at)?,
            }
            at = end;
        }
        self.text(at..self.source.len());
        self.end_line();
        match self.open.pop() {
            Some(section) => Err(TemplateError::UnclosedSection {
                at: self.locate(section.tag_at),
                name: section.name.to_owned(),
            }),
            None => Ok(()),
        }
    }

    fn tag(&mut self, sigil: char, name: &'s str, tag_at: usize) -> Result<(), TemplateError> {
        if name.is_empty() {
            return Err(TemplateError::TagWithoutName(self.locate(tag_at)));
        }
        match sigil {
            '#' | '^' => {
                self.line.has_section_tag = true;
                self.open_section(sigil, name, tag_at)
            }
            '/' => {
                self.line.has_section_tag = true;
                self.close_section(name, tag_at)
            }
            '>' => {
                self.line.has_section_tag = true;
                self.warn(tag_at, TemplateWarningKind::Partial(name.to_owned()));
                Ok(())
            }
            _ => {
                self.line.has_content = true;
                let escape = match sigil {
                    '{' | '&' => Escape::Raw,
                    _ => Escape::Html,
                };
                if let Some(variable) = self.resolve(name, tag_at) {
                    self.operations.push(Operation::Fill(variable, escape));
                }
                Ok(())
            }
        }
    }

    fn open_section(
        &mut self,
        sigil: char,
        name: &'s str,
        tag_at: usize,
    ) -> Result<(), TemplateError> {
        if self.open.len() == SECTION_DEPTH_MAX {
            return Err(TemplateError::TooDeep(self.locate(tag_at)));
        }
        let variable = self.resolve(name, tag_at);
        let outer = self.open.last().and_then(|section| section.current);
        let (condition, current) = if sigil == '#' {
            let pushed = variable.filter(|variable| !variable.is_boolean());
            (Condition::If(variable), pushed.or(outer))
        } else {
            (Condition::Unless(variable), outer)
        };
        self.open.push(OpenSection {
            name,
            tag_at,
            operation: self.operations.len(),
            current,
        });
        self.operations
            .push(Operation::Section { condition, end: 0 });
        Ok(())
    }

    fn close_section(&mut self, name: &str, tag_at: usize) -> Result<(), TemplateError> {
        let Some(section) = self.open.pop() else {
            return Err(TemplateError::UnopenedSection {
                at: self.locate(tag_at),
                name: name.to_owned(),
            });
        };
        if section.name != name {
            return Err(TemplateError::CrossedSections {
                at: self.locate(tag_at),
                closed: name.to_owned(),
                open: section.name.to_owned(),
            });
        }
        let after = self.operations.len();
        if let Some(Operation::Section { end, .. }) = self.operations.get_mut(section.operation) {
            *end = after;
        }
        Ok(())
    }

    fn resolve(&mut self, name: &str, tag_at: usize) -> Option<Variable> {
        let variable = if name == "." {
            self.open.last().and_then(|section| section.current)
        } else {
            Variable::named(name, self.vocabulary)
        };
        if variable.is_none() {
            self.warn(
                tag_at,
                TemplateWarningKind::UnknownVariable(name.to_owned()),
            );
        }
        variable
    }

    fn locate(&mut self, offset: usize) -> Location {
        self.lines.locate(self.source, offset)
    }

    fn warn(&mut self, offset: usize, kind: TemplateWarningKind) {
        if self.warnings.len() < TEMPLATE_WARNINGS_MAX {
            let at = self.locate(offset);
            self.warnings.push(TemplateWarning { at, kind });
        }
    }

    /// Text between tags, line by line.
    fn text(&mut self, range: Range<usize>) {
        let mut at = range.start;
        for piece in self.source[range].split_inclusive('\n') {
            let end = at + piece.len();
            if piece.trim().is_empty() {
                self.line.blanks.push(self.operations.len());
                self.operations.push(Operation::Literal(at..end));
            } else {
                self.line.has_content = true;
                self.line_of_text(at..end);
            }
            if piece.ends_with('\n') {
                self.end_line();
            }
            at = end;
        }
    }

    /// One line's text, with its `${name}` and its script tags.
    fn line_of_text(&mut self, range: Range<usize>) {
        let mut literal_at = range.start;
        let mut at = range.start;
        while let Some(found) = self.source[at..range.end].find(['<', '$']) {
            at += found;
            let rest = &self.source[at..range.end];
            if starts_with_ignoring_case(rest, "<script") {
                self.script = Script::Inside;
            } else if starts_with_ignoring_case(rest, "</script") {
                self.script = Script::Outside;
            } else if let Some((variable, length)) = self.dollar(rest) {
                self.operations.push(Operation::Literal(literal_at..at));
                self.operations
                    .push(Operation::Fill(variable, Escape::Html));
                at += length;
                literal_at = at;
                continue;
            }
            at += 1;
        }
        self.operations
            .push(Operation::Literal(literal_at..range.end));
    }

    /// The variable that `rest` begins with as `${name}`, and how long that is.
    fn dollar(&self, rest: &str) -> Option<(Variable, usize)> {
        match (self.dollars, self.script) {
            (Dollars::Literal, _) | (Dollars::Of(Dialect::Cloudflare), Script::Inside) => {
                return None;
            }
            (Dollars::Of(Dialect::Cloudflare), Script::Outside)
            | (Dollars::Of(Dialect::Esa), _) => {}
        }
        let name = rest.strip_prefix("${")?;
        let end = name
            .bytes()
            .take(DOLLAR_NAME_BYTES_MAX)
            .position(|byte| byte == b'}')?;
        let name = &name[..end];
        let variable = Variable::named(name.trim(), Vocabulary::Custom)?;
        variable
            .is_esa()
            .then_some((variable, "${".len() + name.len() + "}".len()))
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.has_section_tag && !line.has_content {
            for blank in line.blanks {
                self.operations[blank] = Operation::Literal(0..0);
            }
        }
    }
}

/// The tag's text from `at`, without the white space around it, and where the tag ends.
fn find_end<'s>(
    source: &'s str,
    at: usize,
    suffix: &str,
    closing: &str,
) -> Option<(&'s str, usize)> {
    let mut from = at.min(source.len());
    let start = from;
    loop {
        let found = from + source[from..].find(closing)?;
        // `{{{name}}}`: the first `}}` found is one brace early.
        let end = if suffix == "}" && closing == "}}" {
            if !source[found..].starts_with("}}}") {
                from = found + closing.len();
                continue;
            }
            return Some((source[start..found].trim(), found + 3));
        } else {
            found + closing.len()
        };
        if suffix.is_empty() {
            return Some((source[start..found].trim(), end));
        }
        if let Some(content) = source[start..found].strip_suffix(suffix) {
            return Some((content.trim(), end));
        }
        from = end;
    }
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.as_bytes()
        .get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// Joins literals that follow one another in the source, and drops empty ones. Sections keep their ends.
fn merge_literals(operations: Vec<Operation>) -> Box<[Operation]> {
    let mut is_end = vec![false; operations.len() + 1];
    for operation in &operations {
        if let Operation::Section { end, .. } = operation {
            is_end[*end] = true;
        }
    }
    let mut merged: Vec<Operation> = Vec::new();
    let mut moved_to = Vec::with_capacity(operations.len() + 1);
    let mut must_split = false;
    for (index, operation) in operations.into_iter().enumerate() {
        must_split |= is_end[index];
        moved_to.push(merged.len());
        if let Operation::Literal(range) = &operation {
            if range.is_empty() {
                continue;
            }
            if !must_split
                && let Some(Operation::Literal(before)) = merged.last_mut()
                && before.end == range.start
            {
                before.end = range.end;
                continue;
            }
        }
        must_split = false;
        merged.push(operation);
    }
    moved_to.push(merged.len());
    for operation in &mut merged {
        if let Operation::Section { end, .. } = operation {
            *end = moved_to[*end];
        }
    }
    merged.into()
}
