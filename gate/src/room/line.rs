//! The line: who waits, in which order, and who of them is present. Knows nothing of limits.
//!
//! A waiter is an index that only grows, and at that index two 16-bit times and two bits: when it last checked in, until when
//! that makes it *present*, and whether it is present and still has its place. 512 of them are a block of 4.3 bytes a
//! waiter; sums over blocks give positions in logarithmic time. Blocks without a waiter take no memory.
//!
//! Nothing fires when a waiter falls silent. Each block knows the second in which something in it may change next, and
//! [`Line::advance`] looks at those that are due, from the head on.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::fenwick::RingSums;

const BLOCK: u64 = 512;
const WORDS: usize = (BLOCK / 64) as usize;
/// Due blocks looked at in one step, so that no single request pays for a line of millions. Each second the head comes first;
/// behind the first 256 blocks in which something is due, an absent waiter may be shown as present a moment longer. Whether
/// somebody is admitted never depends on that: see [`Line::has_present_before`].
const BLOCKS_PER_STEP_MAX: usize = 256;
/// Due blocks, and slots in all, that every call looks at behind the head.
const BLOCKS_PER_ROUND_MAX: usize = 8;
const SLOTS_PER_ROUND_MAX: usize = 64;
/// A pause this long between two steps makes the next one look at everything, so that 16-bit times never wrap unseen.
const PAUSE_SECONDS_MAX: u32 = 60;
/// After a pause this long nobody is left: it is longer than any grace.
const EMPTY_AFTER_SECONDS: u32 = 20_000;
const NEVER: u32 = u32::MAX;

/// What the line knows of one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) present: bool,
    pub(super) seconds_since_check_in: u16,
}

#[derive(Clone, Debug)]
struct Block {
    alive: [u64; WORDS],
    present: [u64; WORDS],
    /// Seconds modulo 65,536.
    last_check_in: [u16; BLOCK as usize],
    present_until: [u16; BLOCK as usize],
}

#[derive(Clone, Debug, Default)]
struct Slot {
    /// Shared with snapshots, and copied when written to while one is held. `None` while nobody in it has a place.
    block: Option<Arc<Block>>,
}

#[derive(Debug)]
pub(super) struct Line {
    slots: VecDeque<Slot>,
    /// For each slot, the second in which something in it may change.
    due_s: VecDeque<u32>,
    /// Number of the first slot's block.
    first_block: u64,
    /// The index the next waiter gets.
    next: u64,
    present: RingSums,
    alive: u64,
    grace_seconds: u16,
    stepped_s: u32,
    /// Slots before this one are up to date.
    exact_slots: usize,
    /// Where the round over the blocks behind them goes on.
    cursor: usize,
    /// Numbers of the blocks that take memory.
    occupied: BTreeSet<u64>,
}

fn short(second: u32) -> u16 {
    (second & 0xffff) as u16
}

fn bit(index: u64) -> (usize, u64) {
    let within = index % BLOCK;
    ((within / 64) as usize, 1 << (within % 64))
}

impl Block {
    fn empty() -> Self {
        Self {
            alive: [0; WORDS],
            present: [0; WORDS],
            last_check_in: [0; BLOCK as usize],
            present_until: [0; BLOCK as usize],
        }
    }

    fn alive_count(&self) -> u32 {
        self.alive.iter().map(|word| word.count_ones()).sum()
    }

    fn present_count(&self) -> u32 {
        self.present.iter().map(|word| word.count_ones()).sum()
    }

