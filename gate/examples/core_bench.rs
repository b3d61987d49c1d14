//! What a decision and a ticket cost, without sockets. Prints one JSON object per line and measurement:
//! `{"case":…,"round":…,"figure":…,"value":…}`; `cargo xtask bench --suite core` runs it and makes a table.
//!
//! Arguments: what to measure (`time`, `session-bytes` or `waiter-bytes`; memory wants a process of its own), the round's
//! number, and how many operations to time.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "measures real time and prints what it measured"
)]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use gate::room::{
    Decision, Limits, Millis, Place, Plan, RefreshInterval, Room, SessionDuration, Settings,
    Ticket, VisitorId, Waiting,
};
use gate::ticket::{Binding, Keyring, Scope, SealedTicket, TicketBox};
use parking_lot::Mutex;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const START: Millis = Millis::new(1_800_000_000_000);
/// Check-ins of one room in a simulated second: what one core is to carry.
const CHECK_INS_PER_SECOND: u64 = 50_000;
const MILLION: u64 = 1_000_000;
const ROOMS: u64 = 1000;

/// Prints measurements of one round.
#[derive(Clone, Copy)]
struct Round {
    number: u32,
    operations: u64,
}

impl Round {
    fn report(self, case: &str, figure: &str, value: f64) {
        let number = self.number;
        println!(r#"{{"case":"{case}","round":{number},"figure":"{figure}","value":{value:.3}}}"#);
    }

    /// Nanoseconds of one of `operations` calls.
    fn time(self, case: &str, mut operation: impl FnMut(u64)) {
        for index in 0..self.operations / 10 {
            operation(index);
        }
        let begun = Instant::now();
        for index in 0..self.operations {
            operation(index);
        }
        let nanoseconds = begun.elapsed().as_nanos() as f64;
        self.report(case, "nanoseconds", nanoseconds / self.operations as f64);
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, number, operations] = arguments.as_slice() else {
        bail!("usage: core_bench time|session-bytes|waiter-bytes ROUND OPERATIONS");
    };
    let round = Round {
        number: number.parse()?,
        operations: operations.parse()?,
    };
    match what.as_str() {
        "time" => time(round),
        "session-bytes" => session_bytes(round),
        "waiter-bytes" => waiter_bytes(round),
        other => bail!("cannot measure {other:?}"),
    }
}

fn time(round: Round) -> Result<()> {
    tickets(round)?;
    for (sessions, name) in [(1000, "1k"), (MILLION, "1M")] {
        admitted(round, sessions, name)?;
    }
    for (waiters, name) in [(1000, "1k"), (MILLION, "1M"), (10 * MILLION, "10M")] {
        waiting(round, waiters, name)?;
    }
    many_rooms(round)?;
    across_cores(round)
}

fn session_bytes(round: Round) -> Result<()> {
    let before = resident_bytes();
    let mut room = room(MILLION)?;
    for _ in 0..MILLION {
        black_box(room.check_in(START, None));
    }
    let bytes = resident_bytes().saturating_sub(before);
    round.report("session-1M", "bytes", bytes as f64 / MILLION as f64);
    Ok(())
}

fn waiter_bytes(round: Round) -> Result<()> {
    let waiters = 10 * MILLION;
    let before = resident_bytes();
    let room = full_room(waiters)?;
    let bytes = resident_bytes().saturating_sub(before);
    round.report("waiter-10M", "bytes", bytes as f64 / waiters as f64);
    drop(room);
    Ok(())
}

fn room(users: u64) -> Result<Room> {
    let users = u32::try_from(users)?;
    let mut settings = Settings::with_limits(Limits::new(users, users)?);
    settings.session_duration =
        SessionDuration::from_minutes(60).context("an hour is a session")?;
    settings.waiters_max = u32::MAX;
    // One second, so that every check-in counts.
    settings.refresh_interval = RefreshInterval::Fixed {
        seconds: NonZeroU32::MIN,
    };
    settings.queue_place_grace_seconds = 7200;
    Ok(Room::new(Plan::new_without_events(settings), 1, START))
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Every index below `count` once in `count` calls, far from each other.
fn scattered(index: u64, count: u64) -> u64 {
    // A prime beyond every count, so coprime to it.
    (index.wrapping_mul(1_000_000_007)) % count
}

fn full_room(waiters: u64) -> Result<Room> {
    let mut room = room(1)?;
    room.check_in(START, None);
    for _ in 0..waiters {
        black_box(room.check_in(START, None));
    }
    Ok(room)
}

/// The line keeps places, not visitors, so any visitor may come with a place.
fn waiter(place: u64, last_check_in: Millis) -> Ticket {
    Ticket::Waiting(Waiting {
        visitor: VisitorId(place ^ 0x9e37_79b9_7f4a_7c15),
        place: Place(place),
        joined_at: START,
        last_check_in,
    })
}

fn seal_again(tickets: &mut TicketBox, scope: &Scope, decision: &Decision) -> Option<SealedTicket> {
    let ticket = match decision {
        Decision::Admit { session, .. } => Ticket::Session(*session),
        Decision::Wait { ticket, .. } => Ticket::Waiting(*ticket),
        Decision::Refuse { .. } | Decision::Bypass => return None,
    };
    Some(tickets.seal(scope, Binding::NONE, &ticket))
}

fn scope() -> Result<Scope> {
    Scope::new("room", "__waitingroom").context("short names are a scope")
}

fn tickets(round: Round) -> Result<()> {
    let mut tickets = TicketBox::new(Arc::new(Keyring::ephemeral()?)).context("no randomness")?;
    let scope = scope()?;
    let sealed: Vec<SealedTicket> = (0..1024)
        .map(|place| tickets.seal(&scope, Binding::NONE, &waiter(place, START)))
        .collect();
    round.time("ticket-seal", |index| {
        black_box(tickets.seal(&scope, Binding::NONE, &waiter(index, START)));
    });
    round.time("ticket-open", |index| {
        let text = sealed[index as usize % sealed.len()].as_bytes();
        black_box(tickets.open(&scope, Binding::NONE, black_box(text)));
    });
    Ok(())
}

fn admitted(round: Round, sessions: u64, name: &str) -> Result<()> {
    let mut visitors = Vec::with_capacity(usize::try_from(sessions)?);
    let mut room = room(sessions)?;
    for _ in 0..sessions {
        if let Decision::Admit { session, .. } = room.check_in(START, None) {
            visitors.push(Some(Ticket::Session(session)));
        }
    }
    round.time(&format!("decide-admitted-{name}"), |index| {
        let now = START.plus_millis(index * 1000 / CHECK_INS_PER_SECOND);
        let ticket = visitors[scattered(index, sessions) as usize];
        black_box(room.check_in(now, ticket));
    });
    Ok(())
}

fn waiting(round: Round, waiters: u64, name: &str) -> Result<()> {
    let mut room = full_room(waiters)?;
    round.time(&format!("decide-waiting-{name}"), |index| {
        let now = START.plus_millis(index * 1000 / CHECK_INS_PER_SECOND);
        let ticket = waiter(scattered(index, waiters), START);
        black_box(room.check_in(now, Some(ticket)));
    });
    if waiters == MILLION {
        let mut tickets =
            TicketBox::new(Arc::new(Keyring::ephemeral()?)).context("no randomness")?;
        let scope = scope()?;
        let sealed: Vec<SealedTicket> = (0..100_000)
            .map(|index| {
                tickets.seal(
                    &scope,
                    Binding::NONE,
                    &waiter(scattered(index, waiters), START),
                )
            })
            .collect();
        let late = START.plus_millis(60_000);
        round.time(&format!("open-decide-seal-waiting-{name}"), |index| {
            let now = late.plus_millis(index * 1000 / CHECK_INS_PER_SECOND);
            let text = sealed[index as usize % sealed.len()].as_bytes();
            let ticket = tickets.open(&scope, Binding::NONE, text);
            let decision = room.check_in(now, ticket);
            black_box(seal_again(&mut tickets, &scope, &decision));
        });
        let later = START.plus_millis(120_000);
        round.time(&format!("decide-newcomer-{name}"), |index| {
            let now = later.plus_millis(index * 1000 / CHECK_INS_PER_SECOND);
            black_box(room.check_in(now, None));
        });
    }
    Ok(())
}

fn many_rooms(round: Round) -> Result<()> {
    let mut rooms = (0..ROOMS)
        .map(|_| full_room(1000))
        .collect::<Result<Vec<Room>>>()?;
    round.time("decide-waiting-1k-in-1000-rooms", |index| {
        let now = START.plus_millis(index * 1000 / CHECK_INS_PER_SECOND);
        let ticket = waiter(index / ROOMS % 1000, START);
        let room = &mut rooms[scattered(index, ROOMS) as usize];
        black_box(room.check_in(now, Some(ticket)));
    });
    Ok(())
}

/// Open, decide and seal in as many threads as there are cores, all in one room.
fn across_cores(round: Round) -> Result<()> {
    let cores = thread::available_parallelism()?.get();
    let ring = Arc::new(Keyring::ephemeral()?);
    for threads in [1, cores] {
        let room = Mutex::new(full_room(MILLION)?);
        let begun = Instant::now();
        thread::scope(|running| -> Result<()> {
            for thread in 0..threads as u64 {
                let mut tickets = TicketBox::new(Arc::clone(&ring)).context("no randomness")?;
                let scope = scope()?;
                let room = &room;
                running.spawn(move || {
                    let sealed = tickets.seal(&scope, Binding::NONE, &waiter(thread, START));
                    for index in 0..round.operations {
                        let now = START.plus_millis(index * 1000 / CHECK_INS_PER_SECOND);
                        black_box(tickets.open(&scope, Binding::NONE, sealed.as_bytes()));
                        let place = scattered(index * threads as u64 + thread, MILLION);
                        let decision = room.lock().check_in(now, Some(waiter(place, START)));
                        black_box(seal_again(&mut tickets, &scope, &decision));
                    }
                });
            }
            Ok(())
        })?;
        let elapsed: Duration = begun.elapsed();
        let decisions = round.operations * threads as u64;
        round.report(
            &format!("open-decide-seal-in-{threads}-threads"),
            "decisions_per_second",
            decisions as f64 / elapsed.as_secs_f64(),
        );
    }
    Ok(())
}
