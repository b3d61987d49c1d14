//! The books of one shared room: who holds which slots. Pure; `redis` keeps the same books in Redis, by scripts that follow
//! this module line by line, and the simulator uses this one.
//!
//! Every slot is free, in a data center's stock, in a gate's hands, or used by an active user. Each gate publishes how many
//! active users it has and how many slots it took, used and gave back, as totals since it began: a message that is lost,
//! repeated or late changes nothing that the next one does not set right. Then
//!
//! - `outstanding = Σ stock + Σ (granted + taken − used − returned)`,
//! - `free = min(total_active_users − Σ active − outstanding, new_users_per_minute − Σ admitted in 60 s − outstanding)`,
//!
//! and a slot is granted only while `free` is above 0. What a gate published is never less than what it has (sessions end
//! and admissions age, new ones need a slot that is outstanding until it is published as used), so neither limit is exceeded
//! whatever is delayed.

use std::collections::BTreeMap;

use crate::room::Millis;

/// No step of the ledger's own clock is longer, so that a clock that jumps or a ledger that slept ages nobody.
pub(crate) const STEP_MILLIS_MAX: u64 = 2_000;
/// Leases are taken back when less than 1 ÷ this of the lower limit is free.
const LEASING_PART: u64 = 10;
/// An absent gate whose neighbours are well is dead, and its admissions are older than a minute after this long.
const ADMISSIONS_AGE_MILLIS: u64 = 61_000;

/// One run of one gate: its name, and a number that no other run of it has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GateRun {
    pub gate: String,
    /// Below 2^53: it passes through JSON.
    pub run: u64,
}

/// The limits in effect and how long the ledger waits for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub total_active_users: u64,
    pub new_users_per_minute: u64,
    /// A ledger that begins empty grants nothing for this long, so that every gate can tell it what it has.
    pub settle_millis: u64,
    /// A gate not heard from for this long is absent.
    pub absent_millis: u64,
    /// What an absent gate has is its own for this long, where other gates of its data center are well: it is probably dead,
    /// and its sessions end or move meanwhile. At least a session's duration.
    pub gate_hold_millis: u64,
    /// The same where the whole data center is silent: it is probably cut off and works on.
    pub data_center_hold_millis: u64,
    /// Part of the lower limit that may lie in leases.
    pub leased_percent: u64,
}

impl Terms {
    pub(crate) fn lower_limit(&self) -> u64 {
        self.total_active_users.min(self.new_users_per_minute)
    }
}

/// Whether every grant the gate asked for has been answered or is known to be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grants {
    /// `granted` is what the gate got; anything else the ledger granted was lost on the way.
    #[default]
    Settled,
    /// Some are under way.
    UnderWay,
}

/// Whether a gate begins where its last run stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Predecessor {
    /// It remembers the sessions of its earlier runs: what those had is this run's.
    Remembered,
    /// It does not; what the earlier runs had is held until it has ended.
    #[default]
    Forgotten,
}

/// What a gate publishes about one room. Totals count since the run began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    pub data_center: String,
    pub predecessor: Predecessor,
    pub active_users: i64,
    pub admitted_last_minute: u64,
    /// Slots got from the ledger itself: by [`Ledger::take`] and as leases.
    pub granted: u64,
    pub grants: Grants,
    /// Slots got from the data center's stock.
    pub taken: u64,
    pub used: u64,
    pub returned: u64,
    /// Slots in the lease.
    pub lease: u64,
    /// The current minute since the Unix epoch.
    pub minute: u64,
    /// Admissions in it so far.
    pub admitted_this_minute: u64,
    /// New users in the minute before it.
    pub new_users: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GateEntry {
    published: Published,
    granted: u64,
    /// What the stock last said this run had taken: it may know more than the gate, whose answer is under way.
    stock_taken: u64,
    heard_at: u64,
}

impl GateEntry {
    fn outstanding(&self) -> i128 {
        let p = &self.published;
        i128::from(self.granted) + i128::from(p.taken.max(self.stock_taken))
            - i128::from(p.used)
            - i128::from(p.returned)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stock {
    slots: u64,
    epoch: u64,
    sequence: u64,
}

/// A data center as others see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataCenterSeen {
    pub name: String,
    /// Gates that are not absent.
    pub gates: u32,
    /// The latest minute that any of them published in.
    pub minute: u64,
    /// Admissions in it so far.
    pub admitted_this_minute: u64,
    /// New users in the minute before it.
    pub new_users: u64,
}

/// What a gate learns when it publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Slots the ledger would grant now.
    pub free: u64,
    pub active_users: u64,
    pub admitted_last_minute: u64,
    /// Slots granted and not yet used.
    pub outstanding: u64,
    /// Slots in the stock of the gate's data center.
    pub stock: u64,
    /// Slots granted with this reply, for the lease.
    pub leased: u64,
    /// The lease is to be no larger.
    pub lease_max: u64,
    pub data_centers: Vec<DataCenterSeen>,
}

