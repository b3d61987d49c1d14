//! What gates and counters tell each other in the background.

use super::*;

impl World<'_> {
    pub(super) fn publish(&mut self, gate: u16) {
        if self.defer(gate, Event::Publish(gate)) {
            return;
        }
        let every = self.scenario.publish_interval_ms;
        self.plan(self.now + every, Event::Publish(gate));
        let now = self.room_time(gate);
        let at = &mut self.gates[usize::from(gate)];
        // One at a time; a lost one is given up after the time a connection takes to break.
        if at.outbox.is_some() && self.now < at.outbox_at + 1000 {
            return;
        }
        let report = at.room.report(now);
        let published = at.member.publish(now, &report);
        at.outbox = Some((published, report.waiters));
        at.outbox_at = self.now;
        let arrives = self.now + self.ledger_way(gate) + self.ledger_slow_ms;
        self.plan(arrives, Event::PublishAtLedger(gate));
    }

    pub(super) fn publish_at_ledger(&mut self, gate: u16) {
        let center = self.gates[usize::from(gate)].center;
        if !self.ledger_reachable(center) {
            return;
        }
        let at = &mut self.gates[usize::from(gate)];
        let Some((published, waiters)) = at.outbox.take() else {
            return;
        };
        let terms = at.member.terms();
        let reply =
            self.ledger
                .publish(Millis::new(EPOCH_MS + self.now), &at.run, &published, terms);
        self.waiters = self.waiters.replace(&at.told, &waiters);
        let elsewhere = self.waiters.replace(&waiters, &WaitersBySecond::default());
        at.told = waiters;
        at.inbox = Some((reply, elsewhere));
        let back = self.now + self.ledger_way(gate);
        self.plan(back, Event::PublishAnswer(gate));
    }

    pub(super) fn publish_answer(&mut self, gate: u16) {
        if self.defer(gate, Event::PublishAnswer(gate)) {
            return;
        }
        let now = self.room_time(gate);
        let at = &mut self.gates[usize::from(gate)];
        let Some((reply, elsewhere)) = at.inbox.take() else {
            return;
        };
        let Some(view) = at.member.published(&reply, elsewhere) else {
            return;
        };
        at.stock_seen = reply.stock;
        at.room.set_view(now, view);
        if self.strategy != StrategyKind::Counter {
            return;
        }
        let waiting = at.room.status(now).queued_users;
        let wanted = at.member.stock_wanted(&reply, waiting);
        let center = at.center;
        let keeper = self
            .gates
            .iter()
            .position(|g| g.center == center && g.up == Up::Running);
        if keeper == Some(usize::from(gate)) {
            let center_state = &mut self.centers[usize::from(center)];
            center_state.wanted = wanted;
            let idle = center_state
                .refilling_since
                .is_none_or(|since| self.now > since + 3000);
            if idle {
                center_state.refilling_since = Some(self.now);
                let way = half(center_state.counter_ms);
                self.plan(self.now + way, Event::Refill(center));
            }
        }
    }

    pub(super) fn refill(&mut self, center: u16) {
        let state = &mut self.centers[usize::from(center)];
        if !state.stock_up {
            return;
        }
        let wanted = state.wanted;
        let report = state.stock.report(wanted);
        if report.slots == 0 && wanted == 0 && report.taken.is_empty() {
            state.refilling_since = None;
            return;
        }
        state.report = Some(report);
        let at = self.now + half(state.counter_ms) + half(state.anywhere_ms);
        self.plan(at + self.ledger_slow_ms, Event::RefillAtLedger(center));
    }

    pub(super) fn refill_at_ledger(&mut self, center: u16) {
        if !self.ledger_reachable(center) {
            return;
        }
        let name = &self.scenario.data_centers[usize::from(center)].name;
        let state = &mut self.centers[usize::from(center)];
        let Some(report) = &state.report else {
            return;
        };
        state.granted = self.ledger.refill(name, report);
        let at = self.now + half(state.counter_ms) + half(state.anywhere_ms);
        self.plan(at, Event::RefillAnswer(center));
    }

    pub(super) fn refill_answer(&mut self, center: u16) {
        let state = &mut self.centers[usize::from(center)];
        state.refilling_since = None;
        if !state.stock_up {
            return;
        }
        if let (Some(report), Some(granted)) = (state.report.take(), state.granted.take()) {
            state.stock.add(&report, granted);
        }
    }

    // Time and trouble.
}
