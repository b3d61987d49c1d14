//! What a room decides, case by case, through its public face.
#![allow(
    clippy::unwrap_used,
    reason = "a failed step is a failed test, helpers included"
)]

use gate::room::{
    Admission, Decision, Event, EventPhase, Limits, Millis, Operation, Overrides, Plan,
    PrequeueOrder, QueueAll, QueueingMethod, Room, SavedRoom, SessionDuration, SessionRenewal,
    Settings, Ticket, WaitTime, WaitView,
};

const START: Millis = Millis::new(1_750_000_000_000);

fn settings(total: u32, per_minute: u32) -> Settings {
    Settings::with_limits(Limits::new(total, per_minute).unwrap())
}

fn room(settings: Settings) -> Room {
    Room::new(Plan::new_without_events(settings), 7, START)
}

fn after(seconds: u64) -> Millis {
    START.plus_millis(seconds * 1000)
}

fn ticket(decision: Decision) -> Ticket {
    match decision {
        Decision::Admit { session, .. } => Ticket::Session(session),
        Decision::Wait { ticket, .. } => Ticket::Waiting(ticket),
        Decision::Refuse { .. } | Decision::Bypass => panic!("no ticket: {decision:?}"),
    }
}

fn view(decision: Decision) -> WaitView {
    match decision {
        Decision::Wait { view, .. } | Decision::Refuse { view } => view,
        Decision::Admit { .. } | Decision::Bypass => panic!("no view: {decision:?}"),
    }
}

fn position(decision: Decision) -> u64 {
    view(decision).position.unwrap()
}

fn is_new(decision: &Decision) -> bool {
    matches!(
        decision,
        Decision::Admit {
            admission: Admission::New,
            ..
        }
    )
}

/// Five are in, three wait.
fn five_in_three_wait(room: &mut Room) -> (Vec<Ticket>, Vec<Ticket>) {
    let inside: Vec<Ticket> = (0..5)
        .map(|_| {
            let decision = room.check_in(START, None);
            assert!(is_new(&decision));
            ticket(decision)
        })
        .collect();
    let waiting = (1..=3)
        .map(|expected| {
            let decision = room.check_in(START, None);
            assert_eq!(position(decision), expected);
            ticket(decision)
        })
        .collect();
    (inside, waiting)
}

#[test]
fn of_eight_at_once_five_enter_and_three_wait_in_order() {
    let mut room = room(settings(5, 5));
    five_in_three_wait(&mut room);
    let status = room.status(START);
    assert_eq!((status.active_users, status.queued_users), (5, 3));
    assert_eq!(status.new_users_last_minute, 5);
}

#[test]
fn a_freed_slot_goes_to_the_head_and_to_nobody_else() {
    let mut room = room(settings(5, 5));
    let (inside, waiting) = five_in_three_wait(&mut room);
    // Out of the rate window of the first five, with everybody still here.
    for seconds in [20, 40, 61] {
        for t in inside.iter().chain(&waiting) {
            let decision = room.check_in(after(seconds), Some(*t));
            assert!(!is_new(&decision), "{decision:?} after {seconds} s");
        }
    }
    let Ticket::Session(leaver) = inside[2] else {
        unreachable!()
    };
    assert!(room.revoke(after(62), leaver.visitor));
    assert_eq!(position(room.check_in(after(62), Some(waiting[1]))), 2);
    assert_eq!(position(room.check_in(after(62), Some(waiting[2]))), 3);
    assert_eq!(position(room.check_in(after(62), None)), 4);
    assert!(is_new(&room.check_in(after(63), Some(waiting[0]))));
    assert_eq!(position(room.check_in(after(63), Some(waiting[1]))), 1);
}

#[test]
fn the_rate_holds_in_every_rolling_minute() {
    let mut room = room(settings(100, 2));
    assert!(is_new(&room.check_in(START, None)));
    assert!(is_new(&room.check_in(after(59), None)));
    let waiter = ticket(room.check_in(after(59), None));
    assert_eq!(
        position(room.check_in(START.plus_millis(60_000), Some(waiter))),
        1
    );
    assert!(is_new(
        &room.check_in(START.plus_millis(60_001), Some(waiter))
    ));
    // The next slot of the rate is that of second 59.
    assert_eq!(position(room.check_in(after(100), None)), 1);
}

