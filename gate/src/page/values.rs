//! What a page or a JSON answer can show of a [`WaitView`]: every variable by name, its truth and its text.

use std::cell::Cell;
use std::fmt::Write as _;

use crate::room::{EventPhase, Millis, QueueingMethod, WaitTime, WaitView};

use super::builtin;
use super::language::Language;
use super::texts::{Texts, Words};

const MILLIS_PER_MINUTE: u64 = 60_000;
const MINUTES_PER_HOUR: u64 = 60;
const MINUTES_PER_DAY: u64 = 24 * MINUTES_PER_HOUR;

/// What the visitor is looking at, worst news first: `queue_all` and a prequeue win over every method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    QueueAll,
    Prequeueing,
    Reject,
    QueueFull,
    Queueing,
}

impl State {
    /// The state a view is in.
    pub fn of(view: &WaitView) -> Self {
        if view.queue_all {
            Self::QueueAll
        } else if matches!(view.event, EventPhase::Prequeueing { .. }) {
            Self::Prequeueing
        } else if view.queueing_method == QueueingMethod::Reject {
            Self::Reject
        } else if view.queue_is_full {
            Self::QueueFull
        } else {
            Self::Queueing
        }
    }

    /// The state as the page's script and style see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueAll => "queue-all",
            Self::Prequeueing => "prequeueing",
            Self::Reject => "reject",
            Self::QueueFull => "queue-full",
            Self::Queueing => "queueing",
        }
    }
}

/// The numbers behind a view, computed once per answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Numbers {
    pub(super) wait_known: bool,
    pub(super) wait_minutes: u64,
    /// 25th, 50th and 75th; all 0 unless the method is `random`.
    pub(super) percentiles_minutes: [u64; 3],
    pub(super) event_is_active: bool,
    pub(super) event_is_prequeueing: bool,
    /// `None` outside a prequeue.
    pub(super) until_start_minutes: Option<u64>,
    /// `None` without an event.
    pub(super) until_end_minutes: Option<u64>,
    pub(super) shuffle_at_event_start: bool,
}

impl Numbers {
    pub(super) fn of(view: &WaitView) -> Self {
        let (wait_known, estimate) = match view.wait_time {
            WaitTime::Unknown => (false, [0; 3]),
            WaitTime::Known {
                percentile_25_minutes,
                percentile_50_minutes,
                percentile_75_minutes,
            } => (
                true,
                [
                    percentile_25_minutes,
                    percentile_50_minutes,
                    percentile_75_minutes,
                ],
            ),
        };
        let until = |time: Millis| time.millis_since(view.now).div_ceil(MILLIS_PER_MINUTE);
        let (start, end, shuffle) = match view.event {
            EventPhase::None => (None, None, false),
            EventPhase::Prequeueing {
                starts_at,
                ends_at,
                shuffle_at_event_start,
            } => (
                Some(until(starts_at)),
                Some(until(ends_at)),
                shuffle_at_event_start,
            ),
            EventPhase::Active {
                ends_at,
                shuffle_at_event_start,
            } => (None, Some(until(ends_at)), shuffle_at_event_start),
        };
        Self {
            wait_known,
            wait_minutes: estimate[1],
            percentiles_minutes: if view.queueing_method == QueueingMethod::Random {
                estimate
            } else {
                [0; 3]
            },
            // The field counts the prequeue as part of the event.
            event_is_active: end.is_some(),
            event_is_prequeueing: start.is_some(),
            until_start_minutes: start,
            until_end_minutes: end,
            shuffle_at_event_start: shuffle,
        }
    }
}

/// The method as configuration and JSON write it.
pub(super) const fn method_name(method: QueueingMethod) -> &'static str {
    match method {
        QueueingMethod::Fifo => "fifo",
        QueueingMethod::Random => "random",
        QueueingMethod::Passthrough => "passthrough",
        QueueingMethod::Reject => "reject",
    }
}