    /// Takes out whoever's time is over. Returns the second in which the block must be looked at again.
    fn sweep(&mut self, now_s: u32, grace_seconds: u16) -> u32 {
        let now = short(now_s);
        let mut next = u32::MAX;
        for word in 0..WORDS {
            let mut rest = self.alive[word];
            while rest != 0 {
                let at = rest.trailing_zeros();
                rest &= rest - 1;
                let within = word * 64 + at as usize;
                let mask = 1_u64 << at;
                let present_for = self.present_until[within].wrapping_sub(now).cast_signed();
                if self.present[word] & mask != 0 {
                    if present_for > 0 {
                        next = next.min(u32::from(present_for.unsigned_abs()));
                        continue;
                    }
                    self.present[word] &= !mask;
                }
                let silent = now.wrapping_sub(self.last_check_in[within]);
                if silent >= grace_seconds {
                    self.alive[word] &= !mask;
                } else {
                    next = next.min(u32::from(grace_seconds - silent));
                }
            }
        }
        if next == u32::MAX {
            NEVER
        } else {
            now_s.saturating_add(next)
        }
    }
}

impl Line {
    /// An empty line whose first waiter gets `next`.
    pub(super) fn new(next: u64, now_s: u32) -> Self {
        Self {
            slots: VecDeque::new(),
            due_s: VecDeque::new(),
            first_block: next / BLOCK,
            next,
            present: RingSums::default(),
            alive: 0,
            grace_seconds: u16::MAX,
            stepped_s: now_s,
            exact_slots: 0,
            cursor: 0,
            occupied: BTreeSet::new(),
        }
    }

    /// The index the next waiter gets.
    pub(super) fn next_index(&self) -> u64 {
        self.next
    }

    /// Nobody with a smaller index has a place.
    pub(super) fn head_index(&self) -> u64 {
        if self.slots.is_empty() {
            self.next
        } else {
            self.first_block * BLOCK
        }
    }

    /// Waiters that are present.
    pub(super) fn present(&self) -> u64 {
        self.present.total()
    }

    /// Waiters that have a place, present or not.
    pub(super) fn alive(&self) -> u64 {
        self.alive
    }

    /// Lets time pass. `grace_seconds` holds for those already absent as well.
    pub(super) fn advance(&mut self, now_s: u32, grace_seconds: u16) {
        let mut changed = false;
        if grace_seconds != self.grace_seconds {
            self.grace_seconds = grace_seconds;
            self.make_all_due();
            changed = true;
        }
        let pause = now_s.saturating_sub(self.stepped_s);
        self.stepped_s = self.stepped_s.max(now_s);
        if pause >= EMPTY_AFTER_SECONDS {
            self.clear();
            return;
        }
        if pause > 0 || changed {
            if pause > PAUSE_SECONDS_MAX {
                self.step_all();
            } else {
                self.exact_slots = self.step(0..self.slots.len(), BLOCKS_PER_STEP_MAX);
            }
            self.drop_empty_head();
        }
        self.go_round();
    }

    /// Looks at a part of the line behind its head, in every call another one, so that all of it has its turn.
    fn go_round(&mut self) {
        if self.exact_slots >= self.slots.len() {
            return;
        }
        let from = self.cursor.max(self.exact_slots);
        let to = self.slots.len().min(from + SLOTS_PER_ROUND_MAX);
        let reached = self.step(from..to, BLOCKS_PER_ROUND_MAX);
        if from == self.exact_slots {
            self.exact_slots = reached;
        }
        self.cursor = if reached < self.slots.len() {
            reached
        } else {
            0
        };
    }

    /// Looks at every block that is due, however far back. For a line whose places are far apart; see `shared`.
    pub(super) fn advance_all(&mut self, now_s: u32) {
        self.stepped_s = self.stepped_s.max(now_s);
        let due: Vec<usize> = self
            .occupied
            .iter()
            .map(|number| self.slot_of(number * BLOCK))
            .filter(|at| self.due_s[*at] <= self.stepped_s)
            .collect();
        for at in due {
            self.sweep(at, self.stepped_s);
        }
    }

