//! One gate's part in a room that several gates share: which places it gives, what it knows of the other gates, and the
//! slots it has in hand. Nothing here talks to anybody; `cluster` brings views and slots, and carries reports away.
//!
//! **Places.** A place is the second of arrival, then the gate, then a number, so that places order visitors to the second
//! across gates and no two gates give the same one. A gate that is asked by a visitor of another gate's place takes the
//! place up as its own.
//!
//! **Moves.** A visitor known to gate A who checks in at gate B counts at B from then on, and still at A until A forgets it.
//! So B also counts *minus one* until the second in which A will have forgotten it: the sum over all gates is right without
//! a word between A and B. B knows that second from the ticket's last check-in.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::core::{Door, Room, present_seconds};
use super::sessions::seconds;
use super::settings::{Operation, QueueAll, QueueingMethod, SessionRenewal};
use super::time::Millis;
use super::visitor::{Place, Session, Ticket, VisitorId, Waiting};

/// Bits of a place below its second.
const SECOND_BITS: u32 = 16;
/// Gates that can share a room.
pub const GATES_MAX: u16 = 64;
/// A correction for another gate's copy ends this much sooner than the copy may: the two are published a second or so apart,
/// and for that long nobody may count too little.
const CORRECTION_MARGIN_SECONDS: u32 = 3;
/// Visitors whose sessions were revoked or given up, remembered per room. When full the oldest is forgotten: an old ticket of his
/// is then worth a session again until it expires.
const ENDED_MAX: usize = 65_536;

/// Which of the room's gates this is, and how many there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateNumber {
    number: u16,
    gates: u16,
}

impl GateNumber {
    /// `None` unless `number < gates ≤` [`GATES_MAX`]. `gates` is rounded up to a power of two: each gets that part of a
    /// second's 65,536 places, and one that gives more takes them from the seconds to come.
    pub fn new(number: u16, gates: u16) -> Option<Self> {
        (number < gates && gates <= GATES_MAX).then_some(Self {
            number,
            gates: gates.next_power_of_two(),
        })
    }

    /// First place of the gate in a second, and the first that is not its own any more.
    fn places(self, second: u64) -> std::ops::Range<u64> {
        let each = (1_u64 << SECOND_BITS) / u64::from(self.gates);
        let first = (second << SECOND_BITS) + each * u64::from(self.number);
        first..first + each
    }
}

/// Present waiters by second of arrival. Counts of one gate can be negative: see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitersBySecond(Vec<(u64, i64)>);

impl WaitersBySecond {
    /// From pairs of second and count, in any order; the same second may come again.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (u64, i64)>) -> Self {
        let mut pairs: Vec<(u64, i64)> = pairs.into_iter().collect();
        // Stable: fast where whole stretches are in order, as they mostly are.
        pairs.sort_by_key(|(second, _)| *second);
        pairs.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        pairs.retain(|(_, count)| *count != 0);
        Self(pairs)
    }

    /// This sum with `more` in place of `less`.
    #[must_use]
    pub fn replace(&self, less: &Self, more: &Self) -> Self {
        if less == more {
            return self.clone();
        }
        let less = less.0.iter().map(|(second, count)| (*second, -count));
        Self::from_pairs(
            self.0
                .iter()
                .copied()
                .chain(less)
                .chain(more.0.iter().copied()),
        )
    }

    /// In order of seconds, without zeros.
    pub fn pairs(&self) -> &[(u64, i64)] {
        &self.0
    }
}

/// What a gate knows of all the others, a second or two old.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Slots nobody holds, and those this gate's data center holds.
    pub free_slots: u64,
    /// Active users of all gates, this one included.
    pub active_users: u64,
    /// Admissions of all gates in the last 60 s.
    pub admitted_last_minute: u64,
    /// Gates heard from lately; at least 1.
    pub gates: u32,
    /// Waiters of the other gates.
    pub elsewhere: WaitersBySecond,
}