/// `2020-08-03T23:46:00.000Z`; a time beyond the year 9999 reads as the last one before it.
pub(super) fn write_time(time: Millis, out: &mut String) {
    const SECOND_BYTES: usize = "2020-08-03T23:46:00".len();
    thread_local! {
        /// The last second written and how: most times are of one second.
        static LAST: Cell<(u64, [u8; SECOND_BYTES])> = const { Cell::new((u64::MAX, [0; SECOND_BYTES])) };
    }
    let (last, text) = LAST.get();
    if last == time.as_secs()
        && let Ok(text) = std::str::from_utf8(&text)
    {
        out.push_str(text);
        let millis = (time.as_u64() % 1000) as usize;
        out.push('.');
        for digit in [millis / 100, millis / 10 % 10, millis % 10] {
            out.push(char::from(b'0' + digit as u8));
        }
        out.push('Z');
        return;
    }
    let millis = i64::try_from(time.as_u64()).unwrap_or(i64::MAX);
    let start = out.len();
    match jiff::Timestamp::from_millisecond(millis) {
        Ok(time) => write!(out, "{time:.3}").expect("a string takes every write"),
        Err(_) => {
            write!(out, "{:.3}", jiff::Timestamp::MAX).expect("a string takes every write");
            return;
        }
    }
    let second = out.as_bytes()[start..].first_chunk::<SECOND_BYTES>();
    if let Some(second) = second {
        LAST.set((time.as_secs(), *second));
    }
}

/// One variable of a template. What is said of each stands in the field table the README reproduces.
#[derive(Clone, Copy, Debug)]
pub(super) enum Variable {
    InWaitingRoom,
    WaitTimeKnown,
    WaitTime,
    WaitTime25Percentile,
    WaitTime50Percentile,
    WaitTime75Percentile,
    WaitTimeFormatted,
    WaitTimeHours,
    WaitTimeHourMinutes,
    QueueIsFull,
    QueueAll,
    LastUpdated,
    RefreshIntervalSeconds,
    QueueingMethod,
    IsFifoQueue,
    IsRandomQueue,
    IsPassthroughQueue,
    IsRejectQueue,
    IsEventActive,
    IsEventPrequeueing,
    TimeUntilEventStart,
    TimeUntilEventStartFormatted,
    TimeUntilEventStartHours,
    TimeUntilEventStartHourMinutes,
    TimeUntilEventEnd,
    TimeUntilEventEndFormatted,
    TimeUntilEventEndHours,
    TimeUntilEventEndHourMinutes,
    ShuffleAtEventStart,
    Turnstile,
    InfiniteQueue,
    Position,
    /// Known to the built-in page only.
    BuiltIn(BuiltIn),
}

/// Variables of the built-in page.
#[derive(Clone, Copy)]
pub(super) enum BuiltIn {
    Language,
    Direction,
    State,
    Title,
    Heading,
    Lead,
    PositionText,
    WaitText,
    EventLabel,
    EventText,
    /// A text that never changes.
    Text(fn(&Texts) -> &'static str),
}

impl std::fmt::Debug for BuiltIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BuiltIn")
    }
}

/// Which variables a template may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vocabulary {
    Custom,
    BuiltIn,
}

impl Variable {
    pub(super) fn named(name: &str, vocabulary: Vocabulary) -> Option<Self> {
        Self::of_field(name).or_else(|| match vocabulary {
            Vocabulary::Custom => None,
            Vocabulary::BuiltIn => BuiltIn::named(name).map(Self::BuiltIn),
        })
    }