    /// Present waiters by groups of `width` places, a multiple of the block's, without empty groups.
    pub(super) fn present_by(&self, width: u64) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.occupied.iter().filter_map(move |number| {
            let index = number * BLOCK;
            let present = self.block(index)?.present_count();
            (present > 0).then_some((index / width, present))
        })
    }

    fn make_all_due(&mut self) {
        for (due, slot) in self.due_s.iter_mut().zip(&self.slots) {
            if slot.block.is_some() {
                *due = 0;
            }
        }
    }

    /// Looks at the due ones of some slots, at most `blocks` of them. Returns the first slot it did not reach.
    fn step(&mut self, slots: std::ops::Range<usize>, blocks: usize) -> usize {
        let mut left = blocks;
        let end = slots.end;
        for at in slots {
            if self.due_s[at] <= self.stepped_s {
                if left == 0 {
                    return at;
                }
                left -= 1;
                self.sweep(at, self.stepped_s);
            }
        }
        end
    }

    fn step_all(&mut self) {
        self.step(0..self.slots.len(), usize::MAX);
        self.exact_slots = self.slots.len();
    }

    /// A new waiter at the end of the line, present from now on. Returns its index.
    pub(super) fn join(&mut self, now_s: u32, present_seconds: u16) -> u64 {
        let index = self.next;
        self.next += 1;
        self.place(index, now_s, present_seconds);
        index
    }

    /// Raises the index the next waiter gets, leaving those between to [`Self::claim`].
    pub(super) fn skip_to(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    /// Gives an index below [`Self::next_index`] that nobody holds to a waiter who proved to have had it.
    pub(super) fn claim(&mut self, index: u64, now_s: u32, present_seconds: u16) {
        if index < self.next && self.standing(index).is_none() {
            self.place(index, now_s, present_seconds);
        }
    }

    /// The waiter at `index`, or `None` when nobody has that place any more.
    pub(super) fn standing(&self, index: u64) -> Option<Standing> {
        let block = self.block(index)?;
        let (word, mask) = bit(index);
        (block.alive[word] & mask != 0).then(|| Standing {
            present: block.present[word] & mask != 0,
            seconds_since_check_in: short(self.stepped_s)
                .wrapping_sub(block.last_check_in[(index % BLOCK) as usize]),
        })
    }

    /// The waiter at `index`, who has a place, is here.
    pub(super) fn check_in(&mut self, index: u64, now_s: u32, present_seconds: u16) {
        if self.standing(index).is_some() {
            self.place(index, now_s, present_seconds);
        }
    }

    /// Takes the waiter at `index` out of the line.
    pub(super) fn remove(&mut self, index: u64) {
        let Some(standing) = self.standing(index) else {
            return;
        };
        let at = self.slot_of(index);
        let (word, mask) = bit(index);
        if let Some(block) = self.slots[at].block.as_mut() {
            let block = Arc::make_mut(block);
            block.alive[word] &= !mask;
            block.present[word] &= !mask;
            if block.alive_count() == 0 {
                self.slots[at].block = None;
                self.due_s[at] = NEVER;
                self.occupied.remove(&(index / BLOCK));
            }
        }
        self.alive -= 1;
        if standing.present {
            self.present.sub(index / BLOCK, 1);
        }
    }

    /// Whether at least `count` present waiters have a smaller index; exact however long the line is. Where the head alone does
    /// not answer it, everything up to the index is brought up to date, which happens once a second at most.
    pub(super) fn has_present_before(&mut self, index: u64, count: u64) -> bool {
        if count == 0 {
            return true;
        }
        let number = index / BLOCK;
        let exact_end = self.first_block + self.exact_slots as u64;
        if number < exact_end {
            return self.present_before(index) >= count;
        }
        if self.present.sum(self.first_block, exact_end) >= count {
            return true;
        }
        self.step_all();
        self.present_before(index) >= count
    }

    /// Present waiters with a smaller index.
    pub(super) fn present_before(&self, index: u64) -> u64 {
        let number = index / BLOCK;
        let blocks = self.present.sum(self.first_block, number);
        let within = self.block(index).map_or(0, |block| {
            let (word, mask) = bit(index);
            let before: u32 = block.present[..word].iter().map(|w| w.count_ones()).sum();
            before + (block.present[word] & (mask - 1)).count_ones()
        });
        blocks + u64::from(within)
    }

    /// Moves every waiter to the index that `to`, a bijection of the indices given so far, sends its own to.
    pub(super) fn rearrange(&mut self, to: impl Fn(u64) -> u64) {
        let frozen = self.freeze();
        self.clear();
        for waiter in frozen.iter() {
            self.place(
                to(waiter.index),
                waiter.last_check_in_s,
                waiter.present_seconds,
            );
        }
        self.settle();
    }

    /// The line as it stands now; cheap to make, read elsewhere.
    pub(super) fn freeze(&self) -> FrozenLine {
        FrozenLine {
            slots: self.slots.iter().map(|slot| slot.block.clone()).collect(),
            first_block: self.first_block,
            next: self.next,
            now_s: self.stepped_s,
        }
    }

    /// Takes up the waiters of a snapshot. Those with an index that was never given are left out.
    pub(super) fn restore(&mut self, waiters: impl Iterator<Item = Waiter>) {
        let next = self.next;
        for waiter in waiters.filter(|waiter| waiter.index < next) {
            self.place(waiter.index, waiter.last_check_in_s, waiter.present_seconds);
        }
        self.settle();
    }

    /// Looks at everything, after waiters were placed with times of the past.
    fn settle(&mut self) {
        self.make_all_due();
        self.step_all();
    }

    fn place(&mut self, index: u64, check_in_s: u32, present_seconds: u16) {
        let number = index / BLOCK;
        self.make_slot(number);
        let at = self.slot_of(index);
        let (word, mask) = bit(index);
        let within = (index % BLOCK) as usize;
        let occupied = &mut self.occupied;
        let block = self.slots[at].block.get_or_insert_with(|| {
            occupied.insert(number);
            Arc::new(Block::empty())
        });
        let block = Arc::make_mut(block);
        block.last_check_in[within] = short(check_in_s);
        block.present_until[within] = short(check_in_s).wrapping_add(present_seconds);
        if block.alive[word] & mask == 0 {
            block.alive[word] |= mask;
            self.alive += 1;
        }
        if block.present[word] & mask == 0 {
            block.present[word] |= mask;
            self.present.add(number, 1);
        }
        let due = check_in_s.saturating_add(u32::from(present_seconds));
        self.due_s[at] = self.due_s[at].min(due);
    }

    fn sweep(&mut self, at: usize, now_s: u32) {
        let Some(block) = self.slots[at].block.as_mut() else {
            self.due_s[at] = NEVER;
            return;
        };
        let block = Arc::make_mut(block);
        let (alive, present) = (block.alive_count(), block.present_count());
        self.due_s[at] = block.sweep(now_s, self.grace_seconds);
        let (alive_left, present_left) = (block.alive_count(), block.present_count());
        self.alive -= u64::from(alive - alive_left);
        if present > present_left {
            self.present
                .sub(self.first_block + at as u64, present - present_left);
        }
        if alive_left == 0 {
            self.slots[at].block = None;
            self.occupied.remove(&(self.first_block + at as u64));
        }
    }

    fn drop_empty_head(&mut self) {
        let tail_block = self.next / BLOCK;
        while self.first_block < tail_block
            && self.slots.front().is_some_and(|slot| slot.block.is_none())
        {
            self.slots.pop_front();
            self.due_s.pop_front();
            self.first_block += 1;
            self.exact_slots = self.exact_slots.saturating_sub(1);
        }
        if self.slots.is_empty() {
            self.first_block = tail_block;
        }
    }

    fn clear(&mut self) {
        self.slots.clear();
        self.due_s.clear();
        self.first_block = self.next / BLOCK;
        self.present = RingSums::default();
        self.alive = 0;
        self.exact_slots = 0;
        self.cursor = 0;
        self.occupied.clear();
    }

    fn block(&self, index: u64) -> Option<&Block> {
        let offset = (index / BLOCK).checked_sub(self.first_block)?;
        let slot = self.slots.get(usize::try_from(offset).ok()?)?;
        slot.block.as_deref()
    }

    /// Position of the slot of an index that is in the window.
    fn slot_of(&self, index: u64) -> usize {
        usize::try_from(index / BLOCK - self.first_block).unwrap_or(usize::MAX)
    }

    fn make_slot(&mut self, number: u64) {
        if self.slots.is_empty() {
            self.first_block = number;
        }
        while number < self.first_block {
            self.slots.push_front(Slot::default());
            self.due_s.push_front(NEVER);
            self.first_block -= 1;
            self.exact_slots += 1;
        }
        while self.first_block + self.slots.len() as u64 <= number {
            self.exact_slots += usize::from(self.exact_slots == self.slots.len());
            self.slots.push_back(Slot::default());
            self.due_s.push_back(NEVER);
        }
        let slots = &self.slots;
        self.present.reserve(
            slots.len() as u64,
            self.first_block,
            slots
                .iter()
                .map(|slot| slot.block.as_ref().map_or(0, |b| b.present_count())),
        );
    }
}

