//! The world: gates with real rooms, counters, messages that take their time, visitors, and what breaks.
//!
//! Deterministic: events of one millisecond happen in the order they were planned in, and nothing reads a clock.

mod exchange;
mod trouble;
mod visits;

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
