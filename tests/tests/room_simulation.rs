//! A room under a simulated world, checked after every step against a shadow that counts in another way.
//!
//! Seeds are fixed; `GATE_SIM_SEED=N` runs another one. A failure names its seed.
#![allow(clippy::print_stdout, reason = "a simulation reports what it found")]
#![allow(
    clippy::unwrap_used,
    reason = "a failed step is a failed test, helpers included"
)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use gate::room::{
    Admission, AdmissionPacing, Decision, Event, Limits, Millis, Operation, Overrides, Plan,
    PrequeueOrder, QueueingMethod, RefreshInterval, Room, SavedRoom, SessionDuration, Settings,
    Ticket, VisitorId, WaitTime,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

const START: Millis = Millis::new(1_750_000_000_000);
const GRACE_SECONDS: u64 = 300;
/// Up to here the position shown is never out of date, however sparse the places of the head are in these runs.
const EXACT_POSITIONS: u64 = 16_384;

/// Counts present waiters ahead with a plain Fenwick tree over places and a heap of times.
struct ShadowLine {
    tree: Vec<u32>,
    present_until_s: HashMap<u64, u64>,
    expiries: BinaryHeap<Reverse<(u64, u64)>>,
    present: u64,
}

impl ShadowLine {
    fn new(places: usize) -> Self {
        Self {
            tree: vec![0; places.next_power_of_two() + 1],
            present_until_s: HashMap::new(),
            expiries: BinaryHeap::new(),
            present: 0,
        }
    }

    fn change(&mut self, place: u64, change: i64) {
        let mut at = place as usize + 1;
        assert!(at < self.tree.len(), "the shadow is too small");
        while at < self.tree.len() {
            self.tree[at] = u32::try_from(i64::from(self.tree[at]) + change).unwrap();
            at += at & at.wrapping_neg();
        }
        self.present = self.present.checked_add_signed(change).unwrap();
    }

    fn before(&self, place: u64) -> u64 {
        let mut at = place as usize;
        let mut sum = 0;
        while at > 0 {
            sum += u64::from(self.tree[at]);
            at &= at - 1;
        }
        sum
    }

    fn advance(&mut self, now_s: u64) {
        while let Some(&Reverse((until, place))) = self.expiries.peek() {
            if until > now_s {
                break;
            }
            self.expiries.pop();
            if self.present_until_s.get(&place) == Some(&until) {
                self.present_until_s.remove(&place);
                self.change(place, -1);
            }
        }
    }

    fn check_in(&mut self, place: u64, now_s: u64, refresh_seconds: u32) {
        let until = now_s + (u64::from(refresh_seconds) * 5).div_ceil(2);
        if self.present_until_s.insert(place, until).is_none() {
            self.change(place, 1);
        }
        self.expiries.push(Reverse((until, place)));
    }

    fn remove(&mut self, place: u64) {
        if self.present_until_s.remove(&place).is_some() {
            self.change(place, -1);
        }
    }
}

/// Who should be in, by the rules alone.
struct Shadow {
    sessions: HashMap<VisitorId, u64>,
    ends: BinaryHeap<Reverse<(u64, VisitorId)>>,
    admissions: VecDeque<u64>,
    line: ShadowLine,
    session_seconds: u64,
    limits: Limits,
}

impl Shadow {
    fn advance(&mut self, now: Millis) {
        let (now_ms, now_s) = (now.as_u64(), now.as_secs());
        while let Some(&Reverse((end, visitor))) = self.ends.peek() {
            if end > now_s {
                break;
            }
            self.ends.pop();
            match self.sessions.get(&visitor) {
                Some(&real) if real <= now_s => {
                    self.sessions.remove(&visitor);
                }
                Some(&real) => self.ends.push(Reverse((real, visitor))),
                None => {}
            }
        }
        while self
            .admissions
            .front()
            .is_some_and(|at| now_ms - at > 60_000)
        {
            self.admissions.pop_front();
        }
        self.line.advance(now_s);
    }

    fn free(&self) -> u64 {
        let seats =
            u64::from(self.limits.total_active_users()).saturating_sub(self.sessions.len() as u64);
        let rate = u64::from(self.limits.new_users_per_minute())
            .saturating_sub(self.admissions.len() as u64);
        seats.min(rate)
    }

    fn ends_at_s(&self, now: Millis) -> u64 {
        now.plus_millis(999).as_secs() + self.session_seconds
    }

    fn admit(&mut self, visitor: VisitorId, now: Millis) {
        let end = self.ends_at_s(now);
        assert!(
            self.sessions.insert(visitor, end).is_none(),
            "two sessions of one visitor"
        );
        self.ends.push(Reverse((end, visitor)));
        self.admissions.push_back(now.as_u64());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Waiting,
    Browsing { requests_left: u8 },
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Person {
    ticket: Option<Ticket>,
    mood: Mood,
    joined_at: Millis,
    promised_minutes: u16,
    absences_left: u8,
}

/// What a run found out.
#[derive(Debug, Default)]
struct Findings {
    steps: u64,
    admitted: u64,
    waited: u64,
    estimate_errors_percent: Vec<f64>,
    idle_slot_millis: u64,
    slot_millis: u64,
    peak_waiting: u64,
    /// Requests of people who waited, admitting ones included.
    check_ins: u64,
    /// Minutes waited by those admitted, in the order of admission.
    waits_minutes: Vec<f64>,
}

/// What the rules say about who is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Arrival,
    Lot,
}

struct World {
    seed: u64,
    order: Order,
    rng: Pcg64Mcg,
    room: Room,
    shadow: Shadow,
    people: Vec<Person>,
    agenda: BinaryHeap<Reverse<(u64, u32)>>,
    now: Millis,
    findings: Findings,
}

impl World {
    fn new(seed: u64, plan: Plan, people: usize) -> Self {
        let settings = *plan.settings();
        Self {
            seed,
            order: match settings.queueing_method {
                QueueingMethod::Random => Order::Lot,
                QueueingMethod::Fifo | QueueingMethod::Passthrough | QueueingMethod::Reject => {
                    Order::Arrival
                }
            },
            rng: Pcg64Mcg::seed_from_u64(seed),
            room: Room::new(plan, seed, START),
            shadow: Shadow {
                sessions: HashMap::new(),
                ends: BinaryHeap::new(),
                admissions: VecDeque::new(),
                line: ShadowLine::new(people * 2 + 4096),
                session_seconds: u64::from(settings.session_duration.as_seconds()),
                limits: settings.limits,
            },
            people: Vec::with_capacity(people),
            agenda: BinaryHeap::new(),
            now: START,
            findings: Findings::default(),
        }
    }

    fn arrive(&mut self, at: Millis) {
        let index = u32::try_from(self.people.len()).unwrap();
        self.people.push(Person {
            ticket: None,
            mood: Mood::Waiting,
            joined_at: at,
            promised_minutes: 0,
            absences_left: 2,
        });
        self.agenda.push(Reverse((at.as_u64(), index)));
    }

    fn step(&mut self) -> bool {
        let Some(Reverse((at, index))) = self.agenda.pop() else {
            return false;
        };
        // One in a thousand steps comes with a clock that has gone back: time stands still then.
        let shown = if self.rng.random_ratio(1, 1000) {
            Millis::new(at).minus_millis(self.rng.random_range(0..10_000))
        } else {
            Millis::new(at)
        };
        let next = shown.max(self.now);
        let free_before = self.shadow.free();
        if self.shadow.line.present > 0 {
            let passed = next.millis_since(self.now);
            self.findings.idle_slot_millis += passed * free_before;
            self.findings.slot_millis +=
                passed * u64::from(self.shadow.limits.total_active_users());
        }
        self.now = next;
        self.shadow.advance(self.now);
        self.findings.steps += 1;
        let person = self.people[index as usize];
        if matches!(person.ticket, Some(Ticket::Waiting(_))) {
            self.findings.check_ins += 1;
        }
        let decision = self.room.check_in(shown, person.ticket);
        self.check(&person, &decision);
        self.follow(index, person, decision);
        true
    }

    /// The decision is what the rules say, from the shadow's counts before it.
    fn check(&mut self, person: &Person, decision: &Decision) {
        let seed = self.seed;
        let free = self.shadow.free();
        let had_session = match person.ticket {
            Some(Ticket::Session(s)) => self.shadow.sessions.contains_key(&s.visitor),
            Some(Ticket::Waiting(w)) => self.shadow.sessions.contains_key(&w.visitor),
            None => false,
        };
        match decision {
            Decision::Admit {
                session,
                admission: Admission::Renewed,
                ..
            } => {
                assert!(had_session, "seed {seed}: a session from nowhere");
                let end = self.shadow.ends_at_s(self.now);
                let known = self.shadow.sessions.get_mut(&session.visitor).unwrap();
                *known = end.max(*known);
            }
            Decision::Admit { session, .. } => {
                assert!(
                    !had_session,
                    "seed {seed}: an active user was admitted again"
                );
                let ahead = match person.ticket {
                    Some(Ticket::Waiting(w)) => {
                        let ahead = self.shadow.line.before(w.place.0);
                        self.shadow.line.remove(w.place.0);
                        ahead
                    }
                    Some(Ticket::Session(_)) | None => self.shadow.line.present,
                };
                let passed = match self.order {
                    Order::Arrival => ahead,
                    Order::Lot => 0,
                };
                assert!(
                    passed < free,
                    "seed {seed}: {passed} present waiters ahead and {free} slots, yet admitted"
                );
                self.shadow.admit(session.visitor, self.now);
                self.findings.admitted += 1;
            }
            Decision::Wait { ticket, view, .. } => {
                assert!(!had_session, "seed {seed}: an active user was queued");
                let ahead = self.shadow.line.before(ticket.place.0);
                let wanted = match self.order {
                    Order::Arrival => ahead,
                    Order::Lot => self.shadow.line.present,
                };
                assert!(
                    wanted >= free,
                    "seed {seed}: {wanted} present waiters for {free} slots, yet queued"
                );
                if ticket.last_check_in == self.now {
                    self.shadow.line.check_in(
                        ticket.place.0,
                        self.now.as_secs(),
                        view.refresh_interval_seconds,
                    );
                }
                let Some(position) = view.position else {
                    assert_eq!(self.order, Order::Lot, "seed {seed}");
                    return;
                };
                // Far back, an absent waiter may count for a moment longer.
                if ahead < EXACT_POSITIONS {
                    assert_eq!(position, ahead + 1, "seed {seed}");
                } else {
                    assert!(position > ahead, "seed {seed}: {position} of {ahead}");
                }
            }
            Decision::Refuse { .. } | Decision::Bypass => {
                panic!("seed {seed}: unexpected {decision:?}")
            }
        }
        let active = self.shadow.sessions.len() as u64;
        let total = u64::from(self.shadow.limits.total_active_users());
        assert!(active <= total, "seed {seed}: {active} active of {total}");
        assert!(
            self.shadow.admissions.len() as u64
                <= u64::from(self.shadow.limits.new_users_per_minute()),
            "seed {seed}: too many in a minute"
        );
        self.findings.peak_waiting = self.findings.peak_waiting.max(self.shadow.line.present);
        if self.findings.steps.is_multiple_of(997) {
            let status = self.room.status(self.now);
            assert_eq!(status.active_users, active, "seed {seed}");
            let present = self.shadow.line.present;
            if present < EXACT_POSITIONS {
                assert_eq!(status.queued_users, present, "seed {seed}");
            }
        }
    }

    /// What the person does next.
    fn follow(&mut self, index: u32, mut person: Person, decision: Decision) {
        let now = self.now.as_u64();
        let next = match decision {
            Decision::Admit {
                session, admission, ..
            } => {
                if admission == Admission::New {
                    self.note_wait(&person);
                    person.mood = Mood::Browsing {
                        requests_left: self.rng.random_range(0..6),
                    };
                }
                person.ticket = Some(Ticket::Session(session));
                match person.mood {
                    Mood::Browsing { requests_left: 0 } | Mood::Gone => {
                        person.mood = Mood::Gone;
                        // A few are logged out by the origin, a few replay their ticket much later.
                        if self.rng.random_ratio(1, 50) {
                            self.room.revoke(self.now, session.visitor);
                            self.shadow.sessions.remove(&session.visitor);
                        }
                        None
                    }
                    Mood::Browsing { requests_left } => {
                        person.mood = Mood::Browsing {
                            requests_left: requests_left - 1,
                        };
                        Some(now + self.rng.random_range(100..200_000))
                    }
                    Mood::Waiting => Some(now + 1_000),
                }
            }
            Decision::Wait { ticket, view, .. } => {
                if person.ticket.is_none() {
                    person.joined_at = self.now;
                    if let WaitTime::Known {
                        percentile_50_minutes,
                        ..
                    } = view.wait_time
                    {
                        person.promised_minutes =
                            u16::try_from(percentile_50_minutes).unwrap_or(u16::MAX);
                    }
                }
                person.ticket = Some(Ticket::Waiting(ticket));
                person.mood = Mood::Waiting;
                let dice = self.rng.random_range(0..1000);
                if dice < 5 {
                    // Gives up without a word.
                    None
                } else if dice < 15 && person.absences_left > 0 {
                    // A phone sleeps, for less than the grace.
                    person.absences_left -= 1;
                    Some(now + self.rng.random_range(0..(GRACE_SECONDS - 1) * 1000))
                } else if dice < 20 {
                    // Reloads impatiently.
                    Some(now + self.rng.random_range(0..2_000))
                } else {
                    let refresh_millis = u64::from(view.refresh_interval_seconds) * 1000;
                    Some(now + refresh_millis + self.rng.random_range(0..1_000))
                }
            }
            Decision::Refuse { .. } | Decision::Bypass => None,
        };
        self.people[index as usize] = person;
        if let Some(at) = next {
            self.agenda.push(Reverse((at, index)));
        }
    }

    fn note_wait(&mut self, person: &Person) {
        if person.promised_minutes == 0 || person.absences_left < 2 {
            return;
        }
        self.findings.waited += 1;
        let waited = self.now.millis_since(person.joined_at) as f64 / 60_000.0;
        self.findings.waits_minutes.push(waited);
        let promised = f64::from(person.promised_minutes);
        self.findings
            .estimate_errors_percent
            .push((promised - waited).abs() / waited.max(1.0) * 100.0);
    }

    fn report(&mut self, name: &str) {
        let findings = &mut self.findings;
        findings.estimate_errors_percent.sort_by(f64::total_cmp);
        let errors = &findings.estimate_errors_percent;
        let at = |part: usize| errors.get(errors.len() * part / 100).copied();
        println!(
            "{name}: seed {}, {} steps, {} admitted, {} of them after waiting, at most {} waiting; \
             estimate error p50 {:.0} %, p90 {:.0} %; {:.2} % of slot time idle while people waited; {:.1} check-ins a waiter",
            self.seed,
            findings.steps,
            findings.admitted,
            findings.waited,
            findings.peak_waiting,
            at(50).unwrap_or(0.0),
            at(90).unwrap_or(0.0),
            100.0 * findings.idle_slot_millis as f64 / findings.slot_millis.max(1) as f64,
            findings.check_ins as f64 / findings.waited.max(1) as f64,
        );
    }
}

fn seed(default: u64) -> u64 {
    std::env::var("GATE_SIM_SEED").map_or(default, |seed| {
        seed.parse().expect("GATE_SIM_SEED must be a whole number")
    })
}

fn settings(total: u32, per_minute: u32, session_minutes: u32) -> Settings {
    Settings {
        session_duration: SessionDuration::from_minutes(session_minutes).unwrap(),
        ..Settings::with_limits(Limits::new(total, per_minute).unwrap())
    }
}

/// A day with a quiet night, a busy day and three rushes.
fn a_day(seed: u64) -> Findings {
    let plan = Plan::new_without_events(settings(400, 120, 3));
    let mut world = World::new(seed, plan, 120_000);
    for minute in 0..24 * 60_u64 {
        let hour = minute / 60;
        let mean = match hour {
            0..6 => 5,
            6..9 | 20..24 => 40,
            9..20 => 90,
            _ => unreachable!(),
        };
        let rush = if matches!(minute, 600..605 | 840..842 | 1140..1150) {
            2_000
        } else {
            0
        };
        for _ in 0..world.rng.random_range(0..2 * mean + 1) + rush {
            let within = world.rng.random_range(0..60_000);
            world.arrive(START.plus_millis(minute * 60_000 + within));
        }
    }
    while world.step() {}
    world.report("a day");
    // Drained: everything is empty once the last session and place have expired.
    let status = world.room.status(world.now.plus_millis(3_600_000));
    assert_eq!(
        (
            status.active_users,
            status.places,
            status.new_users_last_minute
        ),
        (0, 0, 0)
    );
    world.findings
}

#[test]
fn a_simulated_day_keeps_every_guarantee_and_is_the_same_twice() {
    let seed = seed(1);
    let first = a_day(seed);
    let second = a_day(seed);
    assert_eq!(format!("{first:?}"), format!("{second:?}"), "seed {seed}");
    assert!(first.waited > 1_000, "the day was too quiet to show much");
}

#[test]
fn several_seeds_of_a_rush() {
    for seed in [seed(2), 3, 4, 5] {
        let plan = Plan::new_without_events(settings(50, 30, 1));
        let mut world = World::new(seed, plan, 3_000);
        for _ in 0..1_500 {
            let at = world.rng.random_range(0..300_000);
            world.arrive(START.plus_millis(at));
        }
        while world.step() {}
        world.report("a rush");
    }
}

#[test]
fn a_million_visitors_through_one_room() {
    let plan = Plan::new_without_events(settings(500_000, 150_000, 2));
    let mut world = World::new(seed(6), plan, 1_000_000);
    for _ in 0..1_000_000 {
        let at = world.rng.random_range(0..300_000);
        world.arrive(START.plus_millis(at));
    }
    while world.step() {}
    world.report("a million visitors");
    assert!(world.findings.admitted > 900_000);
}

/// The state goes through bytes and back in the middle of a rush, and nobody notices.
#[test]
fn restarts_in_a_rush_change_nothing() {
    let seed = seed(7);
    let plan = Plan::new_without_events(settings(50, 30, 1));
    let mut world = World::new(seed, plan.clone(), 40_000_000);
    for _ in 0..1_000 {
        let at = world.rng.random_range(0..300_000);
        world.arrive(START.plus_millis(at));
    }
    let mut restarts = 0;
    while world.step() {
        if world.findings.steps.is_multiple_of(500) && restarts < 15 {
            let bytes = world.room.snapshot(world.now).encode();
            let saved = SavedRoom::decode(&bytes).unwrap();
            world.room = Room::restore(plan.clone(), seed + restarts, world.now, &saved);
            restarts += 1;
        }
    }
    assert!(restarts > 5, "seed {seed}: only {restarts} restarts");
    world.report("a rush with restarts");
}

/// An event changes the limits for an hour; both sets of limits hold in their time.
#[test]
fn an_event_changes_the_limits_while_it_lasts() {
    let seed = seed(8);
    let overrides = Overrides {
        limits: Some(Limits::new(30, 10).unwrap()),
        ..Overrides::default()
    };
    let (from, to) = (START.plus_millis(600_000), START.plus_millis(1_200_000));
    let event = Event::new(
        from,
        to,
        None,
        PrequeueOrder::Arrival,
        Operation::Running,
        overrides,
    )
    .unwrap();
    let plan = Plan::new(settings(30, 30, 1), vec![event]).unwrap();
    let mut world = World::new(seed, plan, 2_000);
    for _ in 0..800 {
        let at = world.rng.random_range(0..1_800_000);
        world.arrive(START.plus_millis(at));
    }
    while let Some(&Reverse((at, _))) = world.agenda.peek() {
        let at = Millis::new(at).max(world.now);
        // The admissions of the minute before may exceed a lower limit; they only leave no slot.
        let per_minute = if from <= at && at < to { 10 } else { 30 };
        world.room.status(at);
        world.now = at;
        world.shadow.advance(at);
        if world.shadow.admissions.len() <= per_minute as usize {
            world.shadow.limits = Limits::new(30, per_minute).unwrap();
        } else {
            let Some(Reverse((_, index))) = world.agenda.pop() else {
                break;
            };
            // Nobody asks until the minute's admissions fit the lower limit again.
            world.agenda.push(Reverse((at.as_u64() + 1_000, index)));
            continue;
        }
        world.step();
    }
    world.report("an event");
}

/// Half an hour of more people than fit, with this room.
fn a_crowd(name: &str, settings: Settings, seed: u64) -> Findings {
    let mut world = World::new(seed, Plan::new_without_events(settings), 20_000);
    for _ in 0..12_000 {
        let at = world.rng.random_range(0..1_800_000);
        world.arrive(START.plus_millis(at));
    }
    while world.step() {}
    world.report(name);
    world.findings
}

/// Sooner at the head, later far back: slots idle less and far fewer requests come in.
#[test]
fn an_adaptive_interval_saves_slots_and_requests() {
    let seed = seed(9);
    let fixed = settings(600, 200, 3);
    let adaptive = Settings {
        refresh_interval: RefreshInterval::ADAPTIVE_DEFAULT,
        ..fixed
    };
    let fixed = a_crowd("refresh every 20 s", fixed, seed);
    let adaptive = a_crowd("adaptive refresh", adaptive, seed);
    let idle = |f: &Findings| f.idle_slot_millis as f64 / f.slot_millis as f64;
    let load = |f: &Findings| f.check_ins as f64 / f.waited as f64;
    assert!(idle(&adaptive) < idle(&fixed), "seed {seed}");
    assert!(load(&adaptive) < load(&fixed), "seed {seed}");
}

/// By lot the limits hold just the same, slots are filled, and nobody's wait is without end.
#[test]
fn a_lottery_keeps_the_limits_and_fills_its_slots() {
    let seed = seed(10);
    let by_lot = Settings {
        queueing_method: QueueingMethod::Random,
        ..settings(600, 200, 3)
    };
    let found = a_crowd("by lot", by_lot, seed);
    let in_order = a_crowd("in order", settings(600, 200, 3), seed);
    let spread = |f: &Findings| {
        let mut waits = f.waits_minutes.clone();
        waits.sort_by(f64::total_cmp);
        waits[waits.len() * 9 / 10] - waits[waits.len() / 10]
    };
    assert!(
        spread(&found) > spread(&in_order),
        "seed {seed}: a lot is not an order"
    );
    let idle = found.idle_slot_millis as f64 / found.slot_millis as f64;
    assert!(idle < 0.2, "seed {seed}: {idle}");
}

/// Smooth pacing spreads a minute's budget: no second sees more than its share and one.
#[test]
fn smooth_pacing_admits_evenly() {
    let seed = seed(11);
    let smooth = Settings {
        admission_pacing: AdmissionPacing::Smooth,
        ..settings(600, 300, 3)
    };
    let mut room = Room::new(Plan::new_without_events(smooth), seed, START);
    let mut per_second = [0_u32; 120];
    for milli in (0..120_000_u64).step_by(20) {
        let decision = room.check_in(START.plus_millis(milli), None);
        if matches!(decision, Decision::Admit { .. }) {
            per_second[(milli / 1000) as usize] += 1;
        }
        if let Decision::Wait { ticket, .. } = decision {
            room.leave(START.plus_millis(milli), Ticket::Waiting(ticket));
        }
    }
    // The first second of a minute has a saved-up share as well, which the rolling minute takes back at its end.
    assert!(
        per_second.iter().all(|count| *count <= 10),
        "{per_second:?}"
    );
    assert!(
        per_second[1..58]
            .iter()
            .all(|count| (4..=6).contains(count)),
        "{per_second:?}"
    );
    assert_eq!(per_second[..60].iter().sum::<u32>(), 300);
}