    fn of_field(name: &str) -> Option<Self> {
        Some(match name {
            "inWaitingRoom" => Self::InWaitingRoom,
            "waitTimeKnown" => Self::WaitTimeKnown,
            "waitTime" => Self::WaitTime,
            "waitTime25Percentile" => Self::WaitTime25Percentile,
            "waitTime50Percentile" => Self::WaitTime50Percentile,
            "waitTime75Percentile" => Self::WaitTime75Percentile,
            "waitTimeFormatted" => Self::WaitTimeFormatted,
            "waitTimeHours" => Self::WaitTimeHours,
            "waitTimeHourMinutes" => Self::WaitTimeHourMinutes,
            "queueIsFull" => Self::QueueIsFull,
            "queueAll" => Self::QueueAll,
            "lastUpdated" => Self::LastUpdated,
            "refreshIntervalSeconds" => Self::RefreshIntervalSeconds,
            "queueingMethod" => Self::QueueingMethod,
            "isFIFOQueue" => Self::IsFifoQueue,
            "isRandomQueue" => Self::IsRandomQueue,
            "isPassthroughQueue" => Self::IsPassthroughQueue,
            "isRejectQueue" => Self::IsRejectQueue,
            "isEventActive" => Self::IsEventActive,
            "isEventPrequeueing" => Self::IsEventPrequeueing,
            "timeUntilEventStart" => Self::TimeUntilEventStart,
            "timeUntilEventStartFormatted" => Self::TimeUntilEventStartFormatted,
            "timeUntilEventStartHours" => Self::TimeUntilEventStartHours,
            "timeUntilEventStartHourMinutes" => Self::TimeUntilEventStartHourMinutes,
            "timeUntilEventEnd" => Self::TimeUntilEventEnd,
            "timeUntilEventEndFormatted" => Self::TimeUntilEventEndFormatted,
            "timeUntilEventEndHours" => Self::TimeUntilEventEndHours,
            "timeUntilEventEndHourMinutes" => Self::TimeUntilEventEndHourMinutes,
            "shuffleAtEventStart" => Self::ShuffleAtEventStart,
            "turnstile" => Self::Turnstile,
            "infiniteQueue" => Self::InfiniteQueue,
            "position" => Self::Position,
            _ => return None,
        })
    }

    /// Whether the variable is true or false. Mustache.js makes those no context of their own: `{{.}}` inside means what it meant
    /// outside.
    pub(super) const fn is_boolean(self) -> bool {
        matches!(
            self,
            Self::InWaitingRoom
                | Self::WaitTimeKnown
                | Self::QueueIsFull
                | Self::QueueAll
                | Self::IsFifoQueue
                | Self::IsRandomQueue
                | Self::IsPassthroughQueue
                | Self::IsRejectQueue
                | Self::IsEventActive
                | Self::IsEventPrequeueing
                | Self::ShuffleAtEventStart
                | Self::InfiniteQueue
        )
    }

    /// Whether ESA's `${name}` form knows the variable: its eight members, and our position.
    pub(super) const fn is_esa(self) -> bool {
        matches!(
            self,
            Self::InWaitingRoom
                | Self::WaitTime
                | Self::WaitTimeKnown
                | Self::WaitTimeFormatted
                | Self::QueueIsFull
                | Self::QueueAll
                | Self::LastUpdated
                | Self::RefreshIntervalSeconds
                | Self::Position
        )
    }
}

impl BuiltIn {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "language" => Self::Language,
            "direction" => Self::Direction,
            "state" => Self::State,
            "title" => Self::Title,
            "heading" => Self::Heading,
            "lead" => Self::Lead,
            "positionText" => Self::PositionText,
            "waitText" => Self::WaitText,
            "eventLabel" => Self::EventLabel,
            "eventText" => Self::EventText,
            "positionLabel" => Self::Text(|texts| texts.position_label),
            "waitLabel" => Self::Text(|texts| texts.wait_label),
            "lastUpdatedLabel" => Self::Text(|texts| texts.last_updated_label),
            "keepOpen" => Self::Text(|texts| texts.keep_open),
            "connectionLost" => Self::Text(|texts| texts.connection_lost),
            "cookiesNeeded" => Self::Text(|texts| texts.cookies_needed),
            "leaveButton" => Self::Text(|texts| texts.leave_button),
            "leaveQuestion" => Self::Text(|texts| texts.leave_question),
            "leftHeading" => Self::Text(|texts| texts.left_heading),
            "style" => Self::Text(|_| builtin::STYLE),
            "script" => Self::Text(|_| builtin::SCRIPT),
            "joinAgain" => Self::Text(|texts| texts.join_again),
            _ => return None,
        })
    }
}

/// What differs between two visitors who are otherwise told the same. Everything else is written once for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Personal {
    /// Plain digits; nothing where there is no order.
    Position,
    /// The same in the language's digits.
    PositionText,
    LastUpdated,
}

