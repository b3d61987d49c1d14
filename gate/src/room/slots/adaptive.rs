//! `adaptive`: as `even`, but while utilization is low fewer gates are pretended, so that each gets more.
//!
//! `worker_multiplier = utilization ^ curve_factor`, `adapted_workers = gates × worker_multiplier`, never below 1 (a gate is
//! not given more than the whole pool), `slots = floor(pool ÷ adapted_workers)` for the reserve and for Anywhere. The sum
//! over all gates can exceed the free slots: a spike from low utilization overshoots. That is the strategy, not a fault here.

use super::{Allotment, DataCenterId, SlotStrategy, StateSnapshot};

/// The exponent of the allocation curve: finite and above 0. Larger gives each gate more while utilization is low.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct CurveFactor(f64);

impl CurveFactor {
    /// `None` unless finite and above 0.
    pub fn new(factor: f64) -> Option<Self> {
        (factor.is_finite() && factor > 0.0).then_some(Self(factor))
    }

    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Default for CurveFactor {
    /// The multiplier equals the utilization.
    fn default() -> Self {
        Self(1.0)
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Adaptive {
    pub curve_factor: CurveFactor,
}

impl Adaptive {
    /// How many gates `gates` count as.
    pub fn adapted_workers(self, gates: u32, utilization: f64) -> f64 {
        let worker_multiplier = utilization.clamp(0.0, 1.0).powf(self.curve_factor.0);
        (f64::from(gates) * worker_multiplier).max(1.0)
    }

    fn part(self, slots: u64, gates: u32, utilization: f64) -> u64 {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "slots are below 2^31, and dividing by at least 1 keeps them there"
        )]
        let part = (slots as f64 / self.adapted_workers(gates, utilization)).floor() as u64;
        part.min(slots)
    }
}

impl SlotStrategy for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn allot(&self, snapshot: &StateSnapshot, data_center: DataCenterId) -> Allotment {
        let reserves = snapshot.reserves();
        let utilization = snapshot.utilization();
        Allotment::PerGate {
            local: self.part(
                reserves.of(data_center),
                snapshot.gates_active_in(data_center),
                utilization,
            ),
            anywhere: self.part(reserves.anywhere, snapshot.gates_active(), utilization),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{DELHI, SAN_JOSE, published, snapshot};
    use super::super::{DataCenterState, Even};
    use super::*;

    /// Ten of a data center's slots at 10 % utilization, two gates there.
    fn ten_slots_at_ten_percent(gates: u32) -> StateSnapshot {
        let mut low = snapshot(100, 10, &[(gates, 12), (gates, 88)]);
        low.data_centers.push(DataCenterState::default());
        assert_eq!(low.reserves().of(SAN_JOSE), 10);
        assert!((low.utilization() - 0.1).abs() < 1e-9);
        low
    }

    fn curve(factor: f64) -> Adaptive {
        Adaptive {
            curve_factor: CurveFactor::new(factor).unwrap(),
        }
    }

    #[test]
    fn at_a_quarter_ten_gates_count_as_two_and_a_half_and_each_gets_forty_five() {
        let published = published(3, 1);
        assert!((published.utilization() - 0.25).abs() < 1e-9);
        let adapted = curve(1.0).adapted_workers(10, published.utilization());
        assert!((adapted - 2.5).abs() < 1e-9);
        assert_eq!(
            curve(1.0).allot(&published, DELHI),
            Allotment::PerGate {
                local: 0,
                anywhere: 45
            }
        );
    }

    #[test]
    fn at_ten_percent_each_of_two_gates_gets_eight_of_ten_and_fifteen_arrivals_overshoot() {
        let low = ten_slots_at_ten_percent(2);
        let Allotment::PerGate { local, .. } = curve(0.25).allot(&low, SAN_JOSE) else {
            panic!("gates count alone");
        };
        assert_eq!(local, 8);
        let admitted = |arrivals: [u64; 2]| arrivals.map(|n| n.min(local)).iter().sum::<u64>();
        assert_eq!(admitted([7, 1]), 8, "nobody queues");
        assert_eq!(admitted([8, 7]), 15, "five more than the ten that fit");
    }

    #[test]
    fn near_the_limit_it_is_even() {
        let mut full = published(3, 1);
        full.active_users = 200;
        full.limits = crate::room::Limits::new(200, 200).unwrap();
        assert_eq!(
            curve(1.0).allot(&full, SAN_JOSE),
            Even.allot(&full, SAN_JOSE)
        );
        let adapted = curve(3.0).adapted_workers(10, 1.0);
        assert!((adapted - 10.0).abs() < 1e-9);
    }

    #[test]
    fn an_empty_room_gives_each_gate_the_whole_pool_and_no_more() {
        let empty = snapshot(100, 0, &[(4, 0)]);
        assert_eq!(curve(2.0).allot(&empty, SAN_JOSE).slots(), 100);
    }

    #[test]
    fn a_larger_factor_gives_more_at_low_utilization() {
        let published = published(3, 1);
        let slots = |factor| curve(factor).allot(&published, DELHI).slots();
        assert!(slots(0.5) < slots(1.0) && slots(1.0) < slots(2.0));
    }

    #[test]
    fn factors_that_are_no_exponent_are_refused() {
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(CurveFactor::new(factor), None);
        }
    }
}
