//! The active users of a room: who they are and when each session ends. Does not know why anybody was admitted.
//!
//! Each session is one 24-byte entry in a slab, an index of 4-byte slots finds it by visitor, and a wheel of one-second
//! buckets finds those that end. A renewal writes one field; an entry moves to its new bucket only when its old one comes
//! up. With the index at its emptiest that is under 40 bytes a session.

use std::sync::Arc;

use hashbrown::HashTable;

use super::settings::SessionDuration;
use super::time::Millis;
use super::visitor::VisitorId;

/// Buckets of the wheel. Sessions that end later wait in the last one and move on from there.
const WHEEL_SECONDS: u32 = 4096;
const CHUNK: usize = 256;
const NIL: u32 = u32::MAX;
/// Marks a `prev` that names a bucket: the entry is the first of its list.
const IN_BUCKET: u32 = 1 << 31;
/// Sessions a room tracks; the count of slots must leave [`IN_BUCKET`] free. Only `passthrough`, which has no limit, can reach it: visitors
/// beyond it are let through uncounted.
pub(super) const SESSIONS_MAX: usize = 1 << 30;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    visitor: u64,
    /// The session is alive before this second.
    ends_at_s: u32,
    accepted_at_s: u32,
    prev: u32,
    next: u32,
}

/// One live session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) accepted_at: Millis,
    pub(super) ends_at_s: u32,
}

#[derive(Debug)]
pub(super) struct Sessions {
    /// Shared with snapshots, and copied when written to while one is held.
    chunks: Vec<Arc<[Entry; CHUNK]>>,
    index: HashTable<u32>,
    buckets: Box<[u32]>,
    free: u32,
    slots: u32,
    /// Every bucket up to this second has been emptied.
    done_s: u32,
}

pub(super) fn seconds(time: Millis) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX - WHEEL_SECONDS)
}

/// The first second at which a span that began now has passed.
fn ends_at_s(now: Millis, duration: SessionDuration) -> u32 {
    seconds(now.plus_millis(999)).saturating_add(duration.as_seconds())
}

impl Sessions {
    pub(super) fn new(now: Millis) -> Self {
        Self {
            chunks: Vec::new(),
            index: HashTable::new(),
            buckets: vec![NIL; WHEEL_SECONDS as usize].into_boxed_slice(),
            free: NIL,
            slots: 0,
            done_s: seconds(now),
        }
    }

    /// Sessions alive, as of the last call to [`Self::advance`].
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Ends every session whose time has come.
    pub(super) fn advance(&mut self, now: Millis) {
        let now_s = seconds(now);
        if now_s <= self.done_s {
            return;
        }
        let first = self
            .done_s
            .saturating_add(1)
            .max(now_s.saturating_sub(WHEEL_SECONDS - 1));
        self.done_s = now_s;
        for second in first..=now_s {
            let bucket = (second % WHEEL_SECONDS) as usize;
            let mut slot = std::mem::replace(&mut self.buckets[bucket], NIL);
            while slot != NIL {
                let entry = *self.entry(slot);
                if entry.ends_at_s <= now_s {
                    self.forget(slot);
                } else {
                    self.link(slot);
                }
                slot = entry.next;
            }
        }
    }

    pub(super) fn get(&self, visitor: VisitorId) -> Option<Live> {
        let slot = self.find(visitor)?;
        let entry = self.entry(slot);
        Some(Live {
            accepted_at: Millis::new(u64::from(entry.accepted_at_s) * 1000),
            ends_at_s: entry.ends_at_s,
        })
    }

    /// Prolongs a session. It never ends sooner than before, also when `duration` has become shorter meanwhile.
    pub(super) fn renew(
        &mut self,
        visitor: VisitorId,
        now: Millis,
        duration: SessionDuration,
    ) -> Option<Live> {
        let slot = self.find(visitor)?;
        let ends_at_s = ends_at_s(now, duration);
        if self.entry(slot).ends_at_s < ends_at_s {
            self.entry_mut(slot).ends_at_s = ends_at_s;
        }
        self.get(visitor)
    }