impl Variable {
    pub(super) const fn personal(self) -> Option<Personal> {
        match self {
            Self::BuiltIn(built_in) => built_in.personal(),
            Self::Position => Some(Personal::Position),
            Self::LastUpdated => Some(Personal::LastUpdated),
            Self::InWaitingRoom
            | Self::WaitTimeKnown
            | Self::WaitTime
            | Self::WaitTime25Percentile
            | Self::WaitTime50Percentile
            | Self::WaitTime75Percentile
            | Self::WaitTimeFormatted
            | Self::WaitTimeHours
            | Self::WaitTimeHourMinutes
            | Self::QueueIsFull
            | Self::QueueAll
            | Self::RefreshIntervalSeconds
            | Self::QueueingMethod
            | Self::IsFifoQueue
            | Self::IsRandomQueue
            | Self::IsPassthroughQueue
            | Self::IsRejectQueue
            | Self::IsEventActive
            | Self::IsEventPrequeueing
            | Self::TimeUntilEventStart
            | Self::TimeUntilEventStartFormatted
            | Self::TimeUntilEventStartHours
            | Self::TimeUntilEventStartHourMinutes
            | Self::TimeUntilEventEnd
            | Self::TimeUntilEventEndFormatted
            | Self::TimeUntilEventEndHours
            | Self::TimeUntilEventEndHourMinutes
            | Self::ShuffleAtEventStart
            | Self::Turnstile
            | Self::InfiniteQueue => None,
        }
    }
}

impl BuiltIn {
    pub(super) const fn personal(self) -> Option<Personal> {
        match self {
            Self::PositionText => Some(Personal::PositionText),
            Self::Language
            | Self::Direction
            | Self::State
            | Self::Title
            | Self::Heading
            | Self::Lead
            | Self::WaitText
            | Self::EventLabel
            | Self::EventText
            | Self::Text(_) => None,
        }
    }
}

/// Writes what is personal, not escaped for anything. No language's digits hold anything that JSON would escape.
pub(super) fn write_personal(
    personal: Personal,
    language: Language,
    view: &WaitView,
    out: &mut String,
) {
    match (personal, view.position) {
        (Personal::Position, Some(position)) => write_plain_number(position, out),
        (Personal::PositionText, Some(position)) => {
            Words::of(language).write_number(position, out);
        }
        (Personal::Position | Personal::PositionText, None) => {}
        (Personal::LastUpdated, _) => write_time(view.last_updated, out),
    }
}

/// Everything an answer shows of a view beside what is [`Personal`]: answers to views of one kind differ in nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ViewKind {
    numbers: Numbers,
    is_ordered: bool,
    queue_is_full: bool,
    queue_all: bool,
    queueing_method: QueueingMethod,
    refresh_interval_seconds: u32,
}

impl ViewKind {
    pub(super) fn of(view: &WaitView) -> Self {
        Self {
            numbers: Numbers::of(view),
            is_ordered: view.position.is_some(),
            queue_is_full: view.queue_is_full,
            queue_all: view.queue_all,
            queueing_method: view.queueing_method,
            refresh_interval_seconds: view.refresh_interval_seconds,
        }
    }
}

/// What a variable is for one view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Boolean(bool),
    Number(u64),
    /// A position where there is no order.
    Null,
    Text,
}

/// The variables of one view in one language.
#[derive(Debug)]
pub(super) struct Values<'a> {
    view: &'a WaitView,
    numbers: Numbers,
    words: &'static Words,
}

impl<'a> Values<'a> {
    pub(super) fn new(view: &'a WaitView, words: &'static Words) -> Self {
        Self {
            view,
            numbers: Numbers::of(view),
            words,
        }
    }

    /// Truth as Mustache.js sees it: `false`, `0`, `null` and the empty text are false.
    pub(super) fn is_truthy(&self, variable: Variable) -> bool {
        match self.value(variable) {
            Value::Boolean(truth) => truth,
            Value::Number(number) => number != 0,
            Value::Null => false,
            Value::Text => {
                let mut text = String::new();
                self.write(variable, &mut text);
                !text.is_empty()
            }
        }
    }

