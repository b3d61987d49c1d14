//! What one gate knows of the whole room: a snapshot, a few seconds old at most, carried by the state pipeline.

use crate::room::{Limits, Millis};

/// Minutes of traffic a snapshot carries per data center. Older minutes are forgotten.
pub const TRAFFIC_HISTORY_MINUTES: usize = 10;

const MINUTE_MILLIS: u64 = 60_000;

/// One data center of a snapshot: its index in [`StateSnapshot::data_centers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataCenterId(pub usize);

/// New users per minute of one data center, for the last [`TRAFFIC_HISTORY_MINUTES`] minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficHistory {
    /// Minute since the Unix epoch and its users, oldest first.
    minutes: Vec<(u64, u64)>,
}

impl TrafficHistory {
    /// Adds `users` to a minute since the Unix epoch. A minute older than all that fit is ignored.
    pub fn record(&mut self, minute: u64, users: u64) {
        match self.minutes.binary_search_by_key(&minute, |entry| entry.0) {
            Ok(index) => self.minutes[index].1 = self.minutes[index].1.saturating_add(users),
            Err(0) if self.minutes.len() >= TRAFFIC_HISTORY_MINUTES => {}
            Err(index) => {
                self.minutes.insert(index, (minute, users));
                if self.minutes.len() > TRAFFIC_HISTORY_MINUTES {
                    self.minutes.remove(0);
                }
            }
        }
    }

    /// Users in a minute since the Unix epoch; 0 where nothing is known.
    pub fn users_in(&self, minute: u64) -> u64 {
        self.minutes
            .binary_search_by_key(&minute, |entry| entry.0)
            .map_or(0, |index| self.minutes[index].1)
    }

    /// Every minute known and its users, oldest first.
    pub fn minutes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.minutes.iter().copied()
    }
}

/// One data center.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataCenterState {
    /// Gates heard from lately.
    pub gates_active: u32,
    pub traffic: TrafficHistory,
}

/// The room as one gate last saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSnapshot {
    /// When it was true, by the cluster's time.
    pub taken_at: Millis,
    pub limits: Limits,
    /// Over all gates.
    pub active_users: u64,
    /// Admissions of all gates in the 60 s before `taken_at`.
    pub admitted_last_minute: u64,
    pub data_centers: Vec<DataCenterState>,
}

/// Free slots by who may hand them out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserves {
    /// By [`DataCenterId`].
    data_centers: Vec<u64>,
    /// Reserved for no data center.
    pub anywhere: u64,
}

impl Reserves {
    /// The reserve of one data center; 0 for one the snapshot does not know.
    pub fn of(&self, data_center: DataCenterId) -> u64 {
        self.data_centers.get(data_center.0).copied().unwrap_or(0)
    }

    /// All reserves and the Anywhere pool.
    pub fn total(&self) -> u64 {
        self.data_centers
            .iter()
            .fold(self.anywhere, |sum, slots| sum.saturating_add(*slots))
    }
}

impl StateSnapshot {
    /// How old the snapshot is.
    pub fn age_millis(&self, now: Millis) -> u64 {
        now.millis_since(self.taken_at)
    }

    /// Gates heard from lately, over all data centers.
    pub fn gates_active(&self) -> u32 {
        self.data_centers
            .iter()
            .fold(0, |sum, d| sum.saturating_add(d.gates_active))
    }

    /// Gates heard from lately in one data center.
    pub fn gates_active_in(&self, data_center: DataCenterId) -> u32 {
        self.data_centers
            .get(data_center.0)
            .map_or(0, |d| d.gates_active)
    }

    /// Slots that neither limit forbids.
    pub fn free_slots(&self) -> u64 {
        let users = u64::from(self.limits.total_active_users()).saturating_sub(self.active_users);
        let rate =
            u64::from(self.limits.new_users_per_minute()).saturating_sub(self.admitted_last_minute);
        users.min(rate)
    }

    /// How near the room is to the nearer of its limits, 0 to 1.
    pub fn utilization(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "limits are below 2^31")]
        let part = |used: u64, limit: u32| used as f64 / f64::from(limit);
        part(self.active_users, self.limits.total_active_users())
            .max(part(
                self.admitted_last_minute,
                self.limits.new_users_per_minute(),
            ))
            .min(1.0)
    }

    /// Splits the free slots by last minute's traffic.
    ///
    /// A data center's share is its users of the minute before `taken_at` ÷ `new_users_per_minute` (or ÷ all users of that
    /// minute, where they were more); its reserve is `floor(share × free slots)`. What no data center reserves is Anywhere's.
    pub fn reserves(&self) -> Reserves {
        let last_minute = (self.taken_at.as_u64() / MINUTE_MILLIS).wrapping_sub(1);
        let users: Vec<u64> = self
            .data_centers
            .iter()
            .map(|d| d.traffic.users_in(last_minute))
            .collect();
        let all: u128 = users.iter().map(|users| u128::from(*users)).sum();
        let whole = all.max(u128::from(self.limits.new_users_per_minute()));
        let free = self.free_slots();
        let mut anywhere = free;
        let data_centers = users
            .iter()
            .map(|users| {
                let reserve = u128::from(free) * u128::from(*users) / whole;
                let reserve = u64::try_from(reserve).unwrap_or(free).min(anywhere);
                anywhere -= reserve;
                reserve
            })
            .collect();
        Reserves {
            data_centers,
            anywhere,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn history_forgets_the_oldest_minute_and_ignores_older_ones() {
        let mut history = TrafficHistory::default();
        for minute in 100..100 + TRAFFIC_HISTORY_MINUTES as u64 {
            history.record(minute, 1);
        }
        history.record(50, 9);
        assert_eq!(history.users_in(50), 0);
        history.record(100 + TRAFFIC_HISTORY_MINUTES as u64, 2);
        assert_eq!(history.users_in(100), 0);
        assert_eq!(history.users_in(101), 1);
        assert_eq!(history.minutes().count(), TRAFFIC_HISTORY_MINUTES);
    }

    #[test]
    fn the_nearer_limit_rules() {
        let mut snapshot = super::super::worked::snapshot(200, 50, &[]);
        snapshot.admitted_last_minute = 150;
        assert_eq!(snapshot.free_slots(), 50);
        assert!((snapshot.utilization() - 0.75).abs() < 1e-9);
        assert_eq!(
            snapshot.age_millis(snapshot.taken_at.plus_millis(1500)),
            1500
        );
    }

    proptest! {
        #[test]
        fn reserves_never_mint_or_lose_a_slot(
            limit in 1u32..100_000,
            active in 0u64..200_000,
            admitted in 0u64..200_000,
            users in proptest::collection::vec(0u64..1_000_000, 0..12),
        ) {
            let gates: Vec<_> = users.iter().map(|users| (1, *users)).collect();
            let mut snapshot = super::super::worked::snapshot(limit, active, &gates);
            snapshot.admitted_last_minute = admitted;
            prop_assert_eq!(snapshot.reserves().total(), snapshot.free_slots());
        }
    }
}
