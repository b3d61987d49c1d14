//! Rooms shared over Redis: publishes and reads in the background, and gets a slot for each new user who could enter.
//!
//! Everything that waits for the network runs on one thread of its own. A serving thread only leaves a question there and
//! waits, with a timeout, for its answer; requests of active users leave none.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;

use crate::clock::Clock;
use crate::room::slots::StrategyKind;
use crate::room::{Decision, Millis, Room, Ticket};

use super::health::{CounterHealth, CounterScope, CounterWatch, RoomHealth};
use super::ledger::{GateRun, Predecessor, Terms};
use super::member::{LEASED_PERCENT, Member, Outcome, Source, Supply};
use super::redis::{RedisError, RemoteLedger, RemoteStock};
use super::settings::ClusterSettings;

/// Questions that may wait to be asked, for each room. When full, newcomers wait in line as if the counter were gone.
const QUESTIONS_MAX: usize = 65_536;
/// Slots asked for in one call.
const BATCH_MAX: usize = 4_096;
/// Calls to the counter of all that may be under way, for each room. Beyond it questions gather into larger calls.
const CALLS_MAX: u32 = 8;
/// How long a starting gate waits for the others to be heard before it serves.
const START_PATIENCE: Duration = Duration::from_secs(6);

/// How long a starting gate waits to be told the time.
const TIME_PATIENCE: Duration = Duration::from_secs(3);

/// Why rooms cannot be shared.
#[derive(Debug)]
pub enum ClusterError {
    Redis(RedisError),
    Thread(std::io::Error),
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(_) => f.write_str("the cluster's counters cannot be used"),
            Self::Thread(_) => f.write_str("the cluster's thread cannot be started"),
        }
    }
}

impl std::error::Error for ClusterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Redis(error) => Some(error),
            Self::Thread(error) => Some(error),
        }
    }
}

/// One room that is to be shared.
#[derive(Debug)]
pub struct RoomToShare {
    /// Its name, the same at every gate.
    pub name: String,
    pub room: Arc<Mutex<Room>>,
    pub strategy: StrategyKind,
    /// Whether `room` remembers the sessions of this gate's last run.
    pub predecessor: Predecessor,
}

/// What a request may do to the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// [`Room::check_in`].
    CheckIn,
    /// [`Room::observe`].
    Observe,
}

#[derive(Debug)]
struct Shared {
    name: String,
    room: Arc<Mutex<Room>>,
    /// Locked only while `room` is not, or after it.
    state: Mutex<State>,
    questions: mpsc::Sender<Question>,
    /// Held while the data center's stock is asked.
    stock_call: tokio::sync::Mutex<()>,
}

type Question = oneshot::Sender<Answer>;

#[derive(Debug)]
struct State {
    member: Member,
    stock_seen: u64,
    calls: u64,
    failures: u64,
}

#[derive(Debug)]
enum Answer {
    Slot(Grant),
    NoSlot,
    Failed,
}

/// A slot a counter granted. Goes back when nobody takes it: its visitor may have gone meanwhile.
#[derive(Debug)]
struct Grant(Option<Arc<Shared>>);

impl Drop for Grant {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.state.lock().member.give_back(1);
        }
    }
}

/// A slot on its way into the room's hands.
#[derive(Debug)]
enum Slot {
    Granted(Grant),
    From(Source),
}

/// The counters this gate asks.
#[derive(Debug)]
struct Counters {
    all: CounterWatch,
    data_center: Option<CounterWatch>,
}