    pub(super) fn value(&self, variable: Variable) -> Value {
        let numbers = &self.numbers;
        let [p25, p50, p75] = numbers.percentiles_minutes;
        let start = numbers.until_start_minutes.unwrap_or(0);
        let end = numbers.until_end_minutes.unwrap_or(0);
        let method = self.view.queueing_method;
        match variable {
            Variable::InWaitingRoom => Value::Boolean(true),
            Variable::WaitTimeKnown => Value::Boolean(numbers.wait_known),
            Variable::QueueIsFull => Value::Boolean(self.view.queue_is_full),
            Variable::QueueAll => Value::Boolean(self.view.queue_all),
            Variable::IsFifoQueue => Value::Boolean(method == QueueingMethod::Fifo),
            Variable::IsRandomQueue => Value::Boolean(method == QueueingMethod::Random),
            Variable::IsPassthroughQueue => Value::Boolean(method == QueueingMethod::Passthrough),
            Variable::IsRejectQueue => Value::Boolean(method == QueueingMethod::Reject),
            Variable::IsEventActive => Value::Boolean(numbers.event_is_active),
            Variable::IsEventPrequeueing => Value::Boolean(numbers.event_is_prequeueing),
            Variable::ShuffleAtEventStart => Value::Boolean(numbers.shuffle_at_event_start),
            Variable::InfiniteQueue => Value::Boolean(false),
            Variable::WaitTime => Value::Number(numbers.wait_minutes),
            Variable::WaitTime25Percentile => Value::Number(p25),
            Variable::WaitTime50Percentile => Value::Number(p50),
            Variable::WaitTime75Percentile => Value::Number(p75),
            Variable::WaitTimeHours => Value::Number(numbers.wait_minutes / MINUTES_PER_HOUR),
            Variable::WaitTimeHourMinutes => Value::Number(numbers.wait_minutes % MINUTES_PER_HOUR),
            Variable::RefreshIntervalSeconds => {
                Value::Number(u64::from(self.view.refresh_interval_seconds))
            }
            Variable::TimeUntilEventStart => Value::Number(start),
            Variable::TimeUntilEventStartHours => Value::Number(start / MINUTES_PER_HOUR),
            Variable::TimeUntilEventStartHourMinutes => Value::Number(start % MINUTES_PER_HOUR),
            Variable::TimeUntilEventEnd => Value::Number(end),
            Variable::TimeUntilEventEndHours => Value::Number(end / MINUTES_PER_HOUR),
            Variable::TimeUntilEventEndHourMinutes => Value::Number(end % MINUTES_PER_HOUR),
            Variable::Position => self.view.position.map_or(Value::Null, Value::Number),
            Variable::WaitTimeFormatted
            | Variable::LastUpdated
            | Variable::QueueingMethod
            | Variable::TimeUntilEventStartFormatted
            | Variable::TimeUntilEventEndFormatted
            | Variable::Turnstile
            | Variable::BuiltIn(_) => Value::Text,
        }
    }

    /// Writes a variable as plain text, not escaped for anything.
    pub(super) fn write(&self, variable: Variable, out: &mut String) {
        match self.value(variable) {
            Value::Boolean(truth) => out.push_str(if truth { "true" } else { "false" }),
            Value::Number(number) => write_plain_number(number, out),
            Value::Null => {}
            Value::Text => self.write_text(variable, out),
        }
    }

