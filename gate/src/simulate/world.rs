//! The world: gates with real rooms, counters, messages that take their time, visitors, and what breaks.
//!
//! Deterministic: events of one millisecond happen in the order they were planned in, and nothing reads a clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::cluster::ledger::Predecessor;
use crate::cluster::ledger::{
    DataCenterStock, GateRun, Ledger, Published, Reply, StockReport, Terms,
};
use crate::cluster::member::{LEASED_PERCENT, Member, Outcome as SlotOutcome, Source, Supply};
use crate::room::settings::RefreshInterval;
use crate::room::shared::{GateNumber, WaitersBySecond};
use crate::room::slots::{CurveFactor, StrategyKind};
use crate::room::{
    Admission, Decision, Limits, Millis, Plan, Room, SessionDuration, Settings, Ticket, WaitTime,
};

use super::arrivals::{Arrival, draw_gate};
use super::outcome::{CallsMs, LatencyMs, Median, Outcome, Run, Sample, WaitSeconds, percentile};
use super::scenario::{Failure, FailureKind, Scenario};
use super::truth::Truth;

/// The world's time 0: the start of a minute.
const EPOCH_MS: u64 = 28_333_334 * 60_000;
const SAMPLES: u64 = 240;
/// How long a visitor tries a gate that does not answer before he goes to another.
const RETRY_MS: u64 = 1000;
const SETTLE_MS: u64 = 3000;
const ABSENT_MS: u64 = 3000;
const DATA_CENTER_HOLD_MS: u64 = 1_800_000;
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A visitor's request reaches a gate.
    Request(u32),
    /// A gate asks its data center's counter for whoever waits for it.
    StockAsk(u16),
    StockAnswer(u16, u32),
    /// A question for a visitor reaches the counter of all.
    LedgerAsk(u32, u16),
    LedgerAnswer(u32, u16, bool),
    TimedOut(u32, u32),
    Publish(u16),
    PublishAtLedger(u16),
    PublishAnswer(u16),
    Refill(u16),
    RefillAtLedger(u16),
    RefillAnswer(u16),
    Tick,
    Breaks(u16),
    Mends(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Up {
    Running,
    FrozenUntil(u64),
    Killed,
}

#[derive(Debug)]
struct Gate {
    center: u16,
    run: GateRun,
    room: Room,
    member: Member,
    up: Up,
    clock_ms: i64,
    outbox: Option<(Published, WaitersBySecond)>,
    outbox_at: u64,
    inbox: Option<(Reply, WaitersBySecond)>,
    /// Visitors whose request waits for the data center's counter, and how many of them it is being asked for.
    stock_queue: Vec<u32>,
    stock_asked: Vec<u32>,
    /// Slots the stock had when last heard of, less those taken since.
    stock_seen: u64,
    /// What the room's sum was told, for the pipeline.
    told: WaitersBySecond,
}

#[derive(Debug)]
struct Center {
    stock: DataCenterStock,
    stock_up: bool,
    cut_off: bool,
    counter_ms: f64,
    anywhere_ms: f64,
    report: Option<StockReport>,
    granted: Option<u64>,
    wanted: u64,
    refilling_since: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Visitor {
    arrival: Arrival,
    ticket: Option<Ticket>,
    gate: u16,
    /// Asked for and not answered; a number so that late answers and timeouts find out that they are late.
    asking: u32,
    asked_at: u64,
    asked_stock: bool,
    asked_ledger: bool,
    admitted: bool,
    waiting: bool,
    estimate_minutes: Option<u64>,
    visit_until: u64,
    ends_s: usize,
}

/// One world under one strategy.
pub(super) struct World<'a> {
    scenario: &'a Scenario,
    strategy: StrategyKind,
    rng: Pcg64Mcg,
    now: u64,
    end: u64,
    warm_up: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    planned: u64,
    gates: Vec<Gate>,
    centers: Vec<Center>,
    ledger: Ledger,
    ledger_up: bool,
    ledger_slow_ms: u64,
    waiters: WaitersBySecond,
    visitors: Vec<Visitor>,
    free_visitors: Vec<u32>,
    watch_timeouts: bool,
    truth: Truth,
    questions: u32,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    admitted: u64,
    queued: u64,
    early_queued: u64,
    gave_up: u64,
    errors: u64,
    waits_s: Vec<f32>,
    latencies_ms: Vec<f32>,
    errors_percent: Vec<f32>,
    local_ms: Vec<f32>,
    anywhere_ms: Vec<f32>,
    first_queued_at_percent: Option<f64>,
    samples: Vec<Sample>,
}

fn half(millis: f64) -> u64 {
    (millis / 2.0).round().max(0.0) as u64
}

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, strategy: StrategyKind, seed: u64) -> Option<Self> {
        let limits =
            Limits::new(scenario.total_active_users, scenario.new_users_per_minute).ok()?;
        let mut settings = Settings::with_limits(limits);
        settings.session_duration =
            SessionDuration::from_seconds(scenario.session_duration_seconds)?;
        settings.refresh_interval = RefreshInterval::Fixed {
            seconds: std::num::NonZeroU32::new(scenario.refresh_interval_seconds)?,
        };
        let minutes = 2 + u64::from(scenario.initial_active_users / scenario.new_users_per_minute);
        let warm_up = minutes * 60_000;
        let terms = Terms {
            total_active_users: u64::from(scenario.total_active_users),
            new_users_per_minute: u64::from(scenario.new_users_per_minute),
            settle_millis: SETTLE_MS,
            absent_millis: ABSENT_MS,
            gate_hold_millis: u64::from(scenario.session_duration_seconds) * 1000 + 30_000,
            data_center_hold_millis: DATA_CENTER_HOLD_MS,
            leased_percent: LEASED_PERCENT,
        };
        let all: usize = scenario
            .data_centers
            .iter()
            .map(|center| center.gates)
            .sum();
        let mut gates = Vec::with_capacity(all);
        for (center, data_center) in scenario.data_centers.iter().enumerate() {
            for number in 0..data_center.gates {
                let index = gates.len() as u16;
                let mut room = Room::new(
                    Plan::new_without_events(settings),
                    seed ^ (u64::from(index) << 32),
                    Millis::new(EPOCH_MS),
                );
                room.share(GateNumber::new(index, all as u16)?);
                gates.push(Gate {
                    center: center as u16,
                    run: GateRun {
                        gate: format!("{}-{number}", data_center.name),
                        run: 1,
                    },
                    room,
                    member: Member::new(
                        data_center.name.clone(),
                        strategy,
                        Predecessor::Forgotten,
                        terms,
                    ),
                    up: Up::Running,
                    clock_ms: 0,
                    outbox: None,
                    outbox_at: 0,
                    inbox: None,
                    stock_queue: Vec::new(),
                    stock_asked: Vec::new(),
                    stock_seen: 0,
                    told: WaitersBySecond::default(),
                });
            }
        }
        let centers = scenario
            .data_centers
            .iter()
            .map(|center| Center {
                stock: DataCenterStock::new(1),
                stock_up: true,
                cut_off: false,
                counter_ms: center.counter_ms,
                anywhere_ms: center.anywhere_ms,
                report: None,
                granted: None,
                wanted: 0,
                refilling_since: None,
            })
            .collect();
        let slowest = scenario
            .data_centers
            .iter()
            .map(|center| center.counter_ms * 2.0 + center.anywhere_ms)
            .fold(0.0, f64::max);
        let end = warm_up + scenario.duration_seconds * 1000;
        Some(Self {
            scenario,
            strategy,
            rng: Pcg64Mcg::seed_from_u64(seed.rotate_left(17)),
            now: 0,
            end,
            warm_up,
            events: BinaryHeap::new(),
            planned: 0,
            gates,
            centers,
            ledger: Ledger::default(),
            ledger_up: true,
            ledger_slow_ms: 0,
            waiters: WaitersBySecond::default(),
            visitors: Vec::new(),
            free_visitors: Vec::new(),
            watch_timeouts: !scenario.failures.is_empty()
                || slowest >= scenario.counter_timeout_ms as f64,
            truth: Truth::new(limits, end / 1000 + 2),
            questions: 0,
            counts: Counts::default(),
        })
    }

    /// Plays the whole scenario.
    pub(super) fn run(mut self, arrivals: &[Arrival]) -> Run {
        for gate in 0..self.gates.len() {
            let spread = self.scenario.publish_interval_ms * gate as u64 / self.gates.len() as u64;
            self.plan(spread, Event::Publish(gate as u16));
        }
        self.plan(0, Event::Tick);
        let scenario = self.scenario;
        for (index, failure) in scenario.failures.iter().enumerate() {
            let at = if matches!(failure.kind, FailureKind::ClockWrong { .. }) {
                0
            } else {
                self.warm_up + failure.at_seconds * 1000
            };
            self.plan(at, Event::Breaks(index as u16));
            if failure.for_seconds > 0 {
                self.plan(at + failure.for_seconds * 1000, Event::Mends(index as u16));
            }
        }
        let initial = self.initial_users();
        let warm_up = self.warm_up;
        let mut arrivals = initial
            .iter()
            .map(|(at, arrival)| (*at, *arrival))
            .chain(arrivals.iter().map(|a| (warm_up + a.at_ms, *a)))
            .peekable();
        loop {
            let next = self
                .events
                .peek()
                .map_or(u64::MAX, |Reverse((at, _, _))| *at);
            if let Some((at, arrival)) = arrivals.peek().copied()
                && at <= next
            {
                if at >= self.end {
                    break;
                }
                arrivals.next();
                self.now = at;
                self.arrive(arrival);
                continue;
            }
            let Some(Reverse((at, _, event))) = self.events.pop() else {
                break;
            };
            if at >= self.end {
                break;
            }
            self.now = at;
            self.handle(event);
        }
        self.finish()
    }

    fn initial_users(&self) -> Vec<(u64, Arrival)> {
        let per_minute = self.scenario.new_users_per_minute;
        (0..self.scenario.initial_active_users)
            .map(|n| {
                let gate = n as usize % self.gates.len();
                let center = self.gates[gate].center;
                let first = self
                    .gates
                    .iter()
                    .position(|g| g.center == center)
                    .unwrap_or(0);
                let at = 5_000 + u64::from(n / per_minute) * 61_000;
                let arrival = Arrival {
                    at_ms: 0,
                    data_center: center,
                    gate: (gate - first) as u16,
                    visit_ms: u32::MAX,
                    patience_ms: u32::MAX,
                };
                (at, arrival)
            })
            .collect()
    }

    fn plan(&mut self, at: u64, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((at, self.planned, event)));
    }

    fn room_time(&self, gate: u16) -> Millis {
        let clock = self.gates[usize::from(gate)].clock_ms;
        Millis::new((EPOCH_MS + self.now).saturating_add_signed(clock))
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Request(v) => self.request(v),
            Event::StockAsk(gate) => self.stock_ask(gate),
            Event::StockAnswer(gate, got) => self.stock_answer(gate, got),
            Event::LedgerAsk(v, gate) => self.ledger_ask(v, gate),
            Event::LedgerAnswer(v, gate, got) => self.ledger_answer(v, gate, got),
            Event::TimedOut(v, question) => self.timed_out(v, question),
            Event::Publish(gate) => self.publish(gate),
            Event::PublishAtLedger(gate) => self.publish_at_ledger(gate),
            Event::PublishAnswer(gate) => self.publish_answer(gate),
            Event::Refill(center) => self.refill(center),
            Event::RefillAtLedger(center) => self.refill_at_ledger(center),
            Event::RefillAnswer(center) => self.refill_answer(center),
            Event::Tick => self.tick(),
            Event::Breaks(index) => self.breaks(index),
            Event::Mends(index) => self.mends(index),
        }
    }

    // Visitors.

    fn arrive(&mut self, arrival: Arrival) {
        let first = self
            .gates
            .iter()
            .position(|gate| gate.center == arrival.data_center)
            .unwrap_or(0);
        let visitor = Visitor {
            arrival: Arrival {
                at_ms: self.now,
                ..arrival
            },
            ticket: None,
            gate: first as u16 + arrival.gate,
            asking: 0,
            asked_at: self.now,
            asked_stock: false,
            asked_ledger: false,
            admitted: false,
            waiting: false,
            estimate_minutes: None,
            visit_until: 0,
            ends_s: 0,
        };
        let v = match self.free_visitors.pop() {
            Some(v) => {
                self.visitors[v as usize] = visitor;
                v
            }
            None => {
                self.visitors.push(visitor);
                (self.visitors.len() - 1) as u32
            }
        };
        if self.now < self.warm_up {
            // Users who are there already did not need the strategy to let them in.
            let gate = &mut self.gates[usize::from(visitor.gate)];
            gate.member.asking();
            let granted = self.ledger.take(&gate.run, 1);
            gate.member.granted(granted);
            self.conclude(v, Some(Source::Counter));
            return;
        }
        self.request(v);
    }

    /// A gate that answers: the visitor's own, or, where that is frozen or gone, another of his data center or any.
    fn find_gate(&mut self, v: u32) -> Option<u16> {
        let own = self.visitors[v as usize].gate;
        if self.gates[usize::from(own)].up == Up::Running {
            return Some(own);
        }
        let center = self.gates[usize::from(own)].center;
        let running = |g: &&Gate| g.up == Up::Running;
        let near: Vec<u16> = (0..self.gates.len() as u16)
            .filter(|g| {
                let gate = &self.gates[usize::from(*g)];
                running(&gate) && gate.center == center
            })
            .collect();
        let far: Vec<u16> = (0..self.gates.len() as u16)
            .filter(|g| running(&&self.gates[usize::from(*g)]))
            .collect();
        let some = if near.is_empty() { far } else { near };
        if some.is_empty() {
            return None;
        }
        Some(some[self.rng.random_range(0..some.len())])
    }

    fn request(&mut self, v: u32) {
        let Some(gate) = self.find_gate(v) else {
            self.counts.errors += 1;
            self.plan(self.now + RETRY_MS, Event::Request(v));
            return;
        };
        let visitor = &mut self.visitors[v as usize];
        visitor.gate = gate;
        visitor.asked_at = self.now;
        visitor.asked_stock = false;
        visitor.asked_ledger = false;
        if visitor.waiting
            && self.now - visitor.arrival.at_ms >= u64::from(visitor.arrival.patience_ms)
        {
            self.counts.gave_up += 1;
            self.truth.waiting -= 1;
            self.free_visitors.push(v);
            return;
        }
        let ticket = visitor.ticket;
        let now = self.room_time(gate);
        let at = &mut self.gates[usize::from(gate)];
        if !at.room.asks(now, ticket.as_ref()) {
            self.conclude(v, None);
            return;
        }
        let counts = at.room.counts(now);
        match at.member.supply(now, counts) {
            Supply::Ask => self.ask(v),
            Supply::Slot(source) => self.conclude(v, Some(source)),
            Supply::Nothing => self.conclude(v, None),
        }
    }

    fn ask(&mut self, v: u32) {
        self.questions += 1;
        self.visitors[v as usize].asking = self.questions;
        let gate = self.visitors[v as usize].gate;
        if self.watch_timeouts {
            let at = self.now + self.scenario.counter_timeout_ms;
            self.plan(at, Event::TimedOut(v, self.questions));
        }
        let at = &mut self.gates[usize::from(gate)];
        if at.stock_seen > 0 {
            self.send_to_stock(v);
        } else {
            self.send_to_ledger(v);
        }
    }

    fn send_to_stock(&mut self, v: u32) {
        let gate = self.visitors[v as usize].gate;
        self.visitors[v as usize].asked_stock = true;
        let at = &mut self.gates[usize::from(gate)];
        at.stock_queue.push(v);
        if at.stock_asked.is_empty() {
            self.ask_stock(gate);
        }
    }

    fn ask_stock(&mut self, gate: u16) {
        let at = &mut self.gates[usize::from(gate)];
        at.stock_asked = std::mem::take(&mut at.stock_queue);
        if at.stock_asked.is_empty() {
            return;
        }
        let way = half(self.centers[usize::from(at.center)].counter_ms);
        self.plan(self.now + way, Event::StockAsk(gate));
    }

    fn stock_ask(&mut self, gate: u16) {
        let at = &self.gates[usize::from(gate)];
        let center = &mut self.centers[usize::from(at.center)];
        if !center.stock_up {
            return;
        }
        let got = center
            .stock
            .take(&at.run, at.member.taken(), at.stock_asked.len() as u64);
        let way = half(center.counter_ms);
        self.plan(self.now + way, Event::StockAnswer(gate, got as u32));
    }

    fn stock_answer(&mut self, gate: u16, got: u32) {
        if self.defer(gate, Event::StockAnswer(gate, got)) {
            return;
        }
        let at = &mut self.gates[usize::from(gate)];
        let round_trip = self.centers[usize::from(at.center)].counter_ms as f32;
        at.member.took(u64::from(got));
        let asked = std::mem::take(&mut at.stock_asked);
        at.stock_seen = at.stock_seen.saturating_sub(u64::from(got));
        if (got as usize) < asked.len() {
            at.stock_seen = 0;
        }
        let mut left = got;
        for v in asked {
            self.counts.local_ms.push(round_trip);
            let still = self.is_asking(v, gate);
            if left > 0 {
                left -= 1;
                if still {
                    self.visitors[v as usize].asking = 0;
                    self.conclude(v, Some(Source::Counter));
                } else {
                    self.gates[usize::from(gate)].member.give_back(1);
                }
            } else if still && self.visitors[v as usize].asked_ledger {
                self.visitors[v as usize].asking = 0;
                self.conclude(v, None);
            } else if still {
                self.send_to_ledger(v);
            }
        }
        self.ask_stock(gate);
    }

    fn is_asking(&self, v: u32, gate: u16) -> bool {
        let visitor = &self.visitors[v as usize];
        visitor.asking != 0 && visitor.gate == gate
    }

    fn ledger_way(&self, gate: u16) -> u64 {
        let center = &self.centers[usize::from(self.gates[usize::from(gate)].center)];
        half(center.anywhere_ms)
    }

    fn ledger_reachable(&self, center: u16) -> bool {
        self.ledger_up && !self.centers[usize::from(center)].cut_off
    }

    fn send_to_ledger(&mut self, v: u32) {
        self.visitors[v as usize].asked_ledger = true;
        let gate = self.visitors[v as usize].gate;
        self.gates[usize::from(gate)].member.asking();
        let at = self.now + self.ledger_way(gate) + self.ledger_slow_ms;
        self.plan(at, Event::LedgerAsk(v, gate));
    }

    fn ledger_ask(&mut self, v: u32, gate: u16) {
        let center = self.gates[usize::from(gate)].center;
        if !self.ledger_reachable(center) {
            // Lost. The gate learns of it when the connection breaks.
            let at = self.now + self.scenario.counter_timeout_ms;
            self.plan(at, Event::LedgerAnswer(NOBODY, gate, false));
            return;
        }
        let granted = self.ledger.take(&self.gates[usize::from(gate)].run, 1);
        let at = self.now + self.ledger_way(gate);
        self.plan(at, Event::LedgerAnswer(v, gate, granted > 0));
    }

    fn ledger_answer(&mut self, v: u32, gate: u16, got: bool) {
        if self.defer(gate, Event::LedgerAnswer(v, gate, got)) {
            return;
        }
        let way = self.centers[usize::from(self.gates[usize::from(gate)].center)].anywhere_ms;
        let at = &mut self.gates[usize::from(gate)];
        at.member.granted(u64::from(got));
        if v == NOBODY {
            return;
        }
        self.counts.anywhere_ms.push(way as f32);
        if self.is_asking(v, gate) {
            if !got && !self.visitors[v as usize].asked_stock {
                self.send_to_stock(v);
                return;
            }
            self.visitors[v as usize].asking = 0;
            self.conclude(v, got.then_some(Source::Counter));
        } else if got {
            self.gates[usize::from(gate)].member.give_back(1);
        }
    }

    fn timed_out(&mut self, v: u32, question: u32) {
        if self.visitors[v as usize].asking != question {
            return;
        }
        self.visitors[v as usize].asking = 0;
        let gate = self.visitors[v as usize].gate;
        if self.gates[usize::from(gate)].up != Up::Running {
            // The visitor's browser tries again, elsewhere.
            self.plan(self.now + RETRY_MS, Event::Request(v));
            return;
        }
        let now = self.room_time(gate);
        let at = &mut self.gates[usize::from(gate)];
        at.stock_queue.retain(|other| *other != v);
        if !self.centers[usize::from(at.center)].stock_up {
            at.stock_asked.clear();
            at.stock_seen = 0;
        }
        at.member.counter_failed(now);
        let counts = at.room.counts(now);
        match at.member.supply(now, counts) {
            Supply::Slot(source) => self.conclude(v, Some(source)),
            Supply::Ask | Supply::Nothing => self.conclude(v, None),
        }
    }

    /// Decides the visitor's request, with a slot in hand or without.
    fn conclude(&mut self, v: u32, slot: Option<Source>) {
        let visitor = self.visitors[v as usize];
        let gate = visitor.gate;
        let now = self.room_time(gate);
        let at = &mut self.gates[usize::from(gate)];
        if slot.is_some() {
            at.room.deposit(1);
        }
        let decision = at.room.check_in(now, visitor.ticket);
        if let Some(source) = slot {
            let outcome = match at.room.withdraw() {
                0 => SlotOutcome::Used,
                _ => SlotOutcome::LeftOver,
            };
            let used = at.room.slots_used();
            at.member.settle(source, outcome, used);
        }
        match decision {
            Decision::Admit {
                session, admission, ..
            } => {
                self.visitors[v as usize].ticket = Some(Ticket::Session(session));
                self.admitted(v, admission);
            }
            Decision::Wait { ticket, view, .. } => {
                self.visitors[v as usize].ticket = Some(Ticket::Waiting(ticket));
                self.waits(v, view.wait_time, view.refresh_interval_seconds);
            }
            Decision::Refuse { .. } => self.waits(v, WaitTime::Unknown, 20),
            Decision::Bypass => {}
        }
    }

    fn admitted(&mut self, v: u32, admission: Admission) {
        let now = self.now;
        let duration_s = u64::from(self.scenario.session_duration_seconds);
        let ends_s = (now.div_ceil(1000) + duration_s) as usize;
        self.truth.advance(now);
        let initial = self.now < self.warm_up;
        let visitor = &mut self.visitors[v as usize];
        if !visitor.admitted || admission == Admission::New {
            if !visitor.admitted {
                let visit = u64::from(visitor.arrival.visit_ms);
                visitor.visit_until = now + visit;
                if !initial {
                    self.counts.admitted += 1;
                    let latency = now - visitor.asked_at;
                    self.counts.latencies_ms.push(latency as f32);
                }
            }
            visitor.admitted = true;
            self.truth.admit(now, ends_s);
        } else {
            self.truth.prolong(visitor.ends_s, ends_s);
        }
        visitor.ends_s = ends_s;
        if visitor.waiting {
            visitor.waiting = false;
            self.truth.waiting -= 1;
            let wait_s = (now - visitor.arrival.at_ms) as f64 / 1000.0;
            self.counts.waits_s.push(wait_s as f32);
            if let Some(minutes) = visitor.estimate_minutes {
                let off = (minutes as f64 * 60.0 - wait_s).abs() / wait_s.max(60.0);
                self.counts.errors_percent.push((off * 100.0) as f32);
            }
        }
        if now >= visitor.visit_until {
            self.free_visitors.push(v);
            return;
        }
        let next = visitor.visit_until.min(now + duration_s * 600);
        self.roam(v);
        self.plan(next.max(now + 1), Event::Request(v));
    }

    fn waits(&mut self, v: u32, wait: WaitTime, refresh_seconds: u32) {
        self.truth.advance(self.now);
        let visitor = &mut self.visitors[v as usize];
        if !visitor.waiting {
            let free = self.truth.free();
            visitor.waiting = true;
            self.counts.queued += 1;
            if self.truth.waiting < free {
                self.counts.early_queued += 1;
            }
            self.counts
                .first_queued_at_percent
                .get_or_insert(self.truth.utilization() * 100.0);
            self.truth.waiting += 1;
            visitor.estimate_minutes = match wait {
                WaitTime::Known {
                    percentile_50_minutes,
                    ..
                } => Some(percentile_50_minutes),
                WaitTime::Unknown => None,
            };
        }
        self.roam(v);
        let late = self.rng.random_range(0..200);
        let at = self.now + u64::from(refresh_seconds.max(1)) * 1000 + late;
        self.plan(at, Event::Request(v));
    }

    /// The next request may go to another gate of the data center.
    fn roam(&mut self, v: u32) {
        if self.scenario.roam_percent == 0
            || self.rng.random_range(0..100) >= self.scenario.roam_percent
        {
            return;
        }
        let center = usize::from(self.gates[usize::from(self.visitors[v as usize].gate)].center);
        let first = self
            .gates
            .iter()
            .position(|g| usize::from(g.center) == center);
        let gate = draw_gate(&self.scenario.data_centers[center], &mut self.rng);
        self.visitors[v as usize].gate = (first.unwrap_or(0) + gate) as u16;
    }

    /// Puts off what reaches a frozen gate until it goes on; drops what reaches a dead one. Whether it did.
    fn defer(&mut self, gate: u16, event: Event) -> bool {
        match self.gates[usize::from(gate)].up {
            Up::Running => false,
            Up::FrozenUntil(until) => {
                self.plan(until, event);
                true
            }
            Up::Killed => true,
        }
    }

    // The pipeline.

    fn publish(&mut self, gate: u16) {
        if self.defer(gate, Event::Publish(gate)) {
            return;
        }
        let every = self.scenario.publish_interval_ms;
        self.plan(self.now + every, Event::Publish(gate));
        let now = self.room_time(gate);
        let at = &mut self.gates[usize::from(gate)];
        // One at a time; a lost one is given up after the time a connection takes to break.
        if at.outbox.is_some() && self.now < at.outbox_at + 1000 {
            return;
        }
        let report = at.room.report(now);
        let published = at.member.publish(now, &report);
        at.outbox = Some((published, report.waiters));
        at.outbox_at = self.now;
        let arrives = self.now + self.ledger_way(gate) + self.ledger_slow_ms;
        self.plan(arrives, Event::PublishAtLedger(gate));
    }

    fn publish_at_ledger(&mut self, gate: u16) {
        let center = self.gates[usize::from(gate)].center;
        if !self.ledger_reachable(center) {
            return;
        }
        let at = &mut self.gates[usize::from(gate)];
        let Some((published, waiters)) = at.outbox.take() else {
            return;
        };
        let terms = at.member.terms();
        let reply =
            self.ledger
                .publish(Millis::new(EPOCH_MS + self.now), &at.run, &published, terms);
        self.waiters = self.waiters.replace(&at.told, &waiters);
        let elsewhere = self.waiters.replace(&waiters, &WaitersBySecond::default());
        at.told = waiters;
        at.inbox = Some((reply, elsewhere));
        let back = self.now + self.ledger_way(gate);
        self.plan(back, Event::PublishAnswer(gate));
    }

    fn publish_answer(&mut self, gate: u16) {
        if self.defer(gate, Event::PublishAnswer(gate)) {
            return;
        }
        let now = self.room_time(gate);
        let at = &mut self.gates[usize::from(gate)];
        let Some((reply, elsewhere)) = at.inbox.take() else {
            return;
        };
        let Some(view) = at.member.published(&reply, elsewhere) else {
            return;
        };
        at.stock_seen = reply.stock;
        at.room.set_view(now, view);
        if self.strategy != StrategyKind::Counter {
            return;
        }
        let waiting = at.room.status(now).queued_users;
        let wanted = at.member.stock_wanted(&reply, waiting);
        let center = at.center;
        let keeper = self
            .gates
            .iter()
            .position(|g| g.center == center && g.up == Up::Running);
        if keeper == Some(usize::from(gate)) {
            let center_state = &mut self.centers[usize::from(center)];
            center_state.wanted = wanted;
            let idle = center_state
                .refilling_since
                .is_none_or(|since| self.now > since + 3000);
            if idle {
                center_state.refilling_since = Some(self.now);
                let way = half(center_state.counter_ms);
                self.plan(self.now + way, Event::Refill(center));
            }
        }
    }

    fn refill(&mut self, center: u16) {
        let state = &mut self.centers[usize::from(center)];
        if !state.stock_up {
            return;
        }
        let wanted = state.wanted;
        let report = state.stock.report(wanted);
        if report.slots == 0 && wanted == 0 && report.taken.is_empty() {
            state.refilling_since = None;
            return;
        }
        state.report = Some(report);
        let at = self.now + half(state.counter_ms) + half(state.anywhere_ms);
        self.plan(at + self.ledger_slow_ms, Event::RefillAtLedger(center));
    }

    fn refill_at_ledger(&mut self, center: u16) {
        if !self.ledger_reachable(center) {
            return;
        }
        let name = &self.scenario.data_centers[usize::from(center)].name;
        let state = &mut self.centers[usize::from(center)];
        let Some(report) = &state.report else {
            return;
        };
        state.granted = self.ledger.refill(name, report);
        let at = self.now + half(state.counter_ms) + half(state.anywhere_ms);
        self.plan(at, Event::RefillAnswer(center));
    }

    fn refill_answer(&mut self, center: u16) {
        let state = &mut self.centers[usize::from(center)];
        state.refilling_since = None;
        if !state.stock_up {
            return;
        }
        if let (Some(report), Some(granted)) = (state.report.take(), state.granted.take()) {
            state.stock.add(&report, granted);
        }
    }

    // Time and trouble.

    fn tick(&mut self) {
        self.plan(self.now + 1000, Event::Tick);
        self.truth.advance(self.now);
        if self.now < self.warm_up {
            return;
        }
        self.truth.tick();
        let second = (self.now - self.warm_up) / 1000;
        let every = (self.scenario.duration_seconds / SAMPLES).max(1);
        if second.is_multiple_of(every) {
            self.counts.samples.push(Sample {
                at_seconds: second,
                active: u64::try_from(self.truth.active).unwrap_or(0),
                waiting: self.truth.waiting,
                admitted_last_minute: self.truth.admitted_last_minute,
            });
        }
    }

    fn gate_of(&self, center: &str, number: usize) -> usize {
        let index = self
            .scenario
            .data_centers
            .iter()
            .position(|c| c.name == center);
        let first = self
            .gates
            .iter()
            .position(|g| Some(usize::from(g.center)) == index);
        first.unwrap_or(0) + number
    }

    fn center_of(&mut self, name: &str) -> Option<&mut Center> {
        let index = self
            .scenario
            .data_centers
            .iter()
            .position(|c| c.name == name)?;
        self.centers.get_mut(index)
    }

    fn breaks(&mut self, index: u16) {
        let Failure {
            kind, for_seconds, ..
        } = &self.scenario.failures[usize::from(index)];
        let until = self.now + for_seconds * 1000;
        match kind {
            FailureKind::CounterSlow { by_ms } => self.ledger_slow_ms = *by_ms,
            FailureKind::CounterGone { data_center: None } => self.ledger_up = false,
            FailureKind::CounterGone {
                data_center: Some(name),
            } => {
                if let Some(center) = self.center_of(name) {
                    center.stock_up = false;
                }
            }
            FailureKind::CounterEmptied { data_center: None } => {
                self.ledger = Ledger::default();
                self.waiters = WaitersBySecond::default();
                for gate in &mut self.gates {
                    gate.told = WaitersBySecond::default();
                }
            }
            FailureKind::CounterEmptied {
                data_center: Some(name),
            } => {
                let epoch = self.now + 2;
                if let Some(center) = self.center_of(name) {
                    center.stock = DataCenterStock::new(epoch);
                }
            }
            FailureKind::GateKilled { data_center, gate } => {
                let gate = self.gate_of(data_center, *gate);
                self.gates[gate].up = Up::Killed;
            }
            FailureKind::GateFrozen { data_center, gate } => {
                let gate = self.gate_of(data_center, *gate);
                self.gates[gate].up = Up::FrozenUntil(until);
            }
            FailureKind::ClockWrong {
                data_center,
                gate,
                by_ms,
            } => {
                // A gate sets its clock by the counter's when it starts, and is off by half a round trip at most.
                let gate = self.gate_of(data_center, *gate);
                let most = self.ledger_way(gate as u16) as i64;
                self.gates[gate].clock_ms = (*by_ms).clamp(-most, most);
            }
            FailureKind::DataCenterCutOff { data_center } => {
                if let Some(center) = self.center_of(data_center) {
                    center.cut_off = true;
                }
            }
        }
    }

    fn mends(&mut self, index: u16) {
        match &self.scenario.failures[usize::from(index)].kind {
            FailureKind::CounterSlow { .. } => self.ledger_slow_ms = 0,
            FailureKind::CounterGone { data_center: None } => self.ledger_up = true,
            FailureKind::CounterGone {
                data_center: Some(name),
            } => {
                if let Some(center) = self.center_of(name) {
                    center.stock_up = true;
                    center.refilling_since = None;
                }
            }
            FailureKind::GateFrozen { data_center, gate } => {
                let gate = self.gate_of(data_center, *gate);
                self.gates[gate].up = Up::Running;
            }
            FailureKind::DataCenterCutOff { data_center } => {
                if let Some(center) = self.center_of(data_center) {
                    center.cut_off = false;
                }
            }
            FailureKind::CounterEmptied { .. }
            | FailureKind::GateKilled { .. }
            | FailureKind::ClockWrong { .. } => {}
        }
    }

    fn finish(mut self) -> Run {
        self.truth.advance(self.now);
        let mut believed = 0;
        for index in 0..self.gates.len() {
            if self.gates[index].up == Up::Running {
                let now = self.room_time(index as u16);
                believed += self.gates[index].room.counts(now).active_users;
            }
        }
        let counts = &mut self.counts;
        for values in [
            &mut counts.waits_s,
            &mut counts.latencies_ms,
            &mut counts.errors_percent,
            &mut counts.local_ms,
            &mut counts.anywhere_ms,
        ] {
            values.sort_unstable_by(f32::total_cmp);
        }
        let calls = |values: &[f32]| CallsMs {
            calls: values.len() as u64,
            p50: percentile(values, 50.0),
            p99: percentile(values, 99.0),
        };
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        Run {
            strategy: self.strategy.strategy().name(),
            outcome: Outcome {
                admitted: counts.admitted,
                queued: counts.queued,
                early_queued: counts.early_queued,
                overshoot: self.truth.overshoot,
                wait_seconds: WaitSeconds {
                    p50: percentile(&counts.waits_s, 50.0),
                    p99: percentile(&counts.waits_s, 99.0),
                },
                estimate_error_percent: Median {
                    p50: percentile(&counts.errors_percent, 50.0),
                },
                idle_slot_percent: round(self.truth.idle_slot_percent()),
                admission_latency_ms: LatencyMs {
                    p50: percentile(&counts.latencies_ms, 50.0),
                    p99: percentile(&counts.latencies_ms, 99.0),
                },
            },
            visitors: counts.admitted + self.truth.waiting + counts.gave_up,
            first_queued_at_percent: counts.first_queued_at_percent.map(round),
            gave_up: counts.gave_up,
            local_calls_ms: calls(&counts.local_ms),
            anywhere_calls_ms: calls(&counts.anywhere_ms),
            errors: counts.errors,
            count_error_at_end: believed - self.truth.active,
            samples: std::mem::take(&mut counts.samples),
        }
    }
}

/// The strategy of a scenario by its name.
pub(super) fn strategy(name: super::StrategyName, scenario: &Scenario) -> Option<StrategyKind> {
    Some(match name {
        super::StrategyName::Even => StrategyKind::Even,
        super::StrategyName::Adaptive => {
            StrategyKind::Adaptive(CurveFactor::new(scenario.curve_factor)?)
        }
        super::StrategyName::Counter => StrategyKind::Counter,
    })
}
