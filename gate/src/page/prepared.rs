//! Answers written once and sent to many: all that a visitor does not share with others who wait for the same is put in place
//! when it is sent.
//!
//! One thread keeps them for one configuration. They never go out of date: whatever else an answer shows is part of what it
//! is found by.

use std::collections::HashMap;
use std::rc::Rc;

use http::header::REFRESH;
use http::{HeaderMap, StatusCode};

use super::answer::{AnswerKind, Page, PageSource};
use super::builtin;
use super::json::{write_json_with, write_poll_json_with};
use super::language::Language;
use super::template::Escape;
use super::values::{Personal, ViewKind, write_personal};
use crate::room::WaitView;

/// Answers kept at one time. When full, all are dropped and written anew as they are asked for: about 40 µs each.
const ANSWERS_MAX: usize = 1024;
/// Longest body kept. Longer ones (custom pages) are written anew for each visitor.
const BODY_BYTES_MAX: usize = 65_536;
/// Room for what is personal, so that an answer is allocated once.
const PERSONAL_BYTES: usize = 96;

/// Where something personal belongs.
#[derive(Clone, Copy, Debug)]
struct Hole {
    at: usize,
    personal: Personal,
    escape: Escape,
}

/// An answer without what is personal. The cookie is added by `proxy`.
#[derive(Debug)]
pub struct Prepared {
    pub status: StatusCode,
    /// Every header but the cookie and the length.
    pub headers: HeaderMap,
    /// The status line and the same headers as they go over the wire, without `Refresh`.
    pub head: Box<str>,
    /// What `Refresh` says where there is one, in seconds.
    pub refresh_seconds: Option<u32>,
    language: Language,
    body: Box<str>,
    holes: Box<[Hole]>,
}

impl Prepared {
    fn new(page: &Page, kind: AnswerKind, language: Language, view: &WaitView) -> Self {
        let mut holes = Vec::new();
        let mut body = String::new();
        let mut raw = |personal, out: &mut String| {
            holes.push(Hole {
                at: out.len(),
                personal,
                escape: Escape::Raw,
            });
        };
        match (kind, &page.source) {
            (AnswerKind::Json, _) => {
                write_json_with(page.json_format, view, &mut body, &mut raw);
            }
            (AnswerKind::Poll, _) => write_poll_json_with(language, view, &mut body, &mut raw),
            (AnswerKind::Page, source) => {
                let template = match source {
                    PageSource::BuiltIn => builtin::template(),
                    PageSource::Custom(template) => template,
                };
                template.prepare(language, view, &mut body, |at, personal, escape| {
                    holes.push(Hole {
                        at,
                        personal,
                        escape,
                    });
                });
            }
        }
        let status = page.status_for(kind);
        let mut headers = HeaderMap::with_capacity(9);
        page.insert_headers(kind, view, &mut headers);
        Self {
            status,
            head: head(status, &headers).into(),
            refresh_seconds: headers
                .contains_key(REFRESH)
                .then_some(view.refresh_interval_seconds),
            headers,
            language,
            body: body.into(),
            holes: holes.into(),
        }
    }

    /// Appends the body for one visitor. `view` is of the kind this was prepared for.
    pub fn write_body(&self, view: &WaitView, out: &mut String) {
        out.reserve(self.body.len() + PERSONAL_BYTES);
        let mut from = 0;
        for hole in &self.holes {
            out.push_str(&self.body[from..hole.at]);
            from = hole.at;
            let start = out.len();
            write_personal(hole.personal, self.language, view, out);
            hole.escape.apply(out, start);
        }
        out.push_str(&self.body[from..]);
    }
}

fn head(status: StatusCode, headers: &HeaderMap) -> String {
    let mut head = format!("HTTP/1.1 {status}\r\n");
    for (name, value) in headers.iter().filter(|(name, _)| *name != REFRESH) {
        head.push_str(name.as_str());
        head.push_str(": ");
        // Every header of an answer is ASCII.
        head.push_str(value.to_str().unwrap_or_default());
        head.push_str("\r\n");
    }
    head
}