    fn write_text(&self, variable: Variable, out: &mut String) {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "numbers and booleans were written by the caller"
        )]
        match variable {
            Variable::WaitTimeFormatted => write_wait_formatted(self.words, &self.numbers, out),
            Variable::LastUpdated => write_time(self.view.last_updated, out),
            Variable::QueueingMethod => out.push_str(method_name(self.view.queueing_method)),
            Variable::TimeUntilEventStartFormatted => {
                write_until_formatted(self.words, self.numbers.until_start_minutes, out);
            }
            Variable::TimeUntilEventEndFormatted => {
                write_until_formatted(self.words, self.numbers.until_end_minutes, out);
            }
            Variable::BuiltIn(built_in) => self.write_built_in(built_in, out),
            _ => {}
        }
    }

    pub(super) fn write_built_in(&self, variable: BuiltIn, out: &mut String) {
        let texts = self.words.texts;
        match variable {
            BuiltIn::Language => out.push_str(self.words.language.tag()),
            BuiltIn::Direction => out.push_str(self.words.language.direction().as_str()),
            BuiltIn::State => out.push_str(State::of(self.view).as_str()),
            BuiltIn::Title => {
                let start = out.len();
                self.write_wait(out);
                if out.len() > start && self.numbers.wait_known {
                    out.push_str(" · ");
                } else {
                    out.truncate(start);
                }
                out.push_str(self.heading());
            }
            BuiltIn::Heading => out.push_str(self.heading()),
            BuiltIn::Lead => out.push_str(self.lead()),
            BuiltIn::PositionText => {
                if let Some(position) = self.view.position {
                    self.words.write_number(position, out);
                }
            }
            BuiltIn::WaitText => self.write_wait(out),
            BuiltIn::EventLabel => out.push_str(if self.numbers.event_is_prequeueing {
                texts.until_start_label
            } else {
                texts.until_end_label
            }),
            BuiltIn::EventText => {
                let until = self
                    .numbers
                    .until_start_minutes
                    .or(self.numbers.until_end_minutes);
                match until {
                    Some(minutes) if minutes > MINUTES_PER_DAY => {
                        out.push_str(texts.more_than_a_day);
                    }
                    Some(minutes) => self.words.write_span(minutes, out),
                    None => {}
                }
            }
            BuiltIn::Text(text) => out.push_str(text(texts)),
        }
    }

    fn heading(&self) -> &'static str {
        let texts = self.words.texts;
        match State::of(self.view) {
            State::QueueAll => texts.queue_all_heading,
            State::Prequeueing => texts.prequeue_heading,
            State::Reject => texts.reject_heading,
            State::QueueFull => texts.full_heading,
            State::Queueing => texts.queueing_heading,
        }
    }

    fn lead(&self) -> &'static str {
        let texts = self.words.texts;
        match State::of(self.view) {
            State::QueueAll => texts.queue_all_lead,
            State::Prequeueing if self.numbers.shuffle_at_event_start => {
                texts.prequeue_shuffled_lead
            }
            State::Prequeueing => texts.prequeue_ordered_lead,
            State::Reject => texts.reject_lead,
            State::QueueFull => texts.full_lead,
            State::Queueing if self.view.queueing_method == QueueingMethod::Random => {
                texts.random_lead
            }
            State::Queueing => texts.queueing_lead,
        }
    }

    /// The wait beside its label; nothing where the page says all there is to say without.
    fn write_wait(&self, out: &mut String) {
        let texts = self.words.texts;
        match State::of(self.view) {
            State::QueueAll | State::Prequeueing | State::Reject => {}
            State::QueueFull => out.push_str(texts.more_than_a_day),
            State::Queueing if !self.numbers.wait_known => out.push_str(texts.not_known_yet),
            State::Queueing => {
                let [low, _, high] = self.numbers.percentiles_minutes;
                if self.numbers.wait_minutes.max(high) > MINUTES_PER_DAY {
                    out.push_str(texts.more_than_a_day);
                } else if low < high {
                    self.words.write_range(
                        out,
                        |out| self.words.write_span(low, out),
                        |out| self.words.write_span(high, out),
                    );
                } else {
                    self.words.write_span(self.numbers.wait_minutes, out);
                }
            }
        }
    }
}

/// The wait as the field formats it: minutes only, a range where there are percentiles.
pub(super) fn write_wait_formatted(words: &Words, numbers: &Numbers, out: &mut String) {
    let [low, _, high] = numbers.percentiles_minutes;
    if !numbers.wait_known {
        out.push_str(words.texts.unavailable);
    } else if low < high {
        words.write_range(
            out,
            |out| words.write_minutes(low, out),
            |out| words.write_minutes(high, out),
        );
    } else {
        words.write_minutes(numbers.wait_minutes, out);
    }
}

/// A time until something as the field formats it.
pub(super) fn write_until_formatted(words: &Words, minutes: Option<u64>, out: &mut String) {
    match minutes {
        Some(minutes) => words.write_minutes(minutes, out),
        None => out.push_str(words.texts.unavailable),
    }
}

/// Plain digits, as JSON and JavaScript read them.
pub(super) fn write_plain_number(number: u64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(number));
}
