//! Reading one table key by key, collecting every fault instead of stopping at the first. Knows no key of ours.
//!
//! A key that is asked for is a known key; what nobody asked for when the table is finished is a fault. So the list of known
//! keys cannot drift from the code that reads them.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use super::error::Fault;
use super::tree::{Entry, Lines, Node, Table, Value};

/// Smallest likeness (Jaro-Winkler, 0 to 1) at which an unknown key is taken for a misspelt known one.
const LIKENESS_MIN: f64 = 0.8;

/// Where faults are collected.
#[derive(Debug)]
pub(super) struct Report {
    lines: Option<Lines>,
    faults: RefCell<Vec<(usize, Fault)>>,
}

/// The place of a value, to complain about it later.
#[derive(Clone, Debug)]
pub(super) struct At {
    offset: usize,
    key: String,
    value: Option<String>,
}

/// A value that could be read, and its place.
#[derive(Clone, Debug)]
pub(super) struct Found<T> {
    pub(super) value: T,
    pub(super) at: At,
}

impl<T> Found<T> {
    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Found<U> {
        Found {
            value: change(self.value),
            at: self.at,
        }
    }
}

/// How strictly a word is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordCase {
    Exact,
    Any,
}

impl Report {
    /// For values of this text.
    pub(super) fn of_text(text: &str) -> Self {
        Self {
            lines: Some(Lines::new(text)),
            faults: RefCell::default(),
        }
    }

    /// For values that stand in no file.
    pub(super) fn without_text() -> Self {
        Self {
            lines: None,
            faults: RefCell::default(),
        }
    }

    pub(super) fn add(&self, at: &At, problem: impl Into<String>) {
        let fault = Fault {
            line: self.lines.as_ref().map(|lines| lines.of(at.offset)),
            key: at.key.clone(),
            value: at.value.clone(),
            problem: problem.into(),
        };
        self.faults.borrow_mut().push((at.offset, fault));
    }

    /// The faults in the order of the file.
    pub(super) fn into_faults(self) -> Vec<Fault> {
        let mut faults = self.faults.into_inner();
        faults.sort_by_key(|(offset, _)| *offset);
        faults.into_iter().map(|(_, fault)| fault).collect()
    }
}

impl At {
    /// The place, without saying what stands there: it may be a secret.
    pub(super) fn without_value(self) -> Self {
        Self {
            value: None,
            ..self
        }
    }

    /// The key as written in messages.
    pub(super) fn key(&self) -> &str {
        &self.key
    }
}

