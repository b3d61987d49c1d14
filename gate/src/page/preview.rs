//! Views made up to look at a page before visitors do: `gate page preview` and the preview of the API.

use std::fmt;
use std::str::FromStr;

use crate::room::{EventPhase, Millis, QueueingMethod, WaitTime, WaitView};

use super::answer::{AnswerKind, Page, PageSource};
use super::language::Language;

/// A state to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreviewState {
    Queueing,
    /// Waiting in a room that draws by lot.
    Random,
    /// Waiting with no estimate yet.
    UnknownWait,
    QueueFull,
    QueueAll,
    Reject,
    /// Before an event that keeps the order of arrival.
    Prequeue,
    /// Before an event that shuffles.
    PrequeueShuffle,
    /// Waiting while an event runs.
    Event,
}

impl PreviewState {
    /// Every state there is.
    pub const ALL: [Self; 9] = [
        Self::Queueing,
        Self::Random,
        Self::UnknownWait,
        Self::QueueFull,
        Self::QueueAll,
        Self::Reject,
        Self::Prequeue,
        Self::PrequeueShuffle,
        Self::Event,
    ];

    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queueing => "queueing",
            Self::Random => "random",
            Self::UnknownWait => "unknown-wait",
            Self::QueueFull => "queue-full",
            Self::QueueAll => "queue-all",
            Self::Reject => "reject",
            Self::Prequeue => "prequeue",
            Self::PrequeueShuffle => "prequeue-shuffle",
            Self::Event => "event",
        }
    }

    /// A visitor's view of the state.
    pub fn view(self) -> WaitView {
        // 2026-03-01T12:00:00Z; previews are the same every time.
        let now = Millis::new(1_772_366_400_000);
        let in_minutes = |minutes: u64| now.plus_millis(minutes * 60_000);
        let queueing = WaitView {
            position: Some(1284),
            wait_time: WaitTime::Known {
                percentile_25_minutes: 25,
                percentile_50_minutes: 25,
                percentile_75_minutes: 25,
            },
            queue_is_full: false,
            queue_all: false,
            queueing_method: QueueingMethod::Fifo,
            last_updated: now,
            refresh_interval_seconds: 20,
            event: EventPhase::None,
            event_index: None,
            now,
        };
        let unknown = WaitView {
            wait_time: WaitTime::Unknown,
            ..queueing
        };
        let prequeue = |shuffle_at_event_start| EventPhase::Prequeueing {
            starts_at: in_minutes(15),
            ends_at: in_minutes(135),
            shuffle_at_event_start,
        };
        match self {
            Self::Queueing => queueing,
            Self::Random => WaitView {
                position: None,
                wait_time: WaitTime::Known {
                    percentile_25_minutes: 5,
                    percentile_50_minutes: 10,
                    percentile_75_minutes: 15,
                },
                queueing_method: QueueingMethod::Random,
                ..queueing
            },
            Self::UnknownWait => unknown,
            Self::QueueFull => WaitView {
                position: Some(1_250_000),
                queue_is_full: true,
                ..unknown
            },
            Self::QueueAll => WaitView {
                queue_all: true,
                ..unknown
            },
            Self::Reject => WaitView {
                position: None,
                queueing_method: QueueingMethod::Reject,
                refresh_interval_seconds: 0,
                ..unknown
            },
            Self::Prequeue => WaitView {
                event: prequeue(false),
                ..unknown
            },
            Self::PrequeueShuffle => WaitView {
                position: None,
                event: prequeue(true),
                ..unknown
            },
            Self::Event => WaitView {
                wait_time: WaitTime::Known {
                    percentile_25_minutes: 72,
                    percentile_50_minutes: 72,
                    percentile_75_minutes: 72,
                },
                event: EventPhase::Active {
                    ends_at: in_minutes(120),
                    shuffle_at_event_start: false,
                },
                ..queueing
            },
        }
    }
}

/// Text that is no state to preview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownState;

impl fmt::Display for UnknownState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be one of")?;
        for state in PreviewState::ALL {
            write!(f, " {}", state.as_str())?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownState {}

impl FromStr for PreviewState {
    type Err = UnknownState;

    fn from_str(name: &str) -> Result<Self, UnknownState> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == name)
            .ok_or(UnknownState)
    }
}

/// The page of a state. The built-in page is told not to refresh: there is no line behind a preview that it could ask.
pub fn preview(source: &PageSource, language: Language, state: PreviewState) -> String {
    let page = Page {
        source: source.clone(),
        language,
        ..Page::default()
    };
    let mut view = state.view();
    if matches!(source, PageSource::BuiltIn) {
        view.refresh_interval_seconds = 0;
    }
    let mut html = String::new();
    page.write_body(AnswerKind::Page, language, &view, &mut html);
    html
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::page::Template;

    #[test]
    fn every_state_reads_back() {
        for state in PreviewState::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        let error = "full".parse::<PreviewState>().unwrap_err().to_string();
        assert!(
            error.starts_with("must be one of queueing random"),
            "{error}"
        );
    }

    #[test]
    fn states_look_different() {
        let pages: Vec<_> = PreviewState::ALL
            .iter()
            .map(|state| preview(&PageSource::BuiltIn, Language::EnUs, *state))
            .collect();
        for (index, page) in pages.iter().enumerate() {
            assert!(!pages[index + 1..].contains(page));
            assert!(page.contains("data-refresh=\"0\""));
        }
    }

    #[test]
    fn a_custom_page_is_told_its_interval() {
        let (template, _) =
            Template::parse("{{refreshIntervalSeconds}}", Default::default()).unwrap();
        let source = PageSource::Custom(Arc::new(template));
        assert_eq!(
            preview(&source, Language::EnUs, PreviewState::Queueing),
            "20"
        );
        assert_eq!(preview(&source, Language::EnUs, PreviewState::Reject), "0");
    }
}