#[test]
fn replaying_a_waiting_ticket_changes_nothing() {
    let mut room = room(settings(5, 5));
    let (_, waiting) = five_in_three_wait(&mut room);
    let before = room.status(START);
    for _ in 0..1000 {
        assert_eq!(position(room.check_in(START, Some(waiting[1]))), 2);
    }
    assert_eq!(room.status(START), before);
}

#[test]
fn replaying_the_ticket_of_one_admitted_gives_the_same_session() {
    let mut room = room(settings(5, 5));
    let (inside, waiting) = five_in_three_wait(&mut room);
    let Ticket::Session(leaver) = inside[0] else {
        unreachable!()
    };
    room.revoke(after(61), leaver.visitor);
    assert!(is_new(&room.check_in(after(61), Some(waiting[0]))));
    for _ in 0..1000 {
        let decision = room.check_in(after(61), Some(waiting[0]));
        assert!(matches!(
            decision,
            Decision::Admit {
                admission: Admission::Renewed,
                ..
            }
        ));
    }
    let status = room.status(after(61));
    assert_eq!((status.active_users, status.places), (5, 2));
    assert_eq!(status.admitted_total, 6);
}

#[test]
fn replaying_a_dead_ticket_takes_one_place() {
    let mut room = room(settings(5, 5));
    let (inside, _) = five_in_three_wait(&mut room);
    let Ticket::Session(leaver) = inside[0] else {
        unreachable!()
    };
    room.revoke(START, leaver.visitor);
    for _ in 0..100 {
        assert_eq!(position(room.check_in(START, Some(inside[0]))), 4);
    }
    assert_eq!(room.status(START).places, 4);
}

#[test]
fn an_expired_session_replayed_into_a_free_room_is_one_session() {
    let mut room = room(settings(5, 5));
    let old = ticket(room.check_in(START, None));
    for _ in 0..100 {
        ticket(room.check_in(after(400), Some(old)));
    }
    assert_eq!(room.status(after(400)).active_users, 1);
}

#[test]
fn an_absent_waiter_stalls_nobody_and_has_its_place_back() {
    let mut room = room(settings(1, 1));
    let inside = ticket(room.check_in(START, None));
    let first = ticket(room.check_in(START, None));
    let second = ticket(room.check_in(START, None));
    for seconds in [20, 40, 60, 80] {
        room.check_in(after(seconds), Some(inside));
        room.check_in(after(seconds), Some(second));
    }
    // The first has been silent for more than 50 seconds.
    assert_eq!(position(room.check_in(after(81), Some(second))), 1);
    assert_eq!(position(room.check_in(after(82), Some(first))), 1);
    assert_eq!(position(room.check_in(after(100), Some(second))), 2);
    let Ticket::Session(leaver) = inside else {
        unreachable!()
    };
    room.revoke(after(101), leaver.visitor);
    assert_eq!(position(room.check_in(after(102), Some(second))), 2);
    assert!(is_new(&room.check_in(after(102), Some(first))));
}

#[test]
fn a_place_is_lost_after_the_grace_and_not_before() {
    let mut room = room(settings(1, 1));
    let inside = ticket(room.check_in(START, None));
    let first = ticket(room.check_in(START, None));
    let second = ticket(room.check_in(START, None));
    for seconds in (20..=400).step_by(20) {
        room.check_in(after(seconds), Some(inside));
        room.check_in(after(seconds), Some(second));
        if seconds == 280 {
            assert_eq!(position(room.check_in(after(299), Some(first))), 1);
        }
    }
    assert_eq!(room.status(after(598)).places, 2);
    assert_eq!(room.status(after(599)).places, 1);
    // Whoever comes later still stands behind all.
    assert_eq!(position(room.check_in(after(600), Some(second))), 1);
    assert_eq!(position(room.check_in(after(600), Some(first))), 2);
}