/// What an answer is found by. A page is known by its address: it is never moved as long as its configuration is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    page: *const Page,
    kind: AnswerKind,
    language: Language,
    view: ViewKind,
}

/// The answers of one thread under one configuration.
#[derive(Debug, Default)]
pub struct PreparedAnswers {
    answers: HashMap<Key, Rc<Prepared>>,
    /// Most answers are the same as the one before; comparing is cheaper than hashing.
    last: Option<(Key, Rc<Prepared>)>,
}

impl PreparedAnswers {
    /// The answer of `page`, which must be part of the configuration that this is kept for.
    pub fn get(
        &mut self,
        page: &Page,
        kind: AnswerKind,
        language: Language,
        view: &WaitView,
    ) -> Rc<Prepared> {
        let key = Key {
            page,
            kind,
            language,
            view: ViewKind::of(view),
        };
        if let Some((last, answer)) = &self.last
            && *last == key
        {
            return Rc::clone(answer);
        }
        let answer = self.find_or_write(key, page, view);
        self.last = Some((key, Rc::clone(&answer)));
        answer
    }

    fn find_or_write(&mut self, key: Key, page: &Page, view: &WaitView) -> Rc<Prepared> {
        if let Some(answer) = self.answers.get(&key) {
            return Rc::clone(answer);
        }
        let answer = Rc::new(Prepared::new(page, key.kind, key.language, view));
        if self.answers.len() >= ANSWERS_MAX {
            self.answers.clear();
        }
        if answer.body.len() <= BODY_BYTES_MAX {
            self.answers.insert(key, Rc::clone(&answer));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::page::preview::PreviewState;
    use crate::page::{LanguageChoice, Template};
    use crate::room::Millis;

    fn pages() -> Vec<Page> {
        let source = "{{position}} {{{lastUpdated}}} {{#position}}{{waitTimeFormatted}}{{/position}}{{^position}}-{{/position}}";
        let (template, _) = Template::parse(source, Default::default()).unwrap();
        let custom = Page {
            source: PageSource::Custom(Arc::new(template)),
            ..Page::default()
        };
        vec![Page::default(), custom]
    }

    #[test]
    fn prepared_answers_are_those_that_would_have_been_written() {
        let mut prepared = PreparedAnswers::default();
        let pages = pages();
        for page in &pages {
            for state in PreviewState::ALL {
                for language in Language::ALL {
                    for kind in [AnswerKind::Page, AnswerKind::Json, AnswerKind::Poll] {
                        for step in 0..3 {
                            let mut view = state.view();
                            view.position = view.position.map(|position| position + 999 * step);
                            view.last_updated =
                                Millis::new(view.last_updated.as_u64() + 1001 * step);
                            let mut expected = String::new();
                            page.write_body(kind, *language, &view, &mut expected);
                            let answer = prepared.get(page, kind, *language, &view);
                            let mut body = String::new();
                            answer.write_body(&view, &mut body);
                            assert_eq!(body, expected);
                            let plain = Page {
                                language: *language,
                                language_choice: LanguageChoice::Fixed,
                                ..page.clone()
                            }
                            .answer(kind, None, &view);
                            assert_eq!(
                                (answer.status, &answer.headers),
                                (plain.status, &plain.headers)
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_different_wait_or_refresh_is_a_different_answer() {
        let mut prepared = PreparedAnswers::default();
        let page = Page::default();
        let view = PreviewState::Queueing.view();
        let first = prepared.get(&page, AnswerKind::Page, Language::EnUs, &view);
        let mut later = view;
        later.refresh_interval_seconds += 1;
        let second = prepared.get(&page, AnswerKind::Page, Language::EnUs, &later);
        assert_ne!(first.head, second.head);
        assert_eq!(prepared.answers.len(), 2);
        for minutes in 0..2 * ANSWERS_MAX as u32 {
            later.refresh_interval_seconds = minutes;
            prepared.get(&page, AnswerKind::Json, Language::EnUs, &later);
            assert!(prepared.answers.len() <= ANSWERS_MAX);
        }
    }
}
