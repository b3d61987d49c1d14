//! Visitors who came back with a dead ticket and got a new place: so that the same dead ticket, sent again, finds that place
//! instead of taking another.

use std::collections::{HashMap, VecDeque};

use super::visitor::{Place, VisitorId};

/// Visitors remembered. When full the one remembered the longest is forgotten: sending its dead ticket once more then takes one
/// more place, as sending no ticket at all does.
const RETURNED_MAX: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Returned {
    places: HashMap<VisitorId, Place>,
    order: VecDeque<VisitorId>,
}

impl Returned {
    pub(super) fn get(&self, visitor: VisitorId) -> Option<Place> {
        self.places.get(&visitor).copied()
    }

    pub(super) fn insert(&mut self, visitor: VisitorId, place: Place) {
        if self.places.insert(visitor, place).is_some() {
            return;
        }
        self.order.push_back(visitor);
        if self.order.len() > RETURNED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.places.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_the_latest_and_stays_bounded() {
        let mut returned = Returned::default();
        for visitor in 0..RETURNED_MAX as u64 + 10 {
            returned.insert(VisitorId(visitor), Place(visitor));
            returned.insert(VisitorId(visitor), Place(visitor + 1));
        }
        assert_eq!(returned.places.len(), RETURNED_MAX);
        assert_eq!(returned.order.len(), RETURNED_MAX);
        assert_eq!(returned.get(VisitorId(9)), None);
        assert_eq!(returned.get(VisitorId(10)), Some(Place(11)));
    }
}
