//! The demo's two rooms: one that fills and stays full, one whose line moves every few seconds. Data only.

use std::time::Duration;

/// One room, as configured and as played.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Its place in [`ROOMS`].
    pub(super) index: usize,
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    /// The page by which a visitor leaves: the shop tells the gate to end the session.
    pub(super) leave: &'static str,
    pub(super) title: &'static str,
    pub(super) welcome: &'static str,
    pub(super) total_active_users: u32,
    pub(super) new_users_per_minute: u32,
    pub(super) session: Duration,
    /// `admission_pacing`.
    pub(super) pacing: &'static str,
    /// How many demo visitors play in it.
    pub(super) visitors: u32,
    /// Shortest and longest stay of a demo visitor.
    pub(super) stay_seconds: (u64, u64),
}

/// How often a waiting page asks again: short, so that a demo is lively.
pub(super) const REFRESH_SECONDS: u32 = 2;

const MINUTE: Duration = Duration::from_secs(60);

pub(super) const ROOMS: [Room; 2] = [
    Room {
        index: 0,
        name: "shop",
        path: "/",
        leave: "/checkout",
        title: "Things for slow evenings",
        welcome: "At most ten people shop at a time.",
        total_active_users: 10,
        new_users_per_minute: 10,
        session: MINUTE,
        pacing: "burst",
        visitors: 22,
        stay_seconds: (20, 45),
    },
    Room {
        index: 1,
        name: "drop",
        path: "/drop",
        leave: "/drop/checkout",
        title: "Tonight's drop",
        welcome: "One more person comes in every two seconds.",
        total_active_users: 30,
        new_users_per_minute: 30,
        session: MINUTE,
        pacing: "smooth",
        visitors: 24,
        stay_seconds: (8, 20),
    },
];

impl Room {
    /// The room of a path, as the gate's routing has it: the most specific one.
    pub(super) fn of(path: &str) -> &'static Self {
        let drop = &ROOMS[1];
        if path == drop.path || path.starts_with("/drop/") || path.starts_with("/drop?") {
            drop
        } else {
            &ROOMS[0]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_belong_to_the_most_specific_room() {
        for (path, name) in [
            ("/", "shop"),
            ("/checkout", "shop"),
            ("/drop", "drop"),
            ("/drop/checkout", "drop"),
            ("/dropped", "shop"),
        ] {
            assert_eq!(Room::of(path).name, name, "{path}");
        }
    }

    #[test]
    fn rooms_know_their_index() {
        for (index, room) in ROOMS.iter().enumerate() {
            assert_eq!(room.index, index);
            assert_eq!(Room::of(room.leave).index, index);
        }
    }
}