/// What the limits of a gate's room are measured against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions, less those that are counted here and still known elsewhere.
    pub active_users: i64,
    pub admitted_last_minute: u64,
}

/// What a gate tells the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub counts: Counts,
    /// Slots used since the gate began.
    pub slots_used: u64,
    /// Slots in hand.
    pub slots_in_hand: u64,
    /// New users since the gate began: visitors who came without a session and without a place.
    pub new_users: u64,
    pub waiters: WaitersBySecond,
}

#[derive(Debug)]
pub(super) struct Shared {
    gate: GateNumber,
    /// Sum of the other gates' present waiters up to and including a second, in order of seconds.
    ahead: Vec<(u64, u64)>,
    pub(super) view: View,
    in_hand: u64,
    used: u64,
    new_users: u64,
    /// The gate gave no place before this one.
    first_place: u64,
    /// Whose session was ended here on purpose, so that no ticket of theirs brings it back.
    ended: HashSet<VisitorId>,
    ended_order: VecDeque<VisitorId>,
    /// Until a second: what sessions count differently from those this gate holds.
    session_moves: BTreeMap<u32, i64>,
    /// Until a second, for a second of arrival: the same for waiters.
    waiter_moves: BTreeMap<(u32, u64), i64>,
}

impl Shared {
    fn new(gate: GateNumber, now: Millis) -> Self {
        Self {
            gate,
            first_place: gate.places(now.as_secs()).start,
            ended: HashSet::new(),
            ended_order: VecDeque::new(),
            ahead: Vec::new(),
            view: View {
                gates: 1,
                ..View::default()
            },
            in_hand: 0,
            used: 0,
            new_users: 0,
            session_moves: BTreeMap::new(),
            waiter_moves: BTreeMap::new(),
        }
    }

    /// Present waiters of the other gates who came in an earlier second than `second`.
    fn ahead_of(&self, second: u64) -> u64 {
        let later = self.ahead.partition_point(|(at, _)| *at < second);
        later
            .checked_sub(1)
            .and_then(|last| self.ahead.get(last))
            .map_or(0, |(_, sum)| *sum)
    }

    pub(super) fn elsewhere(&self) -> u64 {
        self.ahead.last().map_or(0, |(_, sum)| *sum)
    }

    fn set_view(&mut self, view: View) {
        let mut sum = 0_u64;
        self.ahead = view
            .elsewhere
            .pairs()
            .iter()
            .map(|&(second, count)| {
                sum = sum.saturating_add_signed(count.max(0));
                (second, sum)
            })
            .collect();
        self.view = view;
    }

    /// Slots to reckon with. One at least, so that whoever is first in line asks the counter rather than the view.
    pub(super) fn free_slots(&self) -> u64 {
        self.view.free_slots.saturating_add(self.in_hand).max(1)
    }

    fn advance(&mut self, now_s: u32) {
        while let Some(entry) = self.session_moves.first_entry() {
            if *entry.key() > now_s {
                break;
            }
            entry.remove();
        }
        while let Some(entry) = self.waiter_moves.first_entry() {
            if entry.key().0 > now_s {
                break;
            }
            entry.remove();
        }
    }

    fn move_session(&mut self, until_s: u32, count: i64, now_s: u32) {
        if until_s > now_s {
            *self.session_moves.entry(until_s).or_insert(0) += count;
        }
    }

    fn move_waiter(&mut self, until_s: u32, second: u64, count: i64, now_s: u32) {
        if until_s > now_s {
            *self.waiter_moves.entry((until_s, second)).or_insert(0) += count;
        }
    }
}

/// The second of arrival in a place that a shared room gave.
pub(super) fn second_of(place: Place) -> u64 {
    place.0 >> SECOND_BITS
}

