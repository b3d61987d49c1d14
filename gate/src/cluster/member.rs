//! One gate's side of one shared room: which slots it holds and where the next one comes from. Pure: the times come in, and
//! whoever asks the counters reports what they said.

use crate::room::shared::{Counts, Report, View, WaitersBySecond};
use crate::room::slots::{
    Allotment, DataCenterId, DataCenterState, StateSnapshot, StrategyKind, TrafficHistory,
};
use crate::room::{Limits, Millis};

use super::ledger::{Grants, Predecessor, Published, Reply, Terms};

const MINUTE_MILLIS: u64 = 60_000;
/// A gate stops spending what the ledger holds for it this long before the ledger lets go.
const HOLD_MARGIN_MILLIS: u64 = 5_000;
/// After a counter failed, nobody asks it again for this long.
const COUNTER_PAUSE_MILLIS: u64 = 500;
/// Part of the lower limit that may lie in leases; see [`Terms`].
pub const LEASED_PERCENT: u64 = 5;
/// With fewer slots free there is no stock: slots on their way to one are nobody's for a moment.
const STOCK_FREE_MIN: u64 = 16;
/// A data center's stock is to last this many seconds of last minute's new users.
const STOCK_SECONDS: u64 = 3;

/// Where a slot came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A counter granted it.
    Counter,
    /// The lease, spent while no counter answers.
    Lease,
    /// The gate's own: its part of an even or adaptive split, or, while no counter answers, the slot of a session of its own
    /// that has ended.
    Own,
}

/// Where a visitor's slot is to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// Ask the counters.
    Ask,
    /// Here is one.
    Slot(Source),
    /// There is none.
    Nothing,
}

/// What the ledger knows of this gate.
#[derive(Clone, Copy, Debug)]
struct Known {
    at: Millis,
    counts: Counts,
    /// Slots held for the gate beside its active users.
    outstanding: u64,
    granted: u64,
    taken: u64,
}

/// What was published and not yet answered.
#[derive(Clone, Copy, Debug)]
struct Pending {
    at: Millis,
    counts: Counts,
    outstanding: u64,
    granted: u64,
    taken: u64,
}

/// One gate's part in one room.
#[derive(Clone, Debug)]
pub struct Member {
    data_center: String,
    strategy: StrategyKind,
    predecessor: Predecessor,
    terms: Terms,
    granted: u64,
    taken: u64,
    returned: u64,
    /// Slots used that no counter granted.
    own: u64,
    lease: u64,
    under_way: u32,
    pending: Option<Pending>,
    known: Option<Known>,
    paused_until: Millis,
    snapshot: Option<(StateSnapshot, DataCenterId)>,
    /// The minute, and admissions and new users since the gate began when it started.
    minute: u64,
    used_before_minute: u64,
    used: u64,
    new_users_before_minute: u64,
    new_users_last_minute: u64,
}

impl Member {
    /// A gate that has nothing yet and may spend nothing before it has published.
    pub fn new(
        data_center: String,
        strategy: StrategyKind,
        predecessor: Predecessor,
        terms: Terms,
    ) -> Self {
        Self {
            data_center,
            strategy,
            predecessor,
            terms: Self::terms_for(strategy, terms),
            granted: 0,
            taken: 0,
            returned: 0,
            own: 0,
            lease: 0,
            under_way: 0,
            pending: None,
            known: None,
            paused_until: Millis::ZERO,
            snapshot: None,
            minute: 0,
            used_before_minute: 0,
            used: 0,
            new_users_before_minute: 0,
            new_users_last_minute: 0,
        }
    }

    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// Takes over new limits, an event's for example.
    pub fn set_terms(&mut self, terms: Terms) {
        self.terms = Self::terms_for(self.strategy, terms);
    }

    /// Where gates count alone, each has its part without a lease.
    fn terms_for(strategy: StrategyKind, terms: Terms) -> Terms {
        match strategy {
            StrategyKind::Counter => terms,
            StrategyKind::Even | StrategyKind::Adaptive(_) => Terms {
                leased_percent: 0,
                ..terms
            },
        }
    }

    /// How old what the gate knows of the others is; `None` before it knows anything.
    pub fn age_millis(&self, now: Millis) -> Option<u64> {
        self.known.map(|known| now.millis_since(known.at))
    }