/// Every shared room of this gate.
#[derive(Debug)]
pub struct Cluster {
    settings: ClusterSettings,
    rooms: Vec<Arc<Shared>>,
    counters: Arc<Counters>,
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Cluster {
    /// The time all gates go by, measured against the server of all. For a gate's clock, before it has any room. `None` where
    /// the server does not answer: the gate goes by its own clock then.
    pub fn time(settings: &ClusterSettings, clock: &Clock) -> Result<Option<Millis>, ClusterError> {
        let runtime = runtime()?;
        runtime.block_on(async {
            let ledger = RemoteLedger::new(settings).map_err(ClusterError::Redis)?;
            let mut best: Option<(u64, Millis, Millis)> = None;
            let began = clock.now();
            for _ in 0..5 {
                let before = clock.now();
                let left =
                    TIME_PATIENCE.saturating_sub(Duration::from_millis(before.millis_since(began)));
                let Ok(Ok(time)) = tokio::time::timeout(left, ledger.time()).await else {
                    continue;
                };
                let after = clock.now();
                let round_trip = after.millis_since(before);
                if best.is_none_or(|(least, _, _)| round_trip < least) {
                    best = Some((round_trip, time.plus_millis(round_trip / 2), after));
                }
            }
            Ok(best.map(|(_, time, at)| time.plus_millis(clock.now().millis_since(at))))
        })
    }

    /// Shares the rooms from now on. Returns once every gate that is there has been heard, or after some seconds where the
    /// server does not answer: then nobody new enters until it does.
    pub fn start(
        settings: &ClusterSettings,
        rooms: Vec<RoomToShare>,
        clock: Clock,
    ) -> Result<Self, ClusterError> {
        let runtime = runtime()?;
        let (ledger, stock) = {
            // Connections belong to the runtime they are made in.
            let _inside = runtime.enter();
            (RemoteLedger::new(settings), RemoteStock::new(settings))
        };
        // The time tells runs apart as well where there is no randomness.
        let run = GateRun {
            gate: settings.gate.clone(),
            run: getrandom::u64().map_or_else(|_| clock.now().as_u64(), |n| n >> 12),
        };
        let mut shared = Vec::new();
        let mut queues = Vec::new();
        for to_share in rooms {
            let (questions, queue) = mpsc::channel(QUESTIONS_MAX);
            let terms = {
                let mut room = to_share.room.lock();
                room.share(settings.number);
                terms(settings, &mut room, clock.now())
            };
            let state = State {
                member: Member::new(
                    settings.data_center.clone(),
                    to_share.strategy,
                    to_share.predecessor,
                    terms,
                ),
                stock_seen: 0,
                calls: 0,
                failures: 0,
            };
            shared.push(Arc::new(Shared {
                name: to_share.name,
                room: to_share.room,
                state: Mutex::new(state),
                questions,
                stock_call: tokio::sync::Mutex::new(()),
            }));
            queues.push(queue);
        }
        let (stop, stopped) = watch::channel(false);
        let (open, opened) = std::sync::mpsc::channel();
        let counters = Arc::new(Counters {
            all: CounterWatch::new(CounterScope::All, clock.now()),
            data_center: settings
                .local
                .as_ref()
                .map(|_| CounterWatch::new(CounterScope::DataCenter, clock.now())),
        });
        let worker = Worker {
            settings: settings.clone(),
            run,
            clock,
            counters: Arc::clone(&counters),
            ledger: ledger.map_err(ClusterError::Redis)?,
            stock: stock.map_err(ClusterError::Redis)?,
        };
        let works = shared.clone();
        let thread = std::thread::Builder::new()
            .name("cluster".to_owned())
            .spawn(move || {
                let local = LocalSet::new();
                for (shared, queue) in works.into_iter().zip(queues) {
                    let worker = worker.clone();
                    let open = open.clone();
                    local.spawn_local(worker.clone().publish_on(shared.clone(), open));
                    local.spawn_local(worker.answer_on(shared, queue));
                }
                drop(open);
                let mut stopped = stopped;
                runtime.block_on(local.run_until(async move {
                    // Ends as well when the cluster is gone.
                    _ = stopped.wait_for(|stop| *stop).await;
                }));
            })
            .map_err(ClusterError::Thread)?;
        for _ in &shared {
            if opened.recv_timeout(START_PATIENCE).is_err() {
                log::warn!("no counter answers; nobody new enters until one does");
                break;
            }
        }
        Ok(Self {
            settings: settings.clone(),
            rooms: shared,
            counters,
            stop,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Decides a request to the room with this index, in the order they were given to [`Cluster::start`]. Waits for a counter
    /// only where the visitor is new and could enter, and not longer than `counter_timeout_ms` for each of two answers.
    pub async fn decide(
        &self,
        index: usize,
        clock: &Clock,
        ticket: Option<Ticket>,
        visit: Visit,
    ) -> Option<Decision> {
        let shared = self.rooms.get(index)?;
        let supply = {
            let mut room = shared.room.lock();
            let now = clock.now();
            if !room.asks(now, ticket.as_ref()) {
                return Some(visit_room(&mut room, now, ticket, visit));
            }
            let counts = room.counts(now);
            shared.state.lock().member.supply(now, counts)
        };
        let slot = match supply {
            Supply::Slot(source) => Some(Slot::From(source)),
            Supply::Nothing => None,
            Supply::Ask => self.ask(shared, clock).await,
        };
        Some(shared.conclude(clock.now(), ticket, visit, slot))
    }

    async fn ask(&self, shared: &Shared, clock: &Clock) -> Option<Slot> {
        let (answer, answered) = oneshot::channel();
        let asked = shared.questions.try_send(answer).is_ok();
        let answer = if asked {
            match tokio::time::timeout(self.settings.counter_timeout, answered).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) | Err(_) => Answer::Failed,
            }
        } else {
            Answer::Failed
        };
        match answer {
            Answer::Slot(grant) => return Some(Slot::Granted(grant)),
            Answer::NoSlot => return None,
            Answer::Failed => {}
        }
        let mut room = shared.room.lock();
        let now = clock.now();
        let counts = room.counts(now);
        let mut state = shared.state.lock();
        state.failures += 1;
        state.member.counter_failed(now);
        match state.member.supply(now, counts) {
            Supply::Slot(source) => Some(Slot::From(source)),
            Supply::Ask | Supply::Nothing => None,
        }
    }

    /// How the room with this index stands with the others.
    pub fn health(&self, index: usize, now: Millis) -> Option<RoomHealth> {
        let state = self.rooms.get(index)?.state.lock();
        Some(RoomHealth {
            snapshot_age_millis: state.member.age_millis(now),
            counter_answers: state.calls,
            counter_failures: state.failures,
        })
    }

    /// What it was started with.
    pub fn settings(&self) -> &ClusterSettings {
        &self.settings
    }

    /// How the counters do that this gate asks.
    pub fn counters(&self) -> Vec<CounterHealth> {
        std::iter::once(&self.counters.all)
            .chain(&self.counters.data_center)
            .map(CounterWatch::health)
            .collect()
    }

    /// Stops publishing. What the gate has is held for its visitors until their sessions have ended.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            log::error!("the cluster's thread panicked");
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, ClusterError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ClusterError::Thread)
}

fn terms(settings: &ClusterSettings, room: &mut Room, now: Millis) -> Terms {
    let status = room.status(now);
    let session_millis = u64::from(room.session_duration_seconds()) * 1000;
    let publish_millis = u64::try_from(settings.publish_interval.as_millis()).unwrap_or(u64::MAX);
    Terms {
        total_active_users: u64::from(status.total_active_users),
        new_users_per_minute: u64::from(status.new_users_per_minute),
        settle_millis: settings.absent_millis.max(publish_millis * 2),
        absent_millis: settings.absent_millis,
        gate_hold_millis: session_millis + settings.gate_hold_millis,
        data_center_hold_millis: session_millis + settings.data_center_hold_millis,
        leased_percent: LEASED_PERCENT,
    }
}

fn visit_room(room: &mut Room, now: Millis, ticket: Option<Ticket>, visit: Visit) -> Decision {
    match visit {
        Visit::CheckIn => room.check_in(now, ticket),
        Visit::Observe => room.observe(now, ticket),
    }
}

impl Shared {
    /// Decides with a slot in hand, or without. A slot that was not needed goes back.
    fn conclude(
        &self,
        now: Millis,
        ticket: Option<Ticket>,
        visit: Visit,
        slot: Option<Slot>,
    ) -> Decision {
        let source = slot.map(|slot| match slot {
            Slot::Granted(mut grant) => {
                grant.0 = None;
                Source::Counter
            }
            Slot::From(source) => source,
        });
        let mut room = self.room.lock();
        room.deposit(u64::from(source.is_some()));
        let decision = visit_room(&mut room, now, ticket, visit);
        if let Some(source) = source {
            let outcome = match room.withdraw() {
                0 => Outcome::Used,
                _ => Outcome::LeftOver,
            };
            let used = room.slots_used();
            self.state.lock().member.settle(source, outcome, used);
        }
        decision
    }
}

/// What each task of the cluster's thread has.
#[derive(Clone, Debug)]
struct Worker {
    settings: ClusterSettings,
    run: GateRun,
    clock: Clock,
    counters: Arc<Counters>,
    ledger: RemoteLedger,
    stock: Option<RemoteStock>,
}

impl Worker {
    /// Publishes one room for ever.
    async fn publish_on(self, shared: Arc<Shared>, open: std::sync::mpsc::Sender<()>) {
        let settle = Duration::from_millis(shared.state.lock().member.terms().settle_millis);
        let began = self.clock.now();
        let mut open = Some(open);
        let mut ticks = tokio::time::interval(self.settings.publish_interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // What went wrong has been noted.
            let Ok(free) = self.publish(&shared).await else {
                continue;
            };
            let passed = Duration::from_millis(self.clock.now().millis_since(began));
            // A ledger that settles grants nothing, nor does a full room.
            if (free > 0 || passed >= settle + 2 * self.settings.publish_interval)
                && let Some(open) = open.take()
            {
                // Nobody listens where the gate no longer waits for it.
                _ = open.send(());
            }
        }
    }