/// One waiter, as a snapshot holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) index: u64,
    pub(super) last_check_in_s: u32,
    /// From the check-in on.
    pub(super) present_seconds: u16,
}

/// The line as it stood at one moment.
#[derive(Clone, Debug)]
pub(super) struct FrozenLine {
    slots: Vec<Option<Arc<Block>>>,
    first_block: u64,
    next: u64,
    now_s: u32,
}

impl FrozenLine {
    pub(super) fn next_index(&self) -> u64 {
        self.next
    }

    /// Waiters that have a place, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Waiter> + '_ {
        let now = short(self.now_s);
        (self.first_block..)
            .zip(&self.slots)
            .filter_map(|(number, slot)| Some((number, slot.as_deref()?)))
            .flat_map(move |(number, block)| {
                (0..BLOCK)
                    .filter(|within| {
                        let (word, mask) = bit(*within);
                        block.alive[word] & mask != 0
                    })
                    .map(move |within| {
                        let last = block.last_check_in[within as usize];
                        Waiter {
                            index: number * BLOCK + within,
                            last_check_in_s: self
                                .now_s
                                .saturating_sub(u32::from(now.wrapping_sub(last))),
                            present_seconds: block.present_until[within as usize]
                                .wrapping_sub(last),
                        }
                    })
            })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const PRESENT: u16 = 50;

