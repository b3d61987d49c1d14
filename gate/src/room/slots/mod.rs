//! How one limit is split over many gates: the three published strategies behind one trait. Pure arithmetic over a snapshot
//! of the whole room; who carries snapshots and counters from gate to gate is `cluster`'s work.
//!
//! Rounding, the same everywhere: a data center's reserve and a gate's share round **down**, and the Anywhere pool is exactly
//! what the reserves leave, so that no division ever mints a slot.

mod adaptive;
mod counter;
mod even;
mod snapshot;

pub use adaptive::{Adaptive, CurveFactor};
pub use counter::{Counter, TicketCounter};
pub use even::Even;
pub use snapshot::{
    DataCenterId, DataCenterState, Reserves, StateSnapshot, TRAFFIC_HISTORY_MINUTES, TrafficHistory,
};

/// Which strategy a room uses (`slot_strategy`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum StrategyKind {
    /// Reserves divided evenly among gates.
    Even,
    /// As `even`, with fewer gates pretended while utilization is low.
    Adaptive(CurveFactor),
    /// A shared counter per data center, then one for Anywhere.
    #[default]
    Counter,
}

impl StrategyKind {
    /// The strategy itself.
    pub fn strategy(self) -> Box<dyn SlotStrategy> {
        match self {
            Self::Even => Box::new(Even),
            Self::Adaptive(curve_factor) => Box::new(Adaptive { curve_factor }),
            Self::Counter => Box::new(Counter),
        }
    }
}

/// Splits a room's free slots.
pub trait SlotStrategy: std::fmt::Debug + Send + Sync {
    /// The name used in configuration and reports.
    fn name(&self) -> &'static str;

    /// What the gates of `data_center` may hand out in the minute that starts with `snapshot`.
    fn allot(&self, snapshot: &StateSnapshot, data_center: DataCenterId) -> Allotment;
}

/// Slots to hand out in one minute, and whose count they are measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allotment {
    /// Each gate counts alone.
    PerGate {
        /// Its part of the data center's reserve.
        local: u64,
        /// Its part of the Anywhere pool.
        anywhere: u64,
    },
    /// Gates ask shared counters: the data center's first, then Anywhere's.
    Shared {
        /// The data center's reserve.
        data_center: u64,
        /// The whole Anywhere pool.
        anywhere: u64,
    },
}

impl Allotment {
    /// What one gate may hand out where every slot is given to it.
    pub const fn slots(self) -> u64 {
        match self {
            Self::PerGate { local, anywhere } => local.saturating_add(anywhere),
            Self::Shared {
                data_center,
                anywhere,
            } => data_center.saturating_add(anywhere),
        }
    }
}

#[cfg(test)]
pub(super) mod worked {
    //! The worked example the strategies are published with: limit 200, 50 active, San Jose 20 and London 30 users in the last
    //! minute, ten gates worldwide.

    use super::*;
    use crate::room::{Limits, Millis};

    pub(in super::super) const SAN_JOSE: DataCenterId = DataCenterId(0);
    pub(in super::super) const DELHI: DataCenterId = DataCenterId(2);

    pub(in super::super) fn snapshot(
        limit: u32,
        active_users: u64,
        data_centers: &[(u32, u64)],
    ) -> StateSnapshot {
        let taken_at = Millis::new(45 * 60_000);
        StateSnapshot {
            taken_at,
            limits: Limits::new(limit, limit).unwrap(),
            active_users,
            admitted_last_minute: 0,
            data_centers: data_centers
                .iter()
                .map(|&(gates_active, users)| {
                    let mut traffic = TrafficHistory::default();
                    traffic.record(44, users);
                    DataCenterState {
                        gates_active,
                        traffic,
                    }
                })
                .collect(),
        }
    }

    pub(in super::super) fn published(san_jose_gates: u32, delhi_gates: u32) -> StateSnapshot {
        let london_gates = 10 - san_jose_gates - delhi_gates;
        snapshot(
            200,
            50,
            &[(san_jose_gates, 20), (london_gates, 30), (delhi_gates, 0)],
        )
    }

    #[test]
    fn reserves_and_anywhere_add_up_to_the_free_slots() {
        let reserves = published(3, 1).reserves();
        assert_eq!(reserves.of(SAN_JOSE), 15);
        assert_eq!(
            reserves.anywhere, 113,
            "75 % of 150, and the half slot London's reserve rounded away"
        );
        assert_eq!(reserves.total(), 150);
    }

    #[test]
    fn a_kind_names_its_strategy() {
        for (kind, name) in [
            (StrategyKind::Even, "even"),
            (StrategyKind::Adaptive(CurveFactor::default()), "adaptive"),
            (StrategyKind::Counter, "counter"),
        ] {
            assert_eq!(kind.strategy().name(), name);
        }
    }
}