    /// Starts a session for a visitor that has none. `false` when [`SESSIONS_MAX`] are alive.
    pub(super) fn insert(
        &mut self,
        visitor: VisitorId,
        now: Millis,
        duration: SessionDuration,
    ) -> bool {
        self.insert_raw(visitor, seconds(now), ends_at_s(now, duration))
    }

    fn insert_raw(&mut self, visitor: VisitorId, accepted_at_s: u32, ends_at_s: u32) -> bool {
        debug_assert!(self.find(visitor).is_none());
        if self.index.len() >= SESSIONS_MAX {
            return false;
        }
        let slot = self.allocate();
        *self.entry_mut(slot) = Entry {
            visitor: visitor.0,
            ends_at_s,
            accepted_at_s,
            prev: NIL,
            next: NIL,
        };
        self.link(slot);
        let chunks = &self.chunks;
        self.index
            .insert_unique(hash(visitor.0), slot, |&s| hash(entry(chunks, s).visitor));
        true
    }

    /// Ends a session before its time. `false` when the visitor has none.
    pub(super) fn remove(&mut self, visitor: VisitorId) -> bool {
        let Some(slot) = self.find(visitor) else {
            return false;
        };
        let Entry { prev, next, .. } = *self.entry(slot);
        if prev & IN_BUCKET == 0 {
            self.entry_mut(prev).next = next;
        } else {
            self.buckets[(prev & !IN_BUCKET) as usize] = next;
        }
        if next != NIL {
            self.entry_mut(next).prev = prev;
        }
        self.forget(slot);
        true
    }

    /// Every live session as `(visitor, accepted_at_s, ends_at_s)`, in no particular order; cheap to make, read elsewhere.
    pub(super) fn freeze(&self) -> FrozenSessions {
        FrozenSessions {
            chunks: self.chunks.clone(),
            slots: self.slots,
            now_s: self.done_s,
        }
    }

    /// Takes up a session of a snapshot.
    pub(super) fn restore(&mut self, visitor: VisitorId, accepted_at_s: u32, ends_at_s: u32) {
        if ends_at_s > self.done_s && self.find(visitor).is_none() {
            self.insert_raw(visitor, accepted_at_s, ends_at_s);
        }
    }

    fn find(&self, visitor: VisitorId) -> Option<u32> {
        self.index
            .find(hash(visitor.0), |&s| self.entry(s).visitor == visitor.0)
            .copied()
    }

    fn entry(&self, slot: u32) -> &Entry {
        entry(&self.chunks, slot)
    }

    fn entry_mut(&mut self, slot: u32) -> &mut Entry {
        let slot = slot as usize;
        &mut Arc::make_mut(&mut self.chunks[slot / CHUNK])[slot % CHUNK]
    }

    fn allocate(&mut self) -> u32 {
        if self.free != NIL {
            let slot = self.free;
            self.free = self.entry(slot).next;
            return slot;
        }
        let slot = self.slots;
        if slot as usize / CHUNK == self.chunks.len() {
            self.chunks.push(Arc::new([Entry::default(); CHUNK]));
        }
        self.slots += 1;
        slot
    }

    /// Takes an entry that is in no list out of the index and frees its slot.
    fn forget(&mut self, slot: u32) {
        let visitor = self.entry(slot).visitor;
        if let Ok(found) = self.index.find_entry(hash(visitor), |&s| s == slot) {
            found.remove();
        }
        let free = self.free;
        let entry = self.entry_mut(slot);
        // An end in the past marks a free slot for whoever reads a snapshot.
        entry.ends_at_s = 0;
        entry.next = free;
        self.free = slot;
    }

    /// Puts an entry that is in no list into the bucket of its end.
    fn link(&mut self, slot: u32) {
        let at = self
            .entry(slot)
            .ends_at_s
            .clamp(self.done_s + 1, self.done_s + WHEEL_SECONDS - 1);
        let bucket = at % WHEEL_SECONDS;
        let next = std::mem::replace(&mut self.buckets[bucket as usize], slot);
        let entry = self.entry_mut(slot);
        entry.prev = bucket | IN_BUCKET;
        entry.next = next;
        if next != NIL {
            self.entry_mut(next).prev = slot;
        }
    }
}

