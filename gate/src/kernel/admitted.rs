//! Which sources carry a session and until when. Pure: the kernel's map is written by whoever asks.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use gate_common::sketch::hash;
use gate_common::source::SourceKey;

const SECOND_NS: u64 = 1_000_000_000;
/// Sources whose last message is remembered, 8 bytes each; a power of two. Two sources in one place only send more messages.
const TOLD_ENTRIES: usize = 65_536;

/// Keeps every request of a visitor from becoming a message: remembers what was told about a source, to the second.
#[derive(Debug)]
pub(super) struct Told {
    /// A fingerprint of the source (upper half) and the second of its expiry.
    entries: Box<[AtomicU64]>,
    seed: [u64; 2],
}

/// What was remembered before a message, so that it can be taken back if the message is lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    index: usize,
}

impl Told {
    pub(super) fn new(seed: [u64; 2]) -> Self {
        Self {
            entries: (0..TOLD_ENTRIES).map(|_| AtomicU64::new(0)).collect(),
            seed,
        }
    }

    /// Notes the expiry; something where it is worth a message, since none told so late an expiry before.
    pub(super) fn note(&self, source: SourceKey, expires_ns: u64) -> Option<News> {
        let hash = hash(source, self.seed);
        let index = hash as usize % TOLD_ENTRIES;
        let fingerprint = hash & 0xffff_ffff_0000_0000;
        let second = (expires_ns / SECOND_NS).min(u64::from(u32::MAX));
        let entry = &self.entries[index];
        let known = entry.load(Ordering::Relaxed);
        if known & 0xffff_ffff_0000_0000 == fingerprint && known & 0xffff_ffff >= second {
            return None;
        }
        entry.store(fingerprint | second, Ordering::Relaxed);
        Some(News { index })
    }

    /// Forgets what [`Told::note`] noted: its message was lost.
    pub(super) fn take_back(&self, news: News) {
        self.entries[news.index].store(0, Ordering::Relaxed);
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        for entry in &self.entries {
            entry.store(0, Ordering::Relaxed);
        }
    }
}

/// What a message about a source means for the kernel's map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Enter,
    Extend,
    /// The source is entered for at least as long already.
    Nothing,
    /// No room: the source stays a stranger to the kernel.
    Full,
}

/// The sources entered, and when each has to go.
///
/// A source stands in the list of one second only; where its expiry has moved on when that second comes, it moves on as well.
#[derive(Debug)]
pub(super) struct Expiries {
    by_source: HashMap<[u8; 16], u64>,
    by_second: BTreeMap<u64, Vec<[u8; 16]>>,
    entries_max: usize,
}

impl Expiries {
    /// Empty, for at most `entries_max` sources.
    pub(super) fn new(entries_max: usize) -> Self {
        Self {
            by_source: HashMap::new(),
            by_second: BTreeMap::new(),
            entries_max,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_source.len()
    }

    /// Notes that a source carries a session until then; never shortens.
    pub(super) fn admit(&mut self, source: [u8; 16], expires_ns: u64) -> Change {
        if let Some(known_ns) = self.by_source.get_mut(&source) {
            if *known_ns >= expires_ns {
                return Change::Nothing;
            }
            *known_ns = expires_ns;
            return Change::Extend;
        }
        if self.by_source.len() >= self.entries_max {
            return Change::Full;
        }
        self.by_source.insert(source, expires_ns);
        self.line_up(source, expires_ns);
        Change::Enter
    }

    fn line_up(&mut self, source: [u8; 16], expires_ns: u64) {
        let second = expires_ns.div_ceil(SECOND_NS);
        self.by_second.entry(second).or_default().push(source);
    }

    /// Forgets a source that could not be entered or must not be.
    pub(super) fn forget(&mut self, source: &[u8; 16]) {
        if let Some(expires_ns) = self.by_source.remove(source) {
            let second = expires_ns.div_ceil(SECOND_NS);
            if let Some(list) = self.by_second.get_mut(&second) {
                list.retain(|other| other != source);
            }
        }
    }

    /// Up to `max` sources whose time is over, taken out. Call again while it returns `max`.
    pub(super) fn take_due(&mut self, now_ns: u64, max: usize) -> Vec<[u8; 16]> {
        let mut due = Vec::new();
        while due.len() < max {
            let Some(mut entry) = self.by_second.first_entry() else {
                break;
            };
            if entry.key().saturating_mul(SECOND_NS) > now_ns {
                break;
            }
            let Some(source) = entry.get_mut().pop() else {
                entry.remove();
                continue;
            };
            match self.by_source.get(&source).copied() {
                Some(expires_ns) if expires_ns > now_ns => self.line_up(source, expires_ns),
                Some(_) => {
                    self.by_source.remove(&source);
                    due.push(source);
                }
                None => {}
            }
        }
        due
    }

    /// When the next source may have to go.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.by_second
            .keys()
            .next()
            .map(|second| second.saturating_mul(SECOND_NS))
    }

