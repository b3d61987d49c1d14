//! What a room costs: bytes a waiter and bytes a session, counted at the allocator.
#![allow(
    clippy::unwrap_used,
    reason = "a failed step is a failed test, helpers included"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use gate::room::{Decision, Limits, Millis, Plan, QueueAll, Room, Settings, Ticket};

/// Counts bytes in use and the most there ever were.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let in_use = IN_USE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(in_use, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const START: Millis = Millis::new(1_750_000_000_000);

fn settings(total: u32) -> Settings {
    Settings::with_limits(Limits::new(total, total).unwrap())
}

/// Bytes at the peak of `fill` above those before it.
fn peak_bytes<T>(fill: impl FnOnce() -> T) -> (usize, T) {
    let before = IN_USE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let filled = fill();
    (PEAK.load(Ordering::Relaxed) - before, filled)
}

/// One test, so that nothing else allocates meanwhile.
#[test]
fn waiters_and_sessions_stay_within_their_bytes() {
    for waiters in [1_000_000_u32, 10_000_000] {
        let (bytes, mut room) = peak_bytes(|| {
            let closed = Settings {
                queue_all: QueueAll::NewUsers,
                ..settings(1)
            };
            let mut room = Room::new(Plan::new_without_events(closed), 1, START);
            for _ in 0..waiters {
                room.check_in(START, None);
            }
            room
        });
        let each = bytes as f64 / f64::from(waiters);
        println!("{waiters} waiters: {bytes} bytes at the peak, {each:.2} each");
        assert!(each <= 8.0, "{each}");
        assert!(bytes <= 100_000_000, "{bytes}");
        assert_eq!(room.status(START).queued_users, u64::from(waiters));
    }

    for sessions in [1_000_000_u32, 1_900_000] {
        let (bytes, mut room) = peak_bytes(|| {
            let plan = Plan::new_without_events(settings(sessions));
            let mut room = Room::new(plan, 1, START);
            for _ in 0..sessions {
                room.check_in(START, None);
            }
            room
        });
        let each = bytes as f64 / f64::from(sessions);
        println!("{sessions} sessions: {bytes} bytes at the peak, {each:.2} each");
        assert!(each <= 64.0, "{each}");
        assert_eq!(room.status(START).active_users, u64::from(sessions));
    }

    // A snapshot of a busy room shares its memory: what it adds is what changes while it is held.
    let mut room = Room::new(Plan::new_without_events(settings(100_000)), 1, START);
    let mut tickets: Vec<Ticket> = Vec::new();
    for _ in 0..300_000 {
        match room.check_in(START, None) {
            Decision::Admit { session, .. } => tickets.push(Ticket::Session(session)),
            Decision::Wait { .. } => {}
            other @ (Decision::Refuse { .. } | Decision::Bypass) => panic!("{other:?}"),
        }
    }
    let (bytes, snapshot) = peak_bytes(|| room.snapshot(START));
    println!("a snapshot of 100,000 sessions and 200,000 waiters: {bytes} bytes");
    assert!(bytes < 100_000, "{bytes}");
    drop(snapshot);

    // Idle again: what the rush took is given back, the index of sessions aside.
    let later = START.plus_millis(24 * 3_600_000);
    room.status(later);
    room.check_in(later, None);
    drop(tickets);
    let status = room.status(later);
    assert_eq!((status.active_users, status.places), (1, 0));
}