fn entry(chunks: &[Arc<[Entry; CHUNK]>], slot: u32) -> &Entry {
    let slot = slot as usize;
    &chunks[slot / CHUNK][slot % CHUNK]
}

/// Visitor ids are random already; the multiplication spreads them over the bits the table looks at.
fn hash(visitor: u64) -> u64 {
    visitor.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Sessions as they stood at one moment.
#[derive(Clone, Debug)]
pub(super) struct FrozenSessions {
    chunks: Vec<Arc<[Entry; CHUNK]>>,
    slots: u32,
    now_s: u32,
}

impl FrozenSessions {
    pub(super) fn iter(&self) -> impl Iterator<Item = (VisitorId, u32, u32)> + '_ {
        (0..self.slots)
            .map(|slot| entry(&self.chunks, slot))
            .filter(|entry| entry.ends_at_s > self.now_s)
            .map(|entry| {
                (
                    VisitorId(entry.visitor),
                    entry.accepted_at_s,
                    entry.ends_at_s,
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn duration(seconds: u32) -> SessionDuration {
        SessionDuration::from_seconds(seconds).unwrap()
    }

    #[test]
    fn a_session_lives_its_whole_duration_and_ends_within_the_next_second() {
        let start = Millis::new(10_500);
        let mut sessions = Sessions::new(start);
        assert!(sessions.insert(VisitorId(1), start, duration(60)));
        sessions.advance(Millis::new(70_500));
        assert_eq!(sessions.len(), 1);
        sessions.advance(Millis::new(71_000));
        assert_eq!(sessions.len(), 0);
    }

    #[test]
    fn entries_stay_small() {
        assert_eq!(size_of::<Entry>(), 24);
    }

    #[test]
    fn a_snapshot_keeps_what_it_saw() {
        let now = Millis::new(1_000_000);
        let mut sessions = Sessions::new(now);
        sessions.insert(VisitorId(1), now, duration(60));
        sessions.insert(VisitorId(2), now, duration(60));
        let frozen = sessions.freeze();
        sessions.remove(VisitorId(1));
        sessions.insert(VisitorId(3), now, duration(60));
        let mut seen: Vec<u64> = frozen.iter().map(|(visitor, ..)| visitor.0).collect();
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u32),
        Renew(u64, u32),
        Remove(u64),
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..40_u64, 1..9000_u32).prop_map(|(v, d)| Step::Insert(v, d)),
            (0..40_u64, 1..9000_u32).prop_map(|(v, d)| Step::Renew(v, d)),
            (0..40_u64).prop_map(Step::Remove),
            (0..6_000_000_u64).prop_map(Step::Pass),
            (0..3_000_u64).prop_map(Step::Pass),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(steps in proptest::collection::vec(step(), 1..200)) {
            let mut now = Millis::new(5_000_123);
            let mut sessions = Sessions::new(now);
            let mut model: HashMap<u64, u32> = HashMap::new();
            for step in steps {
                match step {
                    Step::Insert(v, d) => {
                        if sessions.get(VisitorId(v)).is_none() {
                            sessions.insert(VisitorId(v), now, duration(d));
                            model.insert(v, ends_at_s(now, duration(d)));
                        }
                    }
                    Step::Renew(v, d) => {
                        let renewed = sessions.renew(VisitorId(v), now, duration(d));
                        let expected = model.get_mut(&v).map(|ends| {
                            *ends = (*ends).max(ends_at_s(now, duration(d)));
                            *ends
                        });
                        prop_assert_eq!(renewed.map(|live| live.ends_at_s), expected);
                    }
                    Step::Remove(v) => {
                        prop_assert_eq!(sessions.remove(VisitorId(v)), model.remove(&v).is_some());
                    }
                    Step::Pass(millis) => {
                        now = now.plus_millis(millis);
                        sessions.advance(now);
                        model.retain(|_, ends| *ends > seconds(now));
                    }
                }
                prop_assert_eq!(sessions.len(), model.len());
                let frozen: HashMap<u64, u32> =
                    sessions.freeze().iter().map(|(v, _, ends)| (v.0, ends)).collect();
                prop_assert_eq!(&frozen, &model);
            }
        }
    }
}