    /// Publishes once. Slots the ledger would grant now.
    async fn publish(&self, shared: &Shared) -> Result<u64, RedisError> {
        let (published, terms, waiters) = {
            let mut room = shared.room.lock();
            let now = self.clock.now();
            let report = room.report(now);
            let terms = terms(&self.settings, &mut room, now);
            let mut state = shared.state.lock();
            state.member.set_terms(terms);
            let published = state.member.publish(now, &report);
            (published, state.member.terms(), report.waiters)
        };
        let answer = self
            .ledger
            .publish(&shared.name, &self.run, &published, terms, &waiters)
            .await;
        let (reply, elsewhere) = self.counters.all.note(self.clock.now(), answer)?;
        let wanted = {
            let mut room = shared.room.lock();
            let mut state = shared.state.lock();
            state.stock_seen = reply.stock;
            let Some(view) = state.member.published(&reply, elsewhere) else {
                return Ok(0);
            };
            let now = self.clock.now();
            room.set_view(now, view);
            let waiting = room.status(now).queued_users;
            state.member.stock_wanted(&reply, waiting)
        };
        self.refill(shared, wanted, terms).await;
        Ok(reply.free)
    }

    /// Brings the data center's stock to what it is to have, where this gate keeps it.
    async fn refill(&self, shared: &Shared, wanted: u64, terms: Terms) {
        let Some(stock) = &self.stock else { return };
        let keep = self.settings.publish_interval * 3;
        let hold = terms.data_center_hold_millis;
        let name = &shared.name;
        let moved: Result<(), RedisError> = async {
            let report = stock.report(name, &self.run, wanted, keep, hold).await;
            let Some(report) = self.note_stock(report)? else {
                return Ok(());
            };
            let center = &self.settings.data_center;
            let granted = self.ledger.refill(name, center, &report).await;
            if let Some(granted) = self.counters.all.note(self.clock.now(), granted)?
                && granted > 0
                && self.note_stock(stock.add(name, &report, granted).await)?
            {
                shared.state.lock().stock_seen = report.slots() + granted;
            }
            Ok(())
        }
        .await;
        if moved.is_err() {
            shared.state.lock().stock_seen = 0;
        }
    }

