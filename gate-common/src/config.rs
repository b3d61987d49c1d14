//! The kernel program's parameters: independent words that user space may change while packets flow.

use crate::gcra::Rate;
use crate::word::Word;

/// What the program does with a source over its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every packet passes at once.
    Off,
    /// Everything is counted, every packet passes.
    Monitor,
    /// Sources over their rate and denied ones are dropped.
    Enforce,
}

impl Mode {
    /// The word in the configuration. Unknown words are [`Mode::Off`].
    #[inline(always)]
    pub const fn from_word(word: u64) -> Self {
        match word {
            1 => Self::Monitor,
            2 => Self::Enforce,
            _ => Self::Off,
        }
    }

    /// The word in the configuration.
    pub const fn as_word(self) -> u64 {
        match self {
            Self::Off => 0,
            Self::Monitor => 1,
            Self::Enforce => 2,
        }
    }
}

/// Whether the map of prefixes holds any, so that an empty one costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixLookup {
    Skip,
    Do,
}

/// The parameters as user space sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    pub mode: Mode,
    /// Rate of a source without a session.
    pub source: Rate,
    /// Rate of a source with one.
    pub admitted: Rate,
    /// Connections in one window after which a source is tracked exactly. At least 1.
    pub promote_threshold: u64,
    /// Length of the sketch's window in nanoseconds.
    pub window_ns: u64,
    /// Sources one processor begins to track in one second. Beyond it, it learns no more until the second is over.
    pub learn_per_second_max: u64,
    /// Rate of events about sources that went over their rate, per processor.
    pub events: Rate,
    /// Secret of the sketch's hash: without it, nobody can aim at a cell.
    pub seed: [u64; 2],
    pub prefixes: PrefixLookup,
}

/// Number of words.
pub const CONFIG_WORDS: usize = 13;

impl Parameters {
    /// The words, in the order of the map's value.
    pub const fn words(&self) -> [u64; CONFIG_WORDS] {
        [
            self.mode.as_word(),
            self.source.interval_ns,
            self.source.limit_ns,
            self.admitted.interval_ns,
            self.admitted.limit_ns,
            self.promote_threshold,
            self.window_ns,
            self.learn_per_second_max,
            self.events.interval_ns,
            self.events.limit_ns,
            self.seed[0],
            self.seed[1],
            match self.prefixes {
                PrefixLookup::Skip => 0,
                PrefixLookup::Do => 1,
            },
        ]
    }
}

/// The parameters as the program reads them: each word by itself, since user space may write between two reads. Every mixture
/// of old and new words is harmless: it lasts for one packet.
#[repr(C)]
#[derive(Debug)]
pub struct Config {
    words: [Word; CONFIG_WORDS],
}

const _: () = assert!(size_of::<Config>() == 8 * CONFIG_WORDS && align_of::<Config>() == 8);

impl Config {
    /// Words with these values.
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            words: parameters.words().map(Word::new),
        }
    }

    #[inline(always)]
    fn word<const INDEX: usize>(&self) -> u64 {
        const { assert!(INDEX < CONFIG_WORDS) };
        self.words[INDEX].get()
    }

    #[inline(always)]
    pub fn mode(&self) -> Mode {
        Mode::from_word(self.word::<0>())
    }

    #[inline(always)]
    pub fn source(&self) -> Rate {
        Rate {
            interval_ns: self.word::<1>(),
            limit_ns: self.word::<2>(),
        }
    }

    #[inline(always)]
    pub fn admitted(&self) -> Rate {
        Rate {
            interval_ns: self.word::<3>(),
            limit_ns: self.word::<4>(),
        }
    }

    #[inline(always)]
    pub fn promote_threshold(&self) -> u64 {
        self.word::<5>()
    }

    #[inline(always)]
    pub fn window_ns(&self) -> u64 {
        self.word::<6>()
    }

    #[inline(always)]
    pub fn learn_per_second_max(&self) -> u64 {
        self.word::<7>()
    }

    #[inline(always)]
    pub fn events(&self) -> Rate {
        Rate {
            interval_ns: self.word::<8>(),
            limit_ns: self.word::<9>(),
        }
    }

    #[inline(always)]
    pub fn seed(&self) -> [u64; 2] {
        [self.word::<10>(), self.word::<11>()]
    }

    #[inline(always)]
    pub fn prefixes(&self) -> PrefixLookup {
        if self.word::<12>() == 0 {
            PrefixLookup::Skip
        } else {
            PrefixLookup::Do
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_where_it_is_written() {
        let parameters = Parameters {
            mode: Mode::Enforce,
            source: Rate {
                interval_ns: 3,
                limit_ns: 5,
            },
            admitted: Rate {
                interval_ns: 7,
                limit_ns: 11,
            },
            promote_threshold: 13,
            window_ns: 17,
            learn_per_second_max: 19,
            events: Rate {
                interval_ns: 23,
                limit_ns: 29,
            },
            seed: [31, 37],
            prefixes: PrefixLookup::Do,
        };
        let config = Config::new(&parameters);
        let read = Parameters {
            mode: config.mode(),
            source: config.source(),
            admitted: config.admitted(),
            promote_threshold: config.promote_threshold(),
            window_ns: config.window_ns(),
            learn_per_second_max: config.learn_per_second_max(),
            events: config.events(),
            seed: config.seed(),
            prefixes: config.prefixes(),
        };
        assert_eq!(read, parameters);
        for mode in [Mode::Off, Mode::Monitor, Mode::Enforce] {
            assert_eq!(Mode::from_word(mode.as_word()), mode);
        }
        assert_eq!(Mode::from_word(u64::MAX), Mode::Off);
    }
}