#[test]
fn renewal_prolongs_and_its_absence_does_not() {
    for (session_renewal, alive_after_400) in [
        (SessionRenewal::EachRequest, 1),
        (SessionRenewal::Disabled, 0),
    ] {
        let mut room = room(Settings {
            session_renewal,
            ..settings(1, 1)
        });
        let inside = ticket(room.check_in(START, None));
        room.check_in(after(200), Some(inside));
        assert_eq!(room.status(after(299)).active_users, 1);
        assert_eq!(room.status(after(400)).active_users, alive_after_400);
    }
}

#[test]
fn queue_all_holds_newcomers_and_keeps_active_users() {
    let mut room = room(settings(10, 10));
    let inside = ticket(room.check_in(START, None));
    let closed = Settings {
        queue_all: QueueAll::NewUsers,
        queueing_method: QueueingMethod::Passthrough,
        ..settings(10, 10)
    };
    room.reconfigure(START, Plan::new_without_events(closed));
    let held = room.check_in(START, None);
    assert!(view(held).queue_all);
    assert_eq!(view(held).wait_time, WaitTime::Unknown);
    assert!(matches!(
        room.check_in(START, Some(inside)),
        Decision::Admit { .. }
    ));
    let recalled = Settings {
        queue_all: QueueAll::Everyone,
        ..closed
    };
    room.reconfigure(START, Plan::new_without_events(recalled));
    for _ in 0..3 {
        assert!(matches!(
            room.check_in(START, Some(inside)),
            Decision::Wait { .. }
        ));
    }
    assert_eq!(room.status(START).active_users, 0);
    assert_eq!(room.status(START).places, 2);
}

#[test]
fn reject_refuses_without_refresh_and_passthrough_lets_everyone_in() {
    let mut room = room(Settings {
        queueing_method: QueueingMethod::Reject,
        ..settings(1, 1)
    });
    let refused = room.check_in(START, None);
    assert!(matches!(refused, Decision::Refuse { .. }));
    assert_eq!(view(refused).refresh_interval_seconds, 0);
    let open = Settings {
        queueing_method: QueueingMethod::Passthrough,
        ..settings(1, 1)
    };
    room.reconfigure(START, Plan::new_without_events(open));
    for _ in 0..10 {
        assert!(is_new(&room.check_in(START, None)));
    }
    assert_eq!(room.status(START).active_users, 10);
}

#[test]
fn a_suspended_room_is_not_there() {
    let mut room = room(Settings {
        operation: Operation::Suspended,
        ..settings(1, 1)
    });
    assert_eq!(room.check_in(START, None), Decision::Bypass);
}

#[test]
fn observers_take_no_place() {
    let mut room = room(settings(1, 1));
    room.check_in(START, None);
    for _ in 0..10 {
        assert!(matches!(room.observe(START, None), Decision::Refuse { .. }));
    }
    assert_eq!(room.status(START).places, 0);
}

#[test]
fn a_full_line_takes_nobody_more_and_keeps_everybody() {
    let mut room = room(Settings {
        waiters_max: 2,
        ..settings(1, 1)
    });
    room.check_in(START, None);
    let first = ticket(room.check_in(START, None));
    room.check_in(START, None);
    let refused = room.check_in(START, None);
    assert!(matches!(refused, Decision::Refuse { .. }));
    assert!(view(refused).queue_is_full);
    assert_eq!(position(room.check_in(START, Some(first))), 1);
}

#[test]
fn switching_to_random_and_back_keeps_places() {
    let mut room = room(settings(1, 1));
    room.check_in(START, None);
    let waiting: Vec<Ticket> = (0..5).map(|_| ticket(room.check_in(START, None))).collect();
    let random = Settings {
        queueing_method: QueueingMethod::Random,
        ..settings(1, 1)
    };
    room.reconfigure(START, Plan::new_without_events(random));
    assert_eq!(view(room.check_in(START, Some(waiting[3]))).position, None);
    room.reconfigure(START, Plan::new_without_events(settings(1, 1)));
    for (index, ticket) in waiting.iter().enumerate() {
        assert_eq!(
            position(room.check_in(START, Some(*ticket))),
            index as u64 + 1
        );
    }
}