    /// What to publish.
    pub fn publish(&mut self, now: Millis, report: &Report) -> Published {
        let minute = now.as_u64() / MINUTE_MILLIS;
        if minute != self.minute {
            self.new_users_last_minute = if minute == self.minute + 1 {
                report.new_users - self.new_users_before_minute
            } else {
                0
            };
            self.new_users_before_minute = report.new_users;
            self.used_before_minute = report.slots_used;
            self.minute = minute;
        }
        self.used = report.slots_used;
        self.let_go(now);
        let used = report.slots_used.saturating_sub(self.own);
        let held = (self.granted + self.taken).saturating_sub(used + self.returned);
        self.pending = Some(Pending {
            at: now,
            counts: report.counts,
            outstanding: held,
            granted: self.granted,
            taken: self.taken,
        });
        Published {
            data_center: self.data_center.clone(),
            predecessor: self.predecessor,
            active_users: report.counts.active_users,
            admitted_last_minute: report.counts.admitted_last_minute,
            granted: self.granted,
            grants: if self.under_way == 0 {
                Grants::Settled
            } else {
                Grants::UnderWay
            },
            taken: self.taken,
            used,
            returned: self.returned,
            lease: self.lease,
            minute,
            admitted_this_minute: report.slots_used - self.used_before_minute,
            new_users: self.new_users_last_minute,
        }
    }

    /// Takes in the answer to what was last published, and makes of it what the room is to know. `waiters` are those of the
    /// other gates.
    pub fn published(&mut self, reply: &Reply, waiters: WaitersBySecond) -> Option<View> {
        let pending = self.pending.take()?;
        self.granted += reply.leased;
        self.lease += reply.leased;
        if self.lease > reply.lease_max {
            self.returned += self.lease - reply.lease_max;
            self.lease = reply.lease_max;
        }
        self.known = Some(Known {
            at: pending.at,
            counts: pending.counts,
            outstanding: pending.outstanding + reply.leased,
            granted: pending.granted + reply.leased,
            taken: pending.taken,
        });
        self.snapshot = self.snapshot_of(pending.at, reply);
        let gates = reply
            .data_centers
            .iter()
            .map(|center| center.gates)
            .sum::<u32>();
        Some(View {
            free_slots: reply.free.saturating_add(reply.stock),
            active_users: reply.active_users,
            admitted_last_minute: reply.admitted_last_minute,
            gates: gates.max(1),
            elsewhere: waiters,
        })
    }

    /// The room as it stood when the current minute began, but for the limits and gates, which are as they are.
    fn snapshot_of(
        &self,
        taken_at: Millis,
        reply: &Reply,
    ) -> Option<(StateSnapshot, DataCenterId)> {
        let own = reply
            .data_centers
            .iter()
            .position(|center| center.name == self.data_center)?;
        let minute = taken_at.as_u64() / MINUTE_MILLIS;
        let this_minute: u64 = reply
            .data_centers
            .iter()
            .filter(|center| center.minute == minute)
            .map(|center| center.admitted_this_minute)
            .sum();
        let limit = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let snapshot = StateSnapshot {
            taken_at,
            limits: Limits::new(
                limit(self.terms.total_active_users),
                limit(self.terms.new_users_per_minute),
            )
            .ok()?,
            active_users: (reply.active_users + reply.outstanding).saturating_sub(this_minute),
            admitted_last_minute: (reply.admitted_last_minute + reply.outstanding)
                .saturating_sub(this_minute),
            data_centers: reply
                .data_centers
                .iter()
                .map(|center| {
                    let mut traffic = TrafficHistory::default();
                    traffic.record(center.minute.saturating_sub(1), center.new_users);
                    DataCenterState {
                        gates_active: center.gates,
                        traffic,
                    }
                })
                .collect(),
        };
        Some((snapshot, DataCenterId(own)))
    }

    /// The latest snapshot, as of the start of its minute, and this gate's data center in it.
    pub fn snapshot(&self) -> Option<&(StateSnapshot, DataCenterId)> {
        self.snapshot.as_ref()
    }