    /// Notes what became of a call to the data center's counter.
    fn note_stock<T>(&self, answer: Result<T, RedisError>) -> Result<T, RedisError> {
        match &self.counters.data_center {
            Some(watch) => watch.note(self.clock.now(), answer),
            None => answer,
        }
    }

    /// Answers the questions of one room for ever.
    async fn answer_on(self, shared: Arc<Shared>, mut queue: mpsc::Receiver<Question>) {
        let calls = Arc::new(tokio::sync::Semaphore::new(CALLS_MAX as usize));
        let mut batch = Vec::new();
        loop {
            // Questions that come while every call is under way gather here.
            let Ok(call) = calls.clone().acquire_owned().await else {
                return;
            };
            if queue.recv_many(&mut batch, BATCH_MAX).await == 0 {
                return;
            }
            batch.retain(|question| !question.is_closed());
            let mut questions = std::mem::take(&mut batch);
            let from_stock = shared.state.lock().stock_seen > 0;
            let mut asked_stock = false;
            if from_stock {
                asked_stock = true;
                self.ask_stock(&shared, &mut questions).await;
            }
            if questions.is_empty() {
                continue;
            }
            let worker = self.clone();
            let shared = shared.clone();
            tokio::task::spawn_local(async move {
                worker.ask_ledger(&shared, &mut questions).await;
                // Slots may be in the stock that the ledger has not.
                if !questions.is_empty() && !asked_stock && worker.stock.is_some() {
                    worker.ask_stock(&shared, &mut questions).await;
                }
                for question in questions {
                    _ = question.send(Answer::NoSlot);
                }
                drop(call);
            });
        }
    }