#[test]
fn a_lottery_fills_free_slots_and_favours_those_who_wait() {
    let random = Settings {
        queueing_method: QueueingMethod::Random,
        ..settings(100, 100)
    };
    let mut room = room(Settings {
        queue_all: QueueAll::NewUsers,
        ..random
    });
    let mut waiting: Vec<Ticket> = (0..1000)
        .map(|_| ticket(room.check_in(START, None)))
        .collect();
    room.reconfigure(START, Plan::new_without_events(random));
    // Asking again at once is no draw.
    for t in &waiting {
        assert!(!is_new(&room.check_in(START, Some(*t))));
    }
    let mut admitted = Vec::new();
    for (index, t) in waiting.iter_mut().enumerate() {
        let decision = room.check_in(after(20), Some(*t));
        if is_new(&decision) {
            admitted.push(index);
        }
        *t = ticket(decision);
    }
    assert!((90..=100).contains(&admitted.len()), "{}", admitted.len());
    // By lot, not by order.
    assert!(admitted.iter().any(|index| *index > 200));
}

fn event(shuffle: PrequeueOrder, overrides: Overrides) -> Event {
    Event::new(
        after(600),
        after(1200),
        Some(after(300)),
        shuffle,
        Operation::Running,
        overrides,
    )
    .unwrap()
}

fn plan_with(event: Event) -> Plan {
    Plan::new(settings(3, 3), vec![event]).unwrap()
}

#[test]
fn a_prequeue_gathers_and_its_event_admits_in_order() {
    let overrides = Overrides {
        limits: Some(Limits::new(2, 2).unwrap()),
        ..Overrides::default()
    };
    let mut room = Room::new(
        plan_with(event(PrequeueOrder::Arrival, overrides)),
        7,
        START,
    );
    assert!(is_new(&room.check_in(after(299), None)));
    let waiting: Vec<Ticket> = (0..3)
        .map(|_| ticket(room.check_in(after(300), None)))
        .collect();
    let told = view(room.check_in(after(320), Some(waiting[1])));
    assert_eq!(told.position, Some(2));
    assert_eq!(told.wait_time, WaitTime::Unknown);
    assert_eq!(
        told.event,
        EventPhase::Prequeueing {
            starts_at: after(600),
            ends_at: after(1200),
            shuffle_at_event_start: false
        }
    );
    for t in &waiting {
        room.check_in(after(590), Some(*t));
    }
    // The one inside has left meanwhile: two slots of the event, in order.
    assert_eq!(position(room.check_in(after(600), Some(waiting[2]))), 3);
    assert!(is_new(&room.check_in(after(600), Some(waiting[1]))));
    assert!(is_new(&room.check_in(after(600), Some(waiting[0]))));
}

#[test]
fn a_shuffled_prequeue_is_permuted_at_the_start_and_later_arrivals_stand_behind() {
    let shuffled = event(PrequeueOrder::Shuffled, Overrides::default());
    let mut room = Room::new(plan_with(shuffled), 7, START);
    let waiting: Vec<Ticket> = (0..200)
        .map(|_| {
            let decision = room.check_in(after(590), None);
            assert_eq!(view(decision).position, None);
            ticket(decision)
        })
        .collect();
    for _ in 0..3 {
        room.check_in(after(590), None);
    }
    let late = ticket(room.check_in(after(601), None));
    // The first round fills the slots; from then on positions stand still.
    for t in &waiting {
        room.check_in(after(601), Some(*t));
    }
    let mut positions: Vec<u64> = waiting
        .iter()
        .filter_map(|t| match room.check_in(after(601), Some(*t)) {
            Decision::Wait { view, .. } => view.position,
            Decision::Admit { .. } => None,
            other @ (Decision::Refuse { .. } | Decision::Bypass) => panic!("{other:?}"),
        })
        .collect();
    assert!(!positions.is_sorted());
    let last = positions.iter().copied().max().unwrap();
    positions.sort_unstable();
    positions.dedup();
    assert!(positions.len() >= 197, "{}", positions.len());
    assert!(position(room.check_in(after(601), Some(late))) >= last);
}

