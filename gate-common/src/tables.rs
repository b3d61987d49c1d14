//! What the maps hold, byte for byte, and the operations the decision needs from them.

use crate::config::Config;
use crate::gcra::{Charge, Rate};
use crate::sketch::Local;
use crate::source::{Address, ListenerKey, SourceKey};
use crate::word::Word;

/// A source with a session. User space enters it, extends it and removes it; the kernel charges it.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Admitted {
    /// From this instant of `CLOCK_MONOTONIC` on the entry counts for nothing.
    expires_ns: Word,
    meter: Meter,
}

/// Words of [`Admitted`].
pub const ADMITTED_WORDS: usize = 1 + METER_WORDS;

impl Admitted {
    /// The value of a source just entered: nothing charged yet.
    pub const fn words(expires_ns: u64) -> [u64; ADMITTED_WORDS] {
        [expires_ns, 0, 0, 0]
    }

    /// From the words of the map.
    pub fn from_words([expires_ns, arrival_ns, refused, over]: [u64; ADMITTED_WORDS]) -> Self {
        Self {
            expires_ns: Word::new(expires_ns),
            meter: Meter {
                arrival_ns: Word::new(arrival_ns),
                refused: Word::new(refused),
                over: Word::new(over),
            },
        }
    }

    #[inline(always)]
    pub fn alive(&self, now_ns: u64) -> bool {
        now_ns < self.expires_ns.get()
    }

    #[inline(always)]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}

/// A source without a session that is tracked exactly.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Tracked {
    meter: Meter,
}

/// Words of [`Tracked`].
pub const TRACKED_WORDS: usize = METER_WORDS;

impl Tracked {
    /// A source that has already used up `arrival_ns - now`.
    #[inline(always)]
    pub const fn starting(arrival_ns: u64) -> Self {
        Self {
            meter: Meter {
                arrival_ns: Word::new(arrival_ns),
                refused: Word::new(0),
                over: Word::new(0),
            },
        }
    }

    #[inline(always)]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}

/// The rate limiter's state of one source.
///
/// Several processors may write at once. The word of the limiter is then one of the two results; the count of refusals may
/// miss some and is for reading only.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Meter {
    arrival_ns: Word,
    refused: Word,
    /// 1 while the last packet was over the rate.
    over: Word,
}

const METER_WORDS: usize = 3;

/// What charging one connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metered {
    Within,
    Over {
        transition: Transition,
        refused: u64,
    },
}

/// Whether the source was over its rate before as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    JustNow,
    Already,
}

impl Meter {
    /// Charges one connection.
    #[inline(always)]
    pub fn charge(&self, rate: Rate, now_ns: u64) -> Metered {
        match rate.charge(self.arrival_ns.get(), now_ns) {
            Charge::Within { arrival_ns } => {
                self.arrival_ns.set(arrival_ns);
                // Most sources are never over: do not dirty the word for nothing.
                if self.over.get() != 0 {
                    self.over.set(0);
                }
                Metered::Within
            }
            Charge::Over { .. } => {
                let refused = self.refused.get().wrapping_add(1);
                self.refused.set(refused);
                let transition = if self.over.get() == 0 {
                    self.over.set(1);
                    Transition::JustNow
                } else {
                    Transition::Already
                };
                Metered::Over {
                    transition,
                    refused,
                }
            }
        }
    }
}

/// What the operator's prefixes say about an address.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixClass {
    Denied = 1,
    TrustedProxy = 2,
}

impl PrefixClass {
    /// From the word of the map; an unknown word says nothing.
    #[inline(always)]
    pub const fn from_word(word: u32) -> Option<Self> {
        match word {
            1 => Some(Self::Denied),
            2 => Some(Self::TrustedProxy),
            _ => None,
        }
    }
}

/// Told to user space when a source goes over its rate.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub source: SourceKey,
    /// `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Connections of this source refused since it is tracked.
    pub refused: u64,
    /// The number of the [`crate::reason::Reason`].
    pub reason: u64,
}

/// Words of [`Event`].
pub const EVENT_WORDS: usize = 5;

const _: () = {
    assert!(size_of::<Admitted>() == 8 * ADMITTED_WORDS);
    assert!(size_of::<Tracked>() == 8 * TRACKED_WORDS);
    assert!(size_of::<Event>() == 8 * EVENT_WORDS);
};

/// What the decision needs from the maps and the clock. A miss is never an error.
pub trait Tables {
    fn config(&self) -> Option<&Config>;
    /// `CLOCK_MONOTONIC` in nanoseconds; may lag by one tick of the kernel.
    fn now_ns(&self) -> u64;
    fn is_guarded(&self, listener: &ListenerKey) -> bool;
    fn admitted(&self, source: &SourceKey) -> Option<&Admitted>;
    fn prefix(&self, address: Address) -> Option<PrefixClass>;
    fn tracked(&self, source: &SourceKey) -> Option<&Tracked>;
    /// Runs on what belongs to this processor alone.
    fn with_local<R>(&mut self, run: impl FnOnce(&mut Local) -> R) -> Option<R>;
    /// Begins to track a source; `false` where there was no room.
    fn learn(&mut self, source: &SourceKey, tracked: Tracked) -> bool;
    /// Tells user space; lost where nobody reads.
    fn tell(&mut self, event: Event);
}