/// A table being read.
#[must_use = "finish() reports the unknown keys"]
pub(super) struct Section<'a> {
    report: &'a Report,
    path: String,
    offset: usize,
    table: &'a Table,
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// The table at the root of a file.
    pub(super) fn root(report: &'a Report, table: &'a Table) -> Self {
        Self {
            report,
            path: String::new(),
            offset: 0,
            table,
            known: Vec::new(),
        }
    }

    pub(super) fn report(&self) -> &'a Report {
        self.report
    }

    /// The place of the table itself.
    pub(super) fn at(&self) -> At {
        At {
            offset: self.offset,
            key: self.path.clone(),
            value: None,
        }
    }

    /// The place where a key of this table would stand.
    pub(super) fn at_key(&self, key: &str) -> At {
        At {
            offset: self.offset,
            key: self.path_of(key),
            value: None,
        }
    }

    /// The place of a key's value, or of the table where the key is absent.
    pub(super) fn at_value(&self, key: &str) -> At {
        let entry = self.table.iter().find(|entry| entry.key == key);
        entry.map_or_else(
            || self.at_key(key),
            |entry| place(self.path_of(key), &entry.node),
        )
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// Whether the key is there, right or wrong.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.iter().any(|entry| entry.key == key)
    }

    /// Whether the key is there and holds an array of nothing.
    pub(super) fn is_empty_array(&self, key: &str) -> bool {
        let entry = self.table.iter().find(|entry| entry.key == key);
        entry.is_some_and(
            |entry| matches!(&entry.node.value, Value::Array(items) if items.is_empty()),
        )
    }

    /// Reports a key that must be there and is not.
    pub(super) fn require(&self, key: &str, what: &str) {
        if !self.has(key) {
            self.report
                .add(&self.at_key(key), format!("missing; {what}"));
        }
    }

    fn entry(&mut self, key: &'static str) -> Option<&'a Entry> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.table.iter().find(|entry| entry.key == key)
    }

    fn take(&mut self, key: &'static str) -> Option<(At, &'a Node)> {
        let path = self.path_of(key);
        self.entry(key)
            .map(|entry| (place(path, &entry.node), &entry.node))
    }

    fn mistyped(&self, at: &At, node: &Node, wanted: &str) {
        self.report
            .add(at, format!("must be {wanted}, not {}", node.kind()));
    }

    pub(super) fn boolean(&mut self, key: &'static str) -> Option<Found<bool>> {
        let (at, node) = self.take(key)?;
        let Value::Boolean(value) = node.value else {
            self.mistyped(&at, node, "true or false");
            return None;
        };
        Some(Found { value, at })
    }

    /// An integer within bounds.
    pub(super) fn integer(
        &mut self,
        key: &'static str,
        allowed: RangeInclusive<u64>,
    ) -> Option<Found<u64>> {
        let (at, node) = self.take(key)?;
        let Value::Integer(number) = &node.value else {
            self.mistyped(&at, node, "an integer");
            return None;
        };
        let within = number
            .as_ref()
            .ok()
            .and_then(|number| u64::try_from(*number).ok())
            .filter(|number| allowed.contains(number));
        let Some(value) = within else {
            let (low, high) = allowed.into_inner();
            self.report
                .add(&at, format!("must be an integer from {low} to {high}"));
            return None;
        };
        Some(Found { value, at })
    }

    /// A number, with a fraction or without.
    pub(super) fn number(&mut self, key: &'static str) -> Option<Found<f64>> {
        let (at, node) = self.take(key)?;
        let number = match &node.value {
            Value::Float(text) => text.replace('_', "").parse().ok(),
            Value::Integer(Ok(number)) => Some(*number as f64),
            Value::Integer(Err(_))
            | Value::String(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Array(_)
            | Value::Table(_) => None,
        };
        let Some(value) = number else {
            self.mistyped(&at, node, "a number");
            return None;
        };
        Some(Found { value, at })
    }

    /// [`Self::integer`] for bounds that fit.
    pub(super) fn small_integer(
        &mut self,
        key: &'static str,
        allowed: RangeInclusive<u32>,
    ) -> Option<Found<u32>> {
        let (low, high) = allowed.into_inner();
        let found = self.integer(key, u64::from(low)..=u64::from(high))?;
        Some(found.map(|number| u32::try_from(number).unwrap_or(high)))
    }

    pub(super) fn string(&mut self, key: &'static str) -> Option<Found<String>> {
        let (at, node) = self.take(key)?;
        let Value::String(text) = &node.value else {
            self.mistyped(&at, node, "a string");
            return None;
        };
        Some(Found {
            value: text.clone(),
            at,
        })
    }

    /// A string that `parse` understands; its error text is the problem shown.
    pub(super) fn parsed<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<Found<T>> {
        let found = self.string(key)?;
        match parse(&found.value) {
            Ok(value) => Some(Found {
                value,
                at: found.at,
            }),
            Err(problem) => {
                self.report.add(&found.at, problem);
                None
            }
        }
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        case: WordCase,
        words: &[(&str, T)],
    ) -> Option<Found<T>> {
        self.parsed(key, |text| pick(text, case, words))
    }

    /// A time written as a TOML time or as a string.
    pub(super) fn time_text(&mut self, key: &'static str) -> Option<Found<String>> {
        let (at, node) = self.take(key)?;
        match &node.value {
            Value::String(text) | Value::Datetime(text) => Some(Found {
                value: text.clone(),
                at,
            }),
            Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Array(_)
            | Value::Table(_) => {
                self.mistyped(&at, node, "an RFC 3339 time");
                None
            }
        }
    }

    /// An array of strings; `or_one` also takes a lone string. Faulty items are reported and left out.
    pub(super) fn strings<T>(
        &mut self,
        key: &'static str,
        or_one: OneOrMany,
        mut parse: impl FnMut(&str) -> Result<T, String>,
    ) -> Option<Vec<Found<T>>> {
        let (at, node) = self.take(key)?;
        let items: Vec<(At, &Node)> = match (&node.value, or_one) {
            (Value::Array(items), _) => items
                .iter()
                .enumerate()
                .map(|(index, item)| (place(format!("{}[{index}]", at.key), item), item))
                .collect(),
            (Value::String(_), OneOrMany::Either) => vec![(at, node)],
            (_, OneOrMany::Either) => {
                self.mistyped(&at, node, "a string or an array of strings");
                return None;
            }
            (_, OneOrMany::Many) => {
                self.mistyped(&at, node, "an array of strings");
                return None;
            }
        };
        let mut found = Vec::with_capacity(items.len());
        for (at, item) in items {
            let Value::String(text) = &item.value else {
                self.mistyped(&at, item, "a string");
                continue;
            };
            match parse(text) {
                Ok(value) => found.push(Found { value, at }),
                Err(problem) => self.report.add(&at, problem),
            }
        }
        Some(found)
    }

    /// A table whose keys are names of the user's: each name with its place and the strings of its array. Faulty items are
    /// reported and left out.
    pub(super) fn named_strings<T>(
        &mut self,
        mut parse: impl FnMut(&str) -> Result<T, String>,
    ) -> Vec<(String, At, Vec<T>)> {
        let mut lists = Vec::with_capacity(self.table.len());
        for entry in self.table {
            let at = place(self.path_of(&entry.key), &entry.node);
            let Value::Array(items) = &entry.node.value else {
                self.mistyped(&at, &entry.node, "an array of strings");
                continue;
            };
            let mut values = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                let at = place(format!("{}[{index}]", at.key), item);
                let Value::String(text) = &item.value else {
                    self.mistyped(&at, item, "a string");
                    continue;
                };
                match parse(text) {
                    Ok(value) => values.push(value),
                    Err(problem) => self.report.add(&at, problem),
                }
            }
            lists.push((entry.key.clone(), at, values));
        }
        lists
    }

    /// A value that may be one of several kinds: `kinds` gets the node and says what it is.
    pub(super) fn either<T>(
        &mut self,
        key: &'static str,
        kinds: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Option<Found<T>> {
        let (at, node) = self.take(key)?;
        match kinds(&node.value) {
            Ok(value) => Some(Found { value, at }),
            Err(problem) => {
                self.report.add(&at, problem);
                None
            }
        }
    }

    /// A table below this one.
    pub(super) fn table(&mut self, key: &'static str) -> Option<Section<'a>> {
        let (at, node) = self.take(key)?;
        let Value::Table(table) = &node.value else {
            self.mistyped(&at, node, "a table");
            return None;
        };
        Some(self.below(at, table))
    }

    /// An array of tables below this one; empty where the key is absent.
    pub(super) fn tables(&mut self, key: &'static str) -> Vec<Section<'a>> {
        let Some((at, node)) = self.take(key) else {
            return Vec::new();
        };
        let Value::Array(items) = &node.value else {
            self.mistyped(&at, node, "an array of tables");
            return Vec::new();
        };
        let mut sections = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let at = place(format!("{}[{index}]", at.key), item);
            match &item.value {
                Value::Table(table) => sections.push(self.below(at, table)),
                Value::String(_)
                | Value::Integer(_)
                | Value::Float(_)
                | Value::Boolean(_)
                | Value::Datetime(_)
                | Value::Array(_) => self.mistyped(&at, item, "a table"),
            }
        }
        sections
    }

    fn below(&self, at: At, table: &'a Table) -> Section<'a> {
        Section {
            report: self.report,
            path: at.key,
            offset: at.offset,
            table,
            known: Vec::new(),
        }
    }

    /// Reports every key that nobody asked for, with the nearest known one.
    pub(super) fn finish(self) {
        for entry in self.table {
            if self.known.contains(&entry.key.as_str()) {
                continue;
            }
            let at = At {
                offset: entry.key_span.start,
                key: self.path_of(&entry.key),
                value: Some(entry.node.shown()),
            };
            let problem = match nearest(&entry.key, &self.known) {
                Some(known) => format!("unknown key; did you mean `{known}`?"),
                None => format!("unknown key; known here: {}", self.known.join(", ")),
            };
            self.report.add(&at, problem);
        }
    }
}

/// Whether a lone string stands for an array of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OneOrMany {
    Either,
    Many,
}

fn place(key: String, node: &Node) -> At {
    At {
        offset: node.span.start,
        key,
        value: Some(node.shown()),
    }
}

/// The value of one of a few words, or what is allowed.
pub(super) fn pick<T: Copy>(text: &str, case: WordCase, words: &[(&str, T)]) -> Result<T, String> {
    words
        .iter()
        .find(|(word, _)| match case {
            WordCase::Exact => *word == text,
            WordCase::Any => word.eq_ignore_ascii_case(text),
        })
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let names: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            let hint = nearest_of(text, words.iter().map(|(word, _)| *word))
                .map(|word| format!("; did you mean {word:?}?"))
                .unwrap_or_default();
            format!("must be one of {}{hint}", names.join(", "))
        })
}

fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    nearest_of(key, known.iter().copied())
}

fn nearest_of<'k>(key: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // Keys are short; a hostile one of a megabyte is not worth comparing.
    if key.len() > 128 {
        return None;
    }
    let key = key.to_ascii_lowercase().replace('-', "_");
    known
        .map(|known| (strsim::jaro_winkler(&key, known), known))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}