/// What the keeper of a data center's stock says about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StockReport {
    /// Changes when the stock begins empty.
    pub epoch: u64,
    /// Grows with every report of an epoch.
    pub sequence: u64,
    pub slots: u64,
    /// Slots each run took, as totals.
    pub taken: Vec<(GateRun, u64)>,
    /// The stock is to have this many.
    pub wanted: u64,
}

/// The books.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    terms: Option<Terms>,
    /// The ledger's own time, which never jumps.
    clock: u64,
    last_seen: Option<Millis>,
    gates: BTreeMap<GateRun, GateEntry>,
    stocks: BTreeMap<String, Stock>,
    free: u64,
}

impl Ledger {
    /// Takes over what `gate` publishes, and forgets whoever has been silent for too long.
    pub fn publish(
        &mut self,
        now: Millis,
        gate: &GateRun,
        published: &Published,
        terms: Terms,
    ) -> Reply {
        let step = now.millis_since(self.last_seen.unwrap_or(now));
        self.clock += step.min(STEP_MILLIS_MAX);
        self.last_seen = Some(now);
        self.terms = Some(terms);
        if published.predecessor == Predecessor::Remembered {
            self.gates
                .retain(|other, _| other.gate != gate.gate || other.run == gate.run);
        }
        let clock = self.clock;
        let entry = self.gates.entry(gate.clone()).or_insert_with(|| GateEntry {
            granted: published.granted,
            ..GateEntry::default()
        });
        if published.grants == Grants::Settled {
            entry.granted = published.granted;
        }
        entry.published = published.clone();
        entry.heard_at = clock;
        self.forget_the_silent(&terms);
        let mut reply = self.sum(&terms, &published.data_center);
        self.lease(gate, published, &terms, &mut reply);
        self.free = if self.is_open() { reply.free } else { 0 };
        reply.free = self.free;
        reply
    }

    /// Grants up to `wanted` slots to a gate that has published before. 0 while the ledger settles.
    pub fn take(&mut self, gate: &GateRun, wanted: u64) -> u64 {
        let Some(entry) = self.gates.get_mut(gate) else {
            return 0;
        };
        let granted = wanted.min(self.free);
        entry.granted += granted;
        self.free -= granted;
        granted
    }

    /// Takes over the state of a stock and grants what it lacks. `None` for a report older than one seen.
    pub fn refill(&mut self, data_center: &str, report: &StockReport) -> Option<u64> {
        let terms = self.terms?;
        let stock = self.stocks.entry(data_center.to_owned()).or_default();
        if stock.epoch == report.epoch && report.sequence <= stock.sequence {
            return None;
        }
        *stock = Stock {
            slots: report.slots,
            epoch: report.epoch,
            sequence: report.sequence,
        };
        for (gate, taken) in &report.taken {
            if let Some(entry) = self.gates.get_mut(gate) {
                entry.stock_taken = *taken;
            }
        }
        let free = self.sum(&terms, data_center).free;
        self.free = if self.is_open() { free } else { 0 };
        let granted = report.wanted.saturating_sub(report.slots).min(self.free);
        if let Some(stock) = self.stocks.get_mut(data_center) {
            stock.slots += granted;
        }
        self.free -= granted;
        Some(granted)
    }

    fn is_open(&self) -> bool {
        self.terms.is_some_and(|t| self.clock >= t.settle_millis)
    }

    fn is_absent(&self, entry: &GateEntry, terms: &Terms) -> bool {
        self.clock - entry.heard_at > terms.absent_millis
    }

    /// Whether no gate of the data center is heard.
    fn is_dark(&self, data_center: &str, terms: &Terms) -> bool {
        self.gates
            .values()
            .filter(|entry| entry.published.data_center == data_center)
            .all(|entry| self.is_absent(entry, terms))
    }

    fn forget_the_silent(&mut self, terms: &Terms) {
        let mut gone = Vec::new();
        let mut aged = Vec::new();
        for (gate, entry) in &self.gates {
            if !self.is_absent(entry, terms) {
                continue;
            }
            let silent = self.clock - entry.heard_at;
            if self.is_dark(&entry.published.data_center, terms) {
                if silent > terms.data_center_hold_millis {
                    gone.push(gate.clone());
                }
            } else if silent > terms.gate_hold_millis {
                gone.push(gate.clone());
            } else if silent > ADMISSIONS_AGE_MILLIS {
                aged.push(gate.clone());
            }
        }
        for gate in aged {
            if let Some(entry) = self.gates.get_mut(&gate) {
                entry.published.admitted_last_minute = 0;
            }
        }
        for gate in gone {
            self.gates.remove(&gate);
        }
        let gates = &self.gates;
        self.stocks.retain(|name, _| {
            gates
                .values()
                .any(|entry| entry.published.data_center == *name)
        });
    }