#[test]
fn a_restart_forgets_neither_sessions_nor_the_line() {
    let mut before = room(settings(5, 5));
    let (inside, waiting) = five_in_three_wait(&mut before);
    let bytes = before.snapshot(after(1)).encode();
    let saved = SavedRoom::decode(&bytes).unwrap();
    let mut room = Room::restore(before.plan().clone(), 7, after(5), &saved);
    for t in &inside {
        assert!(matches!(
            room.check_in(after(6), Some(*t)),
            Decision::Admit {
                admission: Admission::Renewed,
                ..
            }
        ));
    }
    for (index, t) in waiting.iter().enumerate() {
        assert_eq!(
            position(room.check_in(after(6), Some(*t))),
            index as u64 + 1
        );
    }
    assert_eq!(position(room.check_in(after(6), None)), 4);
    assert_eq!(room.status(after(6)).admitted_total, 5);
}

#[test]
fn tickets_given_after_the_last_snapshot_are_believed_once() {
    let mut before = room(settings(2, 2));
    ticket(before.check_in(START, None));
    let saved = SavedRoom::decode(&before.snapshot(START).encode()).unwrap();
    let inside = ticket(before.check_in(after(1), None));
    let waiting: Vec<Ticket> = (0..2)
        .map(|_| ticket(before.check_in(after(1), None)))
        .collect();
    let mut room = Room::restore(before.plan().clone(), 7, after(2), &saved);
    let newcomer = ticket(room.check_in(after(70), None));
    assert!(matches!(newcomer, Ticket::Session(_)));
    let mut room = Room::restore(before.plan().clone(), 7, after(2), &saved);
    assert!(matches!(
        room.check_in(after(3), Some(inside)),
        Decision::Admit { .. }
    ));
    assert_eq!(position(room.check_in(after(3), Some(waiting[1]))), 1);
    assert_eq!(position(room.check_in(after(3), Some(waiting[0]))), 1);
    assert_eq!(position(room.check_in(after(3), None)), 3);
    let Ticket::Session(session) = inside else {
        unreachable!()
    };
    assert!(room.revoke(after(4), session.visitor));
    assert!(matches!(
        room.check_in(after(4), Some(inside)),
        Decision::Wait { .. }
    ));
}

#[test]
fn damaged_state_is_an_error_and_never_a_panic() {
    let mut before = room(settings(5, 5));
    five_in_three_wait(&mut before);
    let bytes = before.snapshot(after(1)).encode();
    for length in 0..bytes.len() {
        assert!(SavedRoom::decode(&bytes[..length]).is_err());
    }
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            // Without a checksum some damage reads as other state; none may panic.
            if let Ok(saved) = SavedRoom::decode(&damaged) {
                let mut room = Room::restore(before.plan().clone(), 7, after(5), &saved);
                room.check_in(after(6), None);
            }
        }
    }
}

#[test]
fn time_that_goes_back_stands_still() {
    let mut room = room(settings(1, 1));
    room.check_in(after(100), None);
    for back in [99, 50, 0] {
        assert!(matches!(
            room.check_in(after(back), None),
            Decision::Wait { .. }
        ));
    }
    room.check_in(Millis::ZERO, None);
    room.check_in(Millis::new(u64::MAX), None);
    room.check_in(after(100), None);
}

#[test]
fn a_session_outlives_a_shortened_duration_only_as_long_as_promised() {
    let mut room = room(settings(1, 1));
    let inside = ticket(room.check_in(START, None));
    let short = Settings {
        session_duration: SessionDuration::from_minutes(1).unwrap(),
        ..settings(1, 1)
    };
    room.reconfigure(START, Plan::new_without_events(short));
    room.check_in(after(10), Some(inside));
    assert_eq!(room.status(after(299)).active_users, 1);
    assert_eq!(room.status(after(301)).active_users, 0);
}