    #[test]
    fn a_waiter_costs_less_than_five_bytes() {
        assert!(size_of::<Block>() * 10 < 5 * 10 * BLOCK as usize);
    }

    #[test]
    fn an_absent_waiter_keeps_its_place_and_then_loses_it() {
        let mut line = Line::new(0, 1000);
        let first = line.join(1000, PRESENT);
        let second = line.join(1000, PRESENT);
        line.advance(1049, 300);
        line.check_in(second, 1049, PRESENT);
        assert_eq!(line.present_before(second), 1);
        line.advance(1050, 300);
        assert_eq!(line.present_before(second), 0);
        assert_eq!(
            line.standing(first),
            Some(Standing {
                present: false,
                seconds_since_check_in: 50
            })
        );
        line.check_in(first, 1050, PRESENT);
        assert_eq!(line.present_before(second), 1);
        line.advance(1349, 300);
        assert!(line.standing(first).is_some());
        line.advance(1350, 300);
        assert_eq!(line.standing(first), None);
        assert_eq!(line.alive(), 0);
    }

    #[test]
    fn an_emptied_line_keeps_no_blocks() {
        let mut line = Line::new(7, 1000);
        for _ in 0..100_000 {
            line.join(1000, PRESENT);
        }
        for index in 7..100_007 {
            line.remove(index);
        }
        line.advance(1001, 300);
        assert!(line.slots.len() <= 1, "{}", line.slots.len());
        assert_eq!((line.alive(), line.present()), (0, 0));
        assert_eq!(line.join(1001, PRESENT), 100_007);
    }