impl Room {
    /// Makes the room one that several gates share. From now on it admits only with slots given to [`Room::deposit`].
    pub fn share(&mut self, gate: GateNumber) {
        self.gap = None;
        self.shared = Some(Box::new(Shared::new(gate, self.now)));
    }

    /// Takes over a newer view of the other gates.
    pub fn set_view(&mut self, now: Millis, view: View) {
        self.advance(now);
        if let Some(shared) = &mut self.shared {
            shared.set_view(view);
        }
        // Places of a shared line are far apart, and those not at the head are otherwise looked at rarely.
        self.line.advance_all(seconds(self.now));
    }

    /// Whether a request that carries `ticket` would be admitted if a slot were in hand. Never for an active user.
    pub fn asks(&mut self, now: Millis, ticket: Option<&Ticket>) -> bool {
        self.advance(now);
        let settings = self.in_effect.settings;
        if settings.operation == Operation::Suspended || self.door() != Door::Limited {
            return false;
        }
        let Some(shared) = &self.shared else {
            return false;
        };
        if shared.in_hand > 0 {
            return false;
        }
        let in_view = shared.view.free_slots;
        let free = self.free_slots();
        match ticket {
            Some(ticket) if self.is_active(ticket) => false,
            Some(Ticket::Waiting(waiting)) => {
                self.take_up_place(waiting);
                let Some((_, index)) = self.find_place(waiting.visitor, Some(waiting.place)) else {
                    return self.waiters() < free;
                };
                if settings.queueing_method == QueueingMethod::Random {
                    let standing = self.line.standing(index);
                    let counts = standing.is_some_and(|standing| self.check_in_counts(standing));
                    return counts && in_view > 0 && self.draws_a_slot(in_view);
                }
                self.waiters_before(index) < free
            }
            Some(Ticket::Session(_)) | None => self.waiters() < free,
        }
    }

    /// Puts slots in hand.
    pub fn deposit(&mut self, slots: u64) {
        if let Some(shared) = &mut self.shared {
            shared.in_hand = shared.in_hand.saturating_add(slots);
        }
    }

    /// The duration in effect.
    pub fn session_duration_seconds(&self) -> u32 {
        self.in_effect.settings.session_duration.as_seconds()
    }

