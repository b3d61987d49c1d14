//! `counter`: gates do not divide anything; each new user draws a number from a shared counter.
//!
//! The data center's counter comes first: a number below its reserve is a slot. Else the Anywhere counter: a number below the
//! pool is a slot. Else the visitor waits. No gate needs to know how many others there are.

use super::{Allotment, DataCenterId, SlotStrategy, StateSnapshot};

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter;

impl SlotStrategy for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn allot(&self, snapshot: &StateSnapshot, data_center: DataCenterId) -> Allotment {
        let reserves = snapshot.reserves();
        Allotment::Shared {
            data_center: reserves.of(data_center),
            anywhere: reserves.anywhere,
        }
    }
}

/// A counter that does nothing but count: every draw has its own number, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TicketCounter {
    drawn: u64,
}

impl TicketCounter {
    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        let number = self.drawn;
        self.drawn = self.drawn.saturating_add(1);
        number
    }

    /// Draws a number; whether it is a slot where `slots` may be handed out.
    pub const fn take(&mut self, slots: u64) -> bool {
        self.draw() < slots
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{SAN_JOSE, published, snapshot};
    use super::*;

    /// How many of `arrivals` get a slot from the data center's counter, then from Anywhere's.
    fn admitted(snapshot: &StateSnapshot, arrivals: u64) -> u64 {
        let Allotment::Shared {
            data_center,
            anywhere,
        } = Counter.allot(snapshot, SAN_JOSE)
        else {
            panic!("gates share a count");
        };
        let (mut local, mut global) = (TicketCounter::default(), TicketCounter::default());
        (0..arrivals)
            .filter(|_| local.take(data_center) || global.take(anywhere))
            .count() as u64
    }

    #[test]
    fn the_tenth_number_is_a_slot_and_the_eleventh_is_not() {
        let mut counter = TicketCounter { drawn: 9 };
        assert!(counter.take(10));
        assert!(!counter.take(10));
        assert_eq!(counter.draw(), 11);
    }

    #[test]
    fn seven_and_one_arrivals_at_ten_slots_all_enter() {
        assert_eq!(admitted(&snapshot(10, 0, &[(2, 10)]), 7 + 1), 8);
    }

    #[test]
    fn of_fifteen_arrivals_at_ten_slots_ten_enter_and_five_queue() {
        assert_eq!(admitted(&snapshot(10, 0, &[(2, 10)]), 15), 10);
    }

    #[test]
    fn fifteen_reserved_and_113_anywhere_admit_128_arrivals_with_none_queued() {
        let published = published(3, 1);
        assert_eq!(
            Counter.allot(&published, SAN_JOSE),
            Allotment::Shared {
                data_center: 15,
                anywhere: 113
            }
        );
        assert_eq!(admitted(&published, 128), 128);
        assert_eq!(admitted(&published, 200), 128);
    }
}
