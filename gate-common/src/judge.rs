//! The whole decision about one frame. The kernel program and the host tests run this very function.
//!
//! Order, and why: a frame that is not for a guarded listener leaves first, so other services are never touched. A source with a
//! session is settled before anything an attacker can fill is read, and nothing of its is written outside its own entry. A tracked
//! source is settled before the sketch counts it, so that a new window of the sketch gives it nothing for free.

use crate::config::{Config, Mode, PrefixLookup};
use crate::reason::{Action, Reason};
use crate::sketch::{Counting, Weight};
use crate::source::SourceKey;
use crate::tables::{Event, Metered, PrefixClass, Tables, Tracked, Transition};
use crate::walk::{Packet, walk};

/// What happens to a frame and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub reason: Reason,
    pub action: Action,
}

impl Verdict {
    #[inline(always)]
    const fn new(reason: Reason, mode: Mode) -> Self {
        Self {
            reason,
            action: reason.action(mode),
        }
    }
}

/// Judges one frame.
#[inline(always)]
pub fn judge<P: Packet, T: Tables>(packet: &P, tables: &mut T) -> Verdict {
    let mode = match tables.config() {
        Some(config) => config.mode(),
        None => Mode::Off,
    };
    let reason = match mode {
        Mode::Off => Reason::Off,
        Mode::Monitor | Mode::Enforce => reason(packet, tables),
    };
    Verdict::new(reason, mode)
}

#[inline(always)]
fn reason<P: Packet, T: Tables>(packet: &P, tables: &mut T) -> Reason {
    let segment = match walk(packet) {
        Ok(segment) => segment,
        Err(reason) => return reason,
    };
    if !tables.is_guarded(&segment.destination) {
        return Reason::NotGuarded;
    }
    if !segment.opens_connection() {
        return Reason::NotOpening;
    }
    let Some(config) = tables.config() else {
        return Reason::MapFailed;
    };
    let now_ns = tables.now_ns();
    let source = SourceKey::of(segment.source);

    if let Some(admitted) = tables.admitted(&source)
        && admitted.alive(now_ns)
    {
        let metered = admitted.meter().charge(config.admitted(), now_ns);
        return settle(
            tables,
            source,
            metered,
            Reason::Admitted,
            Reason::AdmittedOver,
            now_ns,
        );
    }
    if config.prefixes() == PrefixLookup::Do {
        match tables.prefix(segment.source) {
            Some(PrefixClass::Denied) => return Reason::Denied,
            Some(PrefixClass::TrustedProxy) => return Reason::TrustedProxy,
            None => {}
        }
    }
    if let Some(tracked) = tables.tracked(&source) {
        let metered = tracked.meter().charge(config.source(), now_ns);
        return settle(
            tables,
            source,
            metered,
            Reason::Within,
            Reason::Over,
            now_ns,
        );
    }
    stranger(tables, source, now_ns)
}

/// A source of which nothing exact is known.
#[inline(always)]
fn stranger<T: Tables>(tables: &mut T, source: SourceKey, now_ns: u64) -> Reason {
    let Some(config) = tables.config() else {
        return Reason::MapFailed;
    };
    let counting = counting(config);
    let rate = config.source();
    let learn_max = config.learn_per_second_max();
    let judged = tables.with_local(|local| match local.count(source, counting, now_ns) {
        Weight::Light => Reason::Light,
        Weight::Heavy if local.take_learning(learn_max, now_ns) => Reason::Learned,
        Weight::Heavy => Reason::FloodUnlearned,
    });
    match judged {
        Some(Reason::Learned) => {
            // What the sketch let through is charged, so that the burst is exact for a source that stays on one processor.
            // No overflow: the threshold is at most the burst. (A checked product would be 128 bits wide.)
            let used_ns = rate.interval_ns.wrapping_mul(counting.promote_threshold);
            if tables.learn(&source, Tracked::starting(now_ns.saturating_add(used_ns))) {
                Reason::Learned
            } else {
                Reason::MapFailed
            }
        }
        Some(reason) => reason,
        None => Reason::MapFailed,
    }
}

#[inline(always)]
fn counting(config: &Config) -> Counting {
    Counting {
        seed: config.seed(),
        window_ns: config.window_ns(),
        promote_threshold: config.promote_threshold(),
    }
}

/// Turns a charge into a reason and tells user space of a source that has just gone over its rate.
#[inline(always)]
fn settle<T: Tables>(
    tables: &mut T,
    source: SourceKey,
    metered: Metered,
    within: Reason,
    over: Reason,
    now_ns: u64,
) -> Reason {
    let Metered::Over {
        transition,
        refused,
    } = metered
    else {
        return within;
    };
    if transition == Transition::JustNow
        && let Some(events) = tables.config().map(Config::events)
        && let Some(true) = tables.with_local(|local| local.take_event(events, now_ns))
    {
        tables.tell(Event {
            source,
            at_ns: now_ns,
            refused,
            reason: over as u64,
        });
    }
    over
}