    /// Where the slot of a visitor whom the room would admit is to come from.
    pub fn supply(&mut self, now: Millis, counts: Counts) -> Supply {
        self.let_go(now);
        let fresh = self
            .age_millis(now)
            .is_some_and(|age| age <= self.terms.absent_millis);
        if !fresh || now < self.paused_until {
            return self.fall_back(now, counts);
        }
        let allotment = match (self.strategy, &self.snapshot) {
            (StrategyKind::Counter, _) => return Supply::Ask,
            (_, None) => return Supply::Nothing,
            (kind, Some((snapshot, own))) => kind.strategy().allot(snapshot, *own),
        };
        let used = if now.as_u64() / MINUTE_MILLIS == self.minute {
            self.used - self.used_before_minute
        } else {
            0
        };
        if used < allotment.slots() {
            self.spend(Source::Own)
        } else {
            Supply::Nothing
        }
    }

    /// Without a counter: what the ledger holds for this gate, and no more.
    fn fall_back(&mut self, now: Millis, counts: Counts) -> Supply {
        let Some(known) = self.known else {
            return Supply::Nothing;
        };
        if now.millis_since(known.at) > self.hold_millis() {
            return Supply::Nothing;
        }
        if self.lease > 0 {
            return self.spend(Source::Lease);
        }
        let since = (self.granted + self.taken).saturating_sub(known.granted + known.taken);
        let held = i128::from(known.outstanding + since);
        let seats = i128::from(known.counts.active_users) + held;
        let rate = i128::from(known.counts.admitted_last_minute) + held;
        if i128::from(counts.active_users) < seats && i128::from(counts.admitted_last_minute) < rate
        {
            return self.spend(Source::Own);
        }
        Supply::Nothing
    }

    fn hold_millis(&self) -> u64 {
        self.terms
            .gate_hold_millis
            .saturating_sub(HOLD_MARGIN_MILLIS)
    }

    /// Gives the lease back when the ledger no longer holds it.
    fn let_go(&mut self, now: Millis) {
        if self
            .age_millis(now)
            .is_some_and(|age| age > self.hold_millis())
        {
            self.returned += self.lease;
            self.lease = 0;
        }
    }

    fn spend(&mut self, source: Source) -> Supply {
        match source {
            Source::Lease => self.lease -= 1,
            Source::Own => self.own += 1,
            Source::Counter => {}
        }
        Supply::Slot(source)
    }

    /// What became of a slot that was put into the room's hands. `used` slots are the room's total.
    pub fn settle(&mut self, source: Source, outcome: Outcome, used: u64) {
        self.used = used;
        match (outcome, source) {
            (Outcome::Used, _) => {}
            (Outcome::LeftOver, Source::Counter) => self.returned += 1,
            (Outcome::LeftOver, Source::Lease) => self.lease += 1,
            (Outcome::LeftOver, Source::Own) => self.own -= 1,
        }
    }

    /// The ledger is being asked.
    pub fn asking(&mut self) {
        self.under_way += 1;
    }

    /// The ledger granted `slots`; 0 also where the answer was lost.
    pub fn granted(&mut self, slots: u64) {
        self.under_way = self.under_way.saturating_sub(1);
        self.granted += slots;
    }

    /// The data center's stock gave `slots`.
    pub fn took(&mut self, slots: u64) {
        self.taken += slots;
    }

    /// Slots taken from the data center's stock so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Slots that came for nobody: their visitor did not wait for the counter.
    pub fn give_back(&mut self, slots: u64) {
        self.returned += slots;
    }

    /// A counter was too slow or gone: nobody asks for a while.
    pub fn counter_failed(&mut self, now: Millis) {
        self.paused_until = now.plus_millis(COUNTER_PAUSE_MILLIS);
    }

    /// Slots the stock of this gate's data center is to have: a few seconds of its new users, within its reserve. None while
    /// somebody waits anywhere: then slots are for the head of the line, wherever it checks in.
    pub fn stock_wanted(&self, reply: &Reply, waiters: u64) -> u64 {
        let least = (self.terms.lower_limit() / 20).max(STOCK_FREE_MIN);
        if waiters > 0 || reply.free < least {
            return 0;
        }
        let Some((snapshot, own)) = &self.snapshot else {
            return 0;
        };
        let Allotment::Shared { data_center, .. } =
            StrategyKind::Counter.strategy().allot(snapshot, *own)
        else {
            return 0;
        };
        let new_users = reply
            .data_centers
            .get(own.0)
            .map_or(0, |center| center.new_users);
        data_center.min((new_users * STOCK_SECONDS).div_ceil(60))
    }
}

/// Whether a slot was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Used,
    /// The visitor did not need it after all.
    LeftOver,
}
