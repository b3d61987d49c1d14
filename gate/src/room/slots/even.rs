//! `even`: every gate gets the same part of its data center's reserve and of the Anywhere pool.
//!
//! `slots = floor(reserve ÷ gates in the data center) + floor(anywhere ÷ all gates)`. Never more than the free slots in sum,
//! so it cannot overshoot a true snapshot; it queues early wherever visitors come unevenly.

use super::{Allotment, DataCenterId, SlotStrategy, StateSnapshot};

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Even;

impl SlotStrategy for Even {
    fn name(&self) -> &'static str {
        "even"
    }

    fn allot(&self, snapshot: &StateSnapshot, data_center: DataCenterId) -> Allotment {
        let reserves = snapshot.reserves();
        let part = |slots: u64, gates: u32| slots / u64::from(gates.max(1));
        Allotment::PerGate {
            local: part(
                reserves.of(data_center),
                snapshot.gates_active_in(data_center),
            ),
            anywhere: part(reserves.anywhere, snapshot.gates_active()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{DELHI, SAN_JOSE, published, snapshot};
    use super::*;

    #[test]
    fn five_local_and_eleven_anywhere_make_sixteen() {
        let allotment = Even.allot(&published(3, 1), SAN_JOSE);
        assert_eq!(
            allotment,
            Allotment::PerGate {
                local: 5,
                anywhere: 11
            }
        );
        assert_eq!(allotment.slots(), 16);
    }

    #[test]
    fn a_data_center_without_history_has_its_part_of_anywhere() {
        assert_eq!(Even.allot(&published(3, 1), DELHI).slots(), 11);
    }

    #[test]
    fn seven_and_one_arrivals_at_ten_slots_admit_six_and_queue_two() {
        let each = Even.allot(&snapshot(10, 0, &[(2, 10)]), SAN_JOSE).slots();
        assert_eq!(each, 5);
        let admitted: u64 = [7, 1].map(|arrivals: u64| arrivals.min(each)).iter().sum();
        assert_eq!((admitted, 8 - admitted), (6, 2));
    }

    #[test]
    fn ten_slots_and_three_gates_are_fewer_than_four_each() {
        assert_eq!(
            Even.allot(&snapshot(10, 0, &[(3, 10)]), SAN_JOSE).slots(),
            3
        );
    }

    #[test]
    fn a_full_room_has_nothing_to_split() {
        assert_eq!(
            Even.allot(&snapshot(10, 12, &[(2, 10)]), SAN_JOSE).slots(),
            0
        );
    }
}