    /// Slots used since the gate began.
    pub fn slots_used(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.used)
    }

    /// Takes every slot out of hand, to be given back.
    pub fn withdraw(&mut self) -> u64 {
        self.shared
            .as_mut()
            .map_or(0, |shared| std::mem::take(&mut shared.in_hand))
    }

    /// Active users and admissions of the last 60 s, as [`Room::report`] says them.
    pub fn counts(&mut self, now: Millis) -> Counts {
        self.advance(now);
        let moved = self
            .shared
            .as_ref()
            .map_or(0, |shared| shared.session_moves.values().sum::<i64>());
        Counts {
            active_users: i64::try_from(self.sessions.len()).unwrap_or(i64::MAX) + moved,
            admitted_last_minute: self.rate.total(),
        }
    }

    /// What the other gates are to know.
    pub fn report(&mut self, now: Millis) -> Report {
        let counts = self.counts(now);
        let Some(shared) = &self.shared else {
            return Report::default();
        };
        let own = self
            .line
            .present_by(1 << SECOND_BITS)
            .map(|(second, count)| (second, i64::from(count)));
        let moved = shared
            .waiter_moves
            .iter()
            .map(|(&(_, second), &count)| (second, count));
        Report {
            counts,
            slots_used: shared.used,
            slots_in_hand: shared.in_hand,
            new_users: shared.new_users,
            waiters: WaitersBySecond::from_pairs(own.chain(moved)),
        }
    }

    pub(super) fn advance_shared(&mut self) {
        let now_s = seconds(self.now);
        if let Some(shared) = &mut self.shared {
            shared.advance(now_s);
        }
    }

    /// Takes the slot an admission needs. `false` when a shared room has none in hand.
    pub(super) fn take_slot(&mut self) -> bool {
        let Some(shared) = &mut self.shared else {
            return true;
        };
        if shared.in_hand == 0 {
            return false;
        }
        shared.in_hand -= 1;
        shared.used += 1;
        true
    }

    /// Somebody came without a session and without a place.
    pub(super) fn count_new_user(&mut self) {
        if let Some(shared) = &mut self.shared {
            shared.new_users += 1;
        }
    }

    /// Present waiters of all gates.
    pub(super) fn waiters(&self) -> u64 {
        let elsewhere = self.shared.as_ref().map_or(0, |shared| shared.elsewhere());
        self.line.present().saturating_add(elsewhere)
    }

    /// Present waiters of all gates before the one at `index`. Those of other gates who came in the same second are not.
    pub(super) fn waiters_before(&self, index: u64) -> u64 {
        let elsewhere = self
            .shared
            .as_ref()
            .map_or(0, |shared| shared.ahead_of(second_of(Place(index))));
        self.line.present_before(index).saturating_add(elsewhere)
    }

    /// Moves the end of a shared line to this second.
    pub(super) fn open_second(&mut self) {
        if let Some(shared) = &self.shared {
            let next = self.line.next_index();
            // The gate's part of the second `next` is in, or of a later one when that part is used up.
            let mut own = shared
                .gate
                .places(self.now.as_secs().max(next >> SECOND_BITS));
            if next >= own.end {
                own = shared.gate.places((next >> SECOND_BITS) + 1);
            }
            self.line.skip_to(own.start);
        }
    }

    /// Whether the ticket is an active user's, here or at another gate.
    fn is_active(&self, ticket: &Ticket) -> bool {
        match ticket {
            Ticket::Session(session) => {
                self.sessions.get(session.visitor).is_some() || self.is_alive_elsewhere(session)
            }
            Ticket::Waiting(waiting) => self.sessions.get(waiting.visitor).is_some(),
        }
    }

    fn ends_elsewhere_s(&self, session: &Session) -> u32 {
        let since = match self.in_effect.settings.session_renewal {
            SessionRenewal::EachRequest => session.last_check_in,
            SessionRenewal::Disabled => session.accepted_at,
        };
        // A ticket from the future is one of a gate whose clock is ahead.
        seconds(since.min(self.now))
            .saturating_add(self.in_effect.settings.session_duration.as_seconds())
    }

    fn is_alive_elsewhere(&self, session: &Session) -> bool {
        let Some(shared) = &self.shared else {
            return false;
        };
        !shared.ended.contains(&session.visitor)
            && self.in_effect.settings.queue_all != QueueAll::Everyone
            && self.ends_elsewhere_s(session) > seconds(self.now)
    }

    /// Takes over what another gate knows of the ticket's visitor.
    pub(super) fn take_up(&mut self, ticket: &Ticket) {
        match ticket {
            Ticket::Session(session) => self.take_up_session(session),
            Ticket::Waiting(waiting) => self.take_up_place(waiting),
        }
    }

    /// No ticket brings the visitor's session back.
    pub(super) fn end_everywhere(&mut self, visitor: VisitorId) {
        let Some(shared) = &mut self.shared else {
            return;
        };
        if shared.ended.insert(visitor) {
            shared.ended_order.push_back(visitor);
            if shared.ended_order.len() > ENDED_MAX
                && let Some(oldest) = shared.ended_order.pop_front()
            {
                shared.ended.remove(&oldest);
            }
        }
    }

    /// Active users of all gates.
    pub(super) fn active_users(&self) -> u64 {
        let own = self.sessions.len() as u64;
        self.shared
            .as_ref()
            .map_or(own, |shared| shared.view.active_users.max(own))
    }

    /// This gate's part of `new_users_per_minute`, where admission is paced.
    pub(super) fn pace_per_minute(&self) -> u32 {
        let per_minute = self.in_effect.settings.limits.new_users_per_minute();
        match &self.shared {
            Some(shared) => (per_minute / shared.view.gates.max(1)).max(1),
            None => per_minute,
        }
    }

    /// Admissions per minute of all gates to reckon with: the last minute's, with the limits' word for one minute beside it.
    pub(super) fn shared_per_minute(&self, sustained: f64) -> Option<f64> {
        let shared = self.shared.as_ref()?;
        Some((shared.view.admitted_last_minute as f64 + sustained) / 2.0)
    }

    /// An active user of another gate is one of this gate's from now on.
    pub(super) fn take_up_session(&mut self, session: &Session) {
        if !self.is_alive_elsewhere(session) {
            return;
        }
        let now_s = seconds(self.now);
        let ends_elsewhere_s = self.ends_elsewhere_s(session);
        let correction_until_s = ends_elsewhere_s.saturating_sub(CORRECTION_MARGIN_SECONDS);
        let own = self.sessions.get(session.visitor);
        match own {
            // Renewed elsewhere since: this gate's old entry becomes the other's to correct, see the module.
            Some(live) if live.ends_at_s + 1 < ends_elsewhere_s => {
                if let Some(shared) = &mut self.shared {
                    shared.move_session(live.ends_at_s, 1, now_s);
                    shared.move_session(correction_until_s, -1, now_s);
                }
            }
            Some(_) => {}
            None => {
                self.sessions.restore(
                    session.visitor,
                    seconds(session.accepted_at),
                    ends_elsewhere_s,
                );
                if let Some(shared) = &mut self.shared {
                    shared.move_session(correction_until_s, -1, now_s);
                }
            }
        }
    }

    /// A waiter of another gate is one of this gate's from now on, in its place.
    pub(super) fn take_up_place(&mut self, waiting: &Waiting) {
        if self.shared.is_none() || self.sessions.get(waiting.visitor).is_some() {
            return;
        }
        let now_s = seconds(self.now);
        let checked_in_s = seconds(waiting.last_check_in.min(self.now));
        if now_s.saturating_sub(checked_in_s) >= u32::from(self.grace_seconds()) {
            return;
        }
        let index = waiting.place.0;
        let second = second_of(waiting.place);
        // No gate gives places of seconds that have not come, but for those it ran ahead by.
        if second > self.now.as_secs() + u64::from(super::settings::QUEUE_PLACE_GRACE_SECONDS_MAX) {
            return;
        }
        let present = present_seconds(self.least_refresh_seconds());
        let elsewhere_until_s = checked_in_s + u32::from(present);
        let correction_until_s = elsewhere_until_s.saturating_sub(CORRECTION_MARGIN_SECONDS);
        let Some(standing) = self.line.standing(index) else {
            if self.gave(waiting.place) {
                // Its own, and it is gone: admitted or left.
                return;
            }
            self.line.skip_to(index + 1);
            self.line.claim(index, checked_in_s, present);
            if let Some(shared) = &mut self.shared {
                shared.move_waiter(correction_until_s, second, -1, now_s);
            }
            return;
        };
        let own_s = now_s.saturating_sub(u32::from(standing.seconds_since_check_in));
        if checked_in_s > own_s + 1 {
            if let Some(shared) = &mut self.shared {
                if standing.present {
                    shared.move_waiter(own_s + u32::from(present), second, 1, now_s);
                }
                shared.move_waiter(correction_until_s, second, -1, now_s);
            }
            self.line.check_in(index, checked_in_s, present);
        }
    }

    /// Whether this gate gave the place, so that nobody can hold it without this gate's knowledge.
    fn gave(&self, place: Place) -> bool {
        self.shared.as_ref().is_some_and(|shared| {
            shared.gate.places(second_of(place)).contains(&place.0)
                && place.0 >= shared.first_place
                && place.0 < self.line.next_index()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::{Decision, Limits, Plan, Settings};

    fn gate(number: u16) -> Room {
        let settings = Settings::with_limits(Limits::new(100, 100).unwrap());
        let mut room = Room::new(Plan::new_without_events(settings), u64::from(number), at(0));
        room.share(GateNumber::new(number, 2).unwrap());
        room
    }

    fn at(seconds: u64) -> Millis {
        Millis::new((1_700_000_000 + seconds) * 1000)
    }

    fn waits(room: &mut Room, now: Millis, ticket: Option<Ticket>) -> (Ticket, u64) {
        let decision = room.check_in(now, ticket);
        let Decision::Wait { ticket, view, .. } = decision else {
            panic!("{decision:?}");
        };
        (Ticket::Waiting(ticket), view.position.unwrap())
    }

    fn enters(room: &mut Room, now: Millis, ticket: Option<Ticket>) -> Ticket {
        room.deposit(1);
        let decision = room.check_in(now, ticket);
        let Decision::Admit { session, .. } = decision else {
            panic!("{decision:?}");
        };
        Ticket::Session(session)
    }

    fn waiting_sum(rooms: &mut [&mut Room], now: Millis) -> i64 {
        rooms
            .iter_mut()
            .flat_map(|room| room.report(now).waiters.pairs().to_vec())
            .map(|(_, count)| count)
            .sum()
    }

    fn active_sum(rooms: &mut [&mut Room], now: Millis) -> i64 {
        rooms
            .iter_mut()
            .map(|room| room.report(now).counts.active_users)
            .sum()
    }

    #[test]
    fn without_a_slot_in_hand_nobody_enters_and_the_first_in_line_asks() {
        let mut room = gate(0);
        assert!(room.asks(at(1), None));
        let (first, position) = waits(&mut room, at(1), None);
        assert_eq!(position, 1);
        assert!(!room.asks(at(1), None), "somebody is ahead");
        assert!(room.asks(at(21), Some(&first)));
        enters(&mut room, at(21), Some(first));
        assert_eq!(room.report(at(21)).slots_used, 1);
        assert_eq!(room.withdraw(), 0);
    }

    #[test]
    fn an_active_user_never_asks_at_any_gate() {
        let (mut a, mut b) = (gate(0), gate(1));
        let session = enters(&mut a, at(1), None);
        assert!(!a.asks(at(5), Some(&session)));
        assert!(!b.asks(at(5), Some(&session)));
        assert!(matches!(
            b.check_in(at(5), Some(session)),
            Decision::Admit { .. }
        ));
        assert!(b.asks(at(1000), Some(&session)), "the session is over");
    }

    #[test]
    fn waiters_are_in_order_of_seconds_across_gates() {
        let (mut a, mut b) = (gate(0), gate(1));
        for _ in 0..3 {
            waits(&mut a, at(1), None);
        }
        let (later, _) = waits(&mut b, at(2), None);
        let elsewhere = a.report(at(3)).waiters;
        b.set_view(
            at(3),
            View {
                free_slots: 3,
                gates: 2,
                elsewhere: elsewhere.clone(),
                ..View::default()
            },
        );
        assert_eq!(waits(&mut b, at(22), Some(later)).1, 4);
        assert!(!b.asks(at(22), Some(&later)), "three slots, three ahead");
        b.set_view(
            at(23),
            View {
                free_slots: 4,
                gates: 2,
                elsewhere,
                ..View::default()
            },
        );
        assert!(b.asks(at(42), Some(&later)));
    }

    #[test]
    fn a_session_that_moves_counts_once() {
        let (mut a, mut b) = (gate(0), gate(1));
        let mut session = enters(&mut a, at(0), None);
        // To and fro, for longer than a session lives.
        for step in 1..40_u64 {
            let now = at(step * 50);
            let room = if step % 3 == 0 { &mut a } else { &mut b };
            let Decision::Admit { session: next, .. } = room.check_in(now, Some(session)) else {
                panic!("step {step}");
            };
            session = Ticket::Session(next);
            let sum = active_sum(&mut [&mut a, &mut b], now);
            assert_eq!(sum, 1, "step {step}");
        }
        for second in 39 * 50..39 * 50 + 299 {
            let sum = active_sum(&mut [&mut a, &mut b], at(second));
            assert!((1..=2).contains(&sum), "second {second}: {sum}");
        }
        assert_eq!(active_sum(&mut [&mut a, &mut b], at(39 * 50 + 301)), 0);
    }

    #[test]
    fn a_waiter_that_moves_keeps_its_place_and_counts_once() {
        let (mut a, mut b) = (gate(0), gate(1));
        let (mut ticket, _) = waits(&mut a, at(0), None);
        waits(&mut b, at(1), None);
        let mut behind = waits(&mut b, at(1), None).0;
        for step in 1..12_u64 {
            let now = at(step * 20);
            let room = if step % 3 == 0 { &mut a } else { &mut b };
            let (next, position) = waits(room, now, Some(ticket));
            assert_eq!(position, 1, "step {step}");
            ticket = next;
            behind = waits(&mut b, now, Some(behind)).0;
            // The third joined at b and never came back.
            let expected = if step < 3 { 3 } else { 2 };
            let sum = waiting_sum(&mut [&mut a, &mut b], now);
            assert_eq!(sum, expected, "step {step}");
        }
    }

    #[test]
    fn one_cookie_replayed_counts_once() {
        let (mut a, mut b) = (gate(0), gate(1));
        let session = enters(&mut a, at(0), None);
        let (waiting, _) = waits(&mut a, at(0), None);
        for _ in 0..1000 {
            b.check_in(at(5), Some(session));
            b.check_in(at(5), Some(waiting));
            b.asks(at(5), Some(&waiting));
        }
        assert_eq!(active_sum(&mut [&mut a, &mut b], at(5)), 1);
        assert_eq!(waiting_sum(&mut [&mut a, &mut b], at(5)), 1);
        assert_eq!(b.report(at(5)).new_users, 0);
    }

    #[test]
    fn a_revoked_session_is_not_taken_up_again() {
        let mut room = gate(0);
        let session = enters(&mut room, at(0), None);
        assert!(room.leave(at(1), session));
        assert!(matches!(
            room.check_in(at(2), Some(session)),
            Decision::Wait { .. }
        ));
    }

    #[test]
    fn more_waiters_than_a_second_holds_take_places_of_the_next() {
        let settings = Settings::with_limits(Limits::new(1, 1).unwrap());
        let mut room = Room::new(Plan::new_without_events(settings), 1, at(0));
        room.share(GateNumber::new(63, 64).unwrap());
        let mut places = Vec::new();
        for _ in 0..3000 {
            let Decision::Wait { ticket, .. } = room.check_in(at(1), None) else {
                panic!("no slot in hand");
            };
            places.push(ticket.place);
        }
        assert!(places.is_sorted());
        let each = 65_536 / 64;
        for place in &places {
            assert!(place.0 % 65_536 >= 63 * each, "another gate's: {place:?}");
        }
        assert_eq!(second_of(places[2999]) - second_of(places[0]), 2);
    }

    #[test]
    fn places_of_a_time_to_come_or_long_past_are_no_places() {
        let mut room = gate(0);
        for second in [0, 1_700_000_000 + 90_000, u64::MAX >> 16] {
            let forged = Ticket::Waiting(Waiting {
                visitor: VisitorId(7),
                place: Place((second << 16) + 40_000),
                joined_at: at(0),
                last_check_in: if second == 0 { at(0) } else { at(900) },
            });
            let (ticket, _) = waits(&mut room, at(1000), Some(forged));
            let Ticket::Waiting(waiting) = ticket else {
                panic!("it waits");
            };
            assert_eq!(second_of(waiting.place), 1_700_001_000);
        }
    }
}