    /// Answers as many as the data center's stock has slots for. One call at a time: see [`RemoteStock::take`].
    async fn ask_stock(&self, shared: &Arc<Shared>, questions: &mut Vec<Question>) {
        let Some(stock) = &self.stock else { return };
        let _one_at_a_time = shared.stock_call.lock().await;
        let wanted = questions.len() as u64;
        let taken = shared.state.lock().member.taken();
        let got = stock.take(&shared.name, &self.run, taken, wanted).await;
        let got = self.note_stock(got);
        let mut state = shared.state.lock();
        let Ok(got) = got else {
            state.stock_seen = 0;
            return;
        };
        state.calls += 1;
        state.member.took(got);
        state.stock_seen = match got < wanted {
            true => 0,
            false => state.stock_seen.saturating_sub(got),
        };
        drop(state);
        give(shared, questions, got);
    }

    async fn ask_ledger(&self, shared: &Arc<Shared>, questions: &mut Vec<Question>) {
        shared.state.lock().member.asking();
        let granted = self
            .ledger
            .take(&shared.name, &self.run, questions.len() as u64)
            .await;
        let granted = self.counters.all.note(self.clock.now(), granted);
        let mut state = shared.state.lock();
        state.member.granted(*granted.as_ref().unwrap_or(&0));
        let Ok(granted) = granted else {
            drop(state);
            for question in questions.drain(..) {
                // A visitor who no longer waits needs no answer.
                _ = question.send(Answer::Failed);
            }
            return;
        };
        state.calls += 1;
        drop(state);
        give(shared, questions, granted);
    }
}

/// Hands out slots to those who wait for one. What nobody takes goes back by itself: see [`Grant`].
fn give(shared: &Arc<Shared>, questions: &mut Vec<Question>, slots: u64) {
    let served = questions
        .len()
        .min(usize::try_from(slots).unwrap_or(usize::MAX));
    for question in questions.drain(..served) {
        _ = question.send(Answer::Slot(Grant(Some(shared.clone()))));
    }
    let nobodys = slots - served as u64;
    if nobodys > 0 {
        shared.state.lock().member.give_back(nobodys);
    }
}