    /// Every source entered.
    pub(super) fn sources(&self) -> Vec<[u8; 16]> {
        self.by_source.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use gate_common::source::Address;
    use proptest::prelude::*;

    use super::*;

    fn key(number: u8) -> [u8; 16] {
        [number; 16]
    }

    #[test]
    fn a_source_is_told_once_a_second() {
        let told = Told::new([1, 2]);
        let source = SourceKey::of(Address::from_ipv4([192, 0, 2, 1]));
        let news = told.note(source, 100 * SECOND_NS);
        assert!(news.is_some());
        assert!(told.note(source, 100 * SECOND_NS + 999_999_999).is_none());
        assert!(
            told.note(source, 99 * SECOND_NS).is_none(),
            "earlier is no news"
        );
        assert!(told.note(source, 101 * SECOND_NS).is_some());
        told.take_back(news.unwrap());
        assert!(
            told.note(source, 101 * SECOND_NS).is_some(),
            "a lost message is told again"
        );
    }

    #[test]
    fn sources_leave_on_time_and_not_before() {
        let mut expiries = Expiries::new(10);
        assert_eq!(expiries.admit(key(1), 5 * SECOND_NS), Change::Enter);
        assert_eq!(expiries.admit(key(2), 7 * SECOND_NS + 1), Change::Enter);
        assert_eq!(expiries.admit(key(1), 4 * SECOND_NS), Change::Nothing);
        assert!(expiries.take_due(5 * SECOND_NS - 1, 100).is_empty());
        assert_eq!(expiries.take_due(5 * SECOND_NS, 100), [key(1)]);
        assert_eq!(expiries.next_ns(), Some(8 * SECOND_NS));
        assert_eq!(expiries.take_due(8 * SECOND_NS, 100), [key(2)]);
        assert_eq!(expiries.len(), 0);
    }

    #[test]
    fn an_extended_source_stays() {
        let mut expiries = Expiries::new(10);
        expiries.admit(key(1), 5 * SECOND_NS);
        assert_eq!(expiries.admit(key(1), 9 * SECOND_NS), Change::Extend);
        assert!(expiries.take_due(6 * SECOND_NS, 100).is_empty());
        assert_eq!(expiries.take_due(9 * SECOND_NS, 100), [key(1)]);
    }

    #[test]
    fn a_full_table_takes_nobody_and_loses_nobody() {
        let mut expiries = Expiries::new(2);
        expiries.admit(key(1), SECOND_NS);
        expiries.admit(key(2), SECOND_NS);
        assert_eq!(expiries.admit(key(3), SECOND_NS), Change::Full);
        assert_eq!(expiries.admit(key(1), 2 * SECOND_NS), Change::Extend);
        assert_eq!(expiries.len(), 2);
    }

    #[test]
    fn expiry_is_done_in_pieces() {
        let mut expiries = Expiries::new(1_000);
        for number in 0..100 {
            expiries.admit(key(number), SECOND_NS);
        }
        assert_eq!(expiries.take_due(SECOND_NS, 30).len(), 30);
        assert_eq!(expiries.take_due(SECOND_NS, 100).len(), 70);
        assert_eq!(expiries.next_ns(), None, "nothing is left behind");
    }

    proptest! {
        /// Against a plain table: after every step exactly the sources whose time is not over are entered.
        #[test]
        fn agrees_with_a_plain_table(
            steps in proptest::collection::vec((0_u8..20, 1_u64..60, 0_u64..5, any::<bool>()), 1..200)
        ) {
            let mut expiries = Expiries::new(1_000);
            let mut plain = HashMap::new();
            let mut now = 0;
            for (source, lifetime, passed, forget) in steps {
                now += passed * SECOND_NS;
                for gone in expiries.take_due(now, usize::MAX) {
                    prop_assert!(plain.remove(&gone).is_some_and(|expires: u64| expires <= now));
                }
                prop_assert!(plain.values().all(|expires| *expires > now), "somebody overstayed");
                if forget {
                    expiries.forget(&key(source));
                    plain.remove(&key(source));
                } else {
                    let expires = now + lifetime * SECOND_NS;
                    expiries.admit(key(source), expires);
                    let known = plain.entry(key(source)).or_insert(expires);
                    *known = expires.max(*known);
                }
                prop_assert_eq!(expiries.len(), plain.len());
                let listed: usize = expiries.by_second.values().map(Vec::len).sum();
                prop_assert!(listed <= 20 * 2, "lists grow: {}", listed);
            }
        }
    }
}