    #[test]
    fn a_long_pause_ends_every_wait() {
        for pause in [301, 20_000, 65_536, 65_536 + 10, 10_000_000] {
            let mut line = Line::new(0, 1000);
            for _ in 0..10_000 {
                line.join(1000, PRESENT);
            }
            line.advance(1000 + pause, 300);
            assert_eq!((line.alive(), line.present()), (0, 0), "{pause}");
        }
    }

    /// What the line does, one struct a waiter.
    #[derive(Default)]
    struct Model {
        waiters: BTreeMap<u64, (u32, u32)>,
    }

    impl Model {
        fn advance(&mut self, now: u32, grace: u16) {
            self.waiters
                .retain(|_, (last, until)| *until > now || now - *last < u32::from(grace));
        }

        fn present_before(&self, index: u64, now: u32) -> u64 {
            let ahead = self.waiters.range(..index);
            ahead.filter(|(_, (_, until))| *until > now).count() as u64
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Join(u8, u16),
        CheckIn(u64, u16),
        Remove(u64),
        Pass(u32),
        Rearrange(u64),
        Restore,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (1..200_u8, 1..100_u16).prop_map(|(n, present)| Step::Join(n, present)),
            3 => (0..3000_u64, 1..100_u16).prop_map(|(i, present)| Step::CheckIn(i, present)),
            2 => (0..3000_u64).prop_map(Step::Remove),
            3 => (1..60_u32).prop_map(Step::Pass),
            1 => (0..30_000_u32).prop_map(Step::Pass),
            1 => any::<u64>().prop_map(Step::Rearrange),
            1 => Just(Step::Restore),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn agrees_with_a_list(steps in proptest::collection::vec(step(), 1..60)) {
            const GRACE: u16 = 300;
            let mut now = 100_000_u32;
            let mut line = Line::new(0, now);
            let mut model = Model::default();
            for step in steps {
                match step {
                    Step::Join(count, present_seconds) => {
                        for _ in 0..count {
                            let index = line.join(now, present_seconds);
                            model.waiters.insert(index, (now, now + u32::from(present_seconds)));
                        }
                    }
                    Step::CheckIn(index, present_seconds) => {
                        line.check_in(index, now, present_seconds);
                        if let Some(times) = model.waiters.get_mut(&index) {
                            *times = (now, now + u32::from(present_seconds));
                        }
                    }
                    Step::Remove(index) => {
                        line.remove(index);
                        model.waiters.remove(&index);
                    }
                    Step::Pass(seconds) => {
                        now += seconds;
                        line.advance(now, GRACE);
                        model.advance(now, GRACE);
                    }
                    Step::Rearrange(key) => {
                        let length = line.next_index();
                        let shuffle = super::super::shuffle::Shuffle { from: 0, length, key };
                        line.rearrange(|index| shuffle.apply(index));
                        model.waiters = std::mem::take(&mut model.waiters)
                            .into_iter()
                            .map(|(index, times)| (shuffle.apply(index), times))
                            .collect();
                    }
                    Step::Restore => {
                        let frozen = line.freeze();
                        let mut fresh = Line::new(frozen.next_index(), now);
                        fresh.advance(now, GRACE);
                        fresh.restore(frozen.iter());
                        line = fresh;
                    }
                }
                prop_assert_eq!(line.alive(), model.waiters.len() as u64);
                prop_assert_eq!(line.present(), model.present_before(u64::MAX, now));
                for (&index, &(last, until)) in &model.waiters {
                    let standing = line.standing(index);
                    prop_assert_eq!(standing.map(|s| (s.present, u32::from(s.seconds_since_check_in))),
                        Some((until > now, now - last)));
                    prop_assert_eq!(line.present_before(index), model.present_before(index, now));
                }
            }
        }
    }
}