    fn sum(&self, terms: &Terms, data_center: &str) -> Reply {
        let mut reply = Reply::default();
        let (mut active, mut outstanding) = (0_i128, 0_i128);
        let mut seen: BTreeMap<&str, DataCenterSeen> = BTreeMap::new();
        for entry in self.gates.values() {
            let p = &entry.published;
            active += i128::from(p.active_users);
            outstanding += entry.outstanding();
            reply.admitted_last_minute += p.admitted_last_minute;
            let center = seen
                .entry(&p.data_center)
                .or_insert_with(|| DataCenterSeen {
                    name: p.data_center.clone(),
                    ..DataCenterSeen::default()
                });
            if !self.is_absent(entry, terms) {
                center.gates += 1;
                if p.minute > center.minute {
                    center.minute = p.minute;
                    center.admitted_this_minute = 0;
                    center.new_users = 0;
                }
                if p.minute == center.minute {
                    center.admitted_this_minute += p.admitted_this_minute;
                    center.new_users += p.new_users;
                }
            }
        }
        outstanding += self
            .stocks
            .values()
            .map(|stock| i128::from(stock.slots))
            .sum::<i128>();
        let whole = |n: i128| u64::try_from(n.max(0)).unwrap_or(u64::MAX);
        reply.active_users = whole(active);
        reply.outstanding = whole(outstanding);
        let seats = i128::from(terms.total_active_users) - active.max(0) - outstanding.max(0);
        let rate = i128::from(terms.new_users_per_minute)
            - i128::from(reply.admitted_last_minute)
            - outstanding.max(0);
        reply.free = whole(seats.min(rate));
        reply.stock = self.stocks.get(data_center).map_or(0, |stock| stock.slots);
        reply.data_centers = seen.into_values().collect();
        reply
    }

    /// An even part of what is free, ahead of need, for the time the ledger cannot be asked.
    fn lease(&mut self, gate: &GateRun, published: &Published, terms: &Terms, reply: &mut Reply) {
        let limit = terms.lower_limit();
        let gates = reply
            .data_centers
            .iter()
            .fold(0, |sum, center| sum + u64::from(center.gates))
            .max(1);
        if reply.free < limit / LEASING_PART {
            return;
        }
        reply.lease_max = limit * terms.leased_percent / 100 / gates;
        if !self.is_open() {
            return;
        }
        let wanted = reply.lease_max.saturating_sub(published.lease);
        reply.leased = wanted.min(reply.free);
        reply.free -= reply.leased;
        reply.outstanding += reply.leased;
        if let Some(entry) = self.gates.get_mut(gate) {
            entry.granted += reply.leased;
        }
    }
}

/// The stock of one data center: what its gates take without asking the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataCenterStock {
    epoch: u64,
    sequence: u64,
    slots: u64,
    taken: BTreeMap<GateRun, u64>,
}

impl DataCenterStock {
    /// An empty stock. No other stock of the data center had this `epoch`.
    pub fn new(epoch: u64) -> Self {
        Self {
            epoch,
            ..Self::default()
        }
    }

    /// Takes up to `wanted` slots for a gate that has `taken` so far. A gate waits for one answer before it asks again, so that
    /// what was lost on the way is put right by its next call.
    pub fn take(&mut self, gate: &GateRun, taken: u64, wanted: u64) -> u64 {
        let got = wanted.min(self.slots);
        self.slots -= got;
        self.taken.insert(gate.clone(), taken + got);
        got
    }

    /// Gives up what is above `wanted` and says what is left. Reports made before are void.
    pub fn report(&mut self, wanted: u64) -> StockReport {
        self.slots = self.slots.min(wanted);
        self.sequence += 1;
        StockReport {
            epoch: self.epoch,
            sequence: self.sequence,
            slots: self.slots,
            taken: self.taken.iter().map(|(g, n)| (g.clone(), *n)).collect(),
            wanted,
        }
    }

    /// Puts in what the ledger granted for a report. `false`, and nothing happens, when that report is void.
    pub fn add(&mut self, report: &StockReport, granted: u64) -> bool {
        let valid = report.epoch == self.epoch && report.sequence == self.sequence;
        if valid {
            self.slots += granted;
        }
        valid
    }

    /// Slots in stock.
    pub const fn slots(&self) -> u64 {
        self.slots
    }
}
