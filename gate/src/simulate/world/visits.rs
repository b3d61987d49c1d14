//! What visitors do, and what a gate does with each of their requests: the way from arrival to an answer.

use super::*;

impl World<'_> {
    pub(super) fn arrive(&mut self, arrival: Arrival) {
        let first = self
            .gates
            .iter()
            .position(|gate| gate.center == arrival.data_center)
            .unwrap_or(0);
        let visitor = Visitor {
            arrival: Arrival {
                at_ms: self.now,
                ..arrival
            },
            ticket: None,
            gate: first as u16 + arrival.gate,
            asking: 0,
            asked_at: self.now,
            asked_stock: false,
            asked_ledger: false,
            admitted: false,
            waiting: false,
            estimate_minutes: None,
            visit_until: 0,
            ends_s: 0,
        };
        let v = match self.free_visitors.pop() {
            Some(v) => {
                self.visitors[v as usize] = visitor;
                v
            }
            None => {
                self.visitors.push(visitor);
                (self.visitors.len() - 1) as u32
            }
        };
        if self.now < self.warm_up {
            // Users who are there already did not need the strategy to let them in.
            let gate = &mut self.gates[usize::from(visitor.gate)];
            gate.member.asking();
            let granted = self.ledger.take(&gate.run, 1);
            gate.member.granted(granted);
            self.conclude(v, Some(Source::Counter));
            return;
        }
        self.request(v);
    }

    /// A gate that answers: the visitor's own, or, where that is frozen or gone, another of his data center or any.
    pub(super) fn find_gate(&mut self, v: u32) -> Option<u16> {
        let own = self.visitors[v as usize].gate;
        if self.gates[usize::from(own)].up == Up::Running {
            return Some(own);
        }
        let center = self.gates[usize::from(own)].center;
        let running = |g: &&Gate| g.up == Up::Running;
        let near: Vec<u16> = (0..self.gates.len() as u16)
            .filter(|g| {
                let gate = &self.gates[usize::from(*g)];
                running(&gate) && gate.center == center
            })
            .collect();
        let far: Vec<u16> = (0..self.gates.len() as u16)
            .filter(|g| running(&&self.gates[usize::from(*g)]))
            .collect();
        let some = if near.is_empty() { far } else { near };
        if some.is_empty() {
            return None;
        }
        Some(some[self.rng.random_range(0..some.len())])
    }

    pub(super) fn request(&mut self, v: u32) {
        let Some(gate) = self.find_gate(v) else {
            self.counts.errors += 1;
            self.plan(self.now + RETRY_MS, Event::Request(v));
            return;
        };
        let visitor = &mut self.visitors[v as usize];
        visitor.gate = gate;
        visitor.asked_at = self.now;
        visitor.asked_stock = false;
        visitor.asked_ledger = false;
        if visitor.waiting
            && self.now - visitor.arrival.at_ms >= u64::from(visitor.arrival.patience_ms)
        {
            self.counts.gave_up += 1;
            self.truth.waiting -= 1;
            self.free_visitors.push(v);
            return;
        }
        let ticket = visitor.ticket;
        let now = self.room_time(gate);
        let at = &mut self.gates[usize::from(gate)];
        if !at.room.asks(now, ticket.as_ref()) {
            self.conclude(v, None);
            return;
        }
        let counts = at.room.counts(now);
        match at.member.supply(now, counts) {
            Supply::Ask => self.ask(v),
            Supply::Slot(source) => self.conclude(v, Some(source)),
            Supply::Nothing => self.conclude(v, None),
        }
    }

    pub(super) fn ask(&mut self, v: u32) {
        self.questions += 1;
        self.visitors[v as usize].asking = self.questions;
        let gate = self.visitors[v as usize].gate;
        if self.watch_timeouts {
            let at = self.now + self.scenario.counter_timeout_ms;
            self.plan(at, Event::TimedOut(v, self.questions));
        }
        let at = &mut self.gates[usize::from(gate)];
        if at.stock_seen > 0 {
            self.send_to_stock(v);
        } else {
            self.send_to_ledger(v);
        }
    }

    pub(super) fn send_to_stock(&mut self, v: u32) {
        let gate = self.visitors[v as usize].gate;
        self.visitors[v as usize].asked_stock = true;
        let at = &mut self.gates[usize::from(gate)];
        at.stock_queue.push(v);
        if at.stock_asked.is_empty() {
            self.ask_stock(gate);
        }
    }

    pub(super) fn ask_stock(&mut self, gate: u16) {
        let at = &mut self.gates[usize::from(gate)];
        at.stock_asked = std::mem::take(&mut at.stock_queue);
        if at.stock_asked.is_empty() {
            return;
        }
        let way = half(self.centers[usize::from(at.center)].counter_ms);
        self.plan(self.now + way, Event::StockAsk(gate));
    }

    pub(super) fn stock_ask(&mut self, gate: u16) {
        let at = &self.gates[usize::from(gate)];
        let center = &mut self.centers[usize::from(at.center)];
        if !center.stock_up {
            return;
        }
        let got = center
            .stock
            .take(&at.run, at.member.taken(), at.stock_asked.len() as u64);
        let way = half(center.counter_ms);
        self.plan(self.now + way, Event::StockAnswer(gate, got as u32));
    }

    pub(super) fn stock_answer(&mut self, gate: u16, got: u32) {
        if self.defer(gate, Event::StockAnswer(gate, got)) {
            return;
        }
        let at = &mut self.gates[usize::from(gate)];
        let round_trip = self.centers[usize::from(at.center)].counter_ms as f32;
        at.member.took(u64::from(got));
        let asked = std::mem::take(&mut at.stock_asked);
        at.stock_seen = at.stock_seen.saturating_sub(u64::from(got));
        if (got as usize) < asked.len() {
            at.stock_seen = 0;
        }
        let mut left = got;
        for v in asked {
            self.counts.local_ms.push(round_trip);
            let still = self.is_asking(v, gate);
            if left > 0 {
                left -= 1;
                if still {
                    self.visitors[v as usize].asking = 0;
                    self.conclude(v, Some(Source::Counter));
                } else {
                    self.gates[usize::from(gate)].member.give_back(1);
                }
            } else if still && self.visitors[v as usize].asked_ledger {
                self.visitors[v as usize].asking = 0;
                self.conclude(v, None);
            } else if still {
                self.send_to_ledger(v);
            }
        }
        self.ask_stock(gate);
    }

    pub(super) fn is_asking(&self, v: u32, gate: u16) -> bool {
        let visitor = &self.visitors[v as usize];
        visitor.asking != 0 && visitor.gate == gate
    }

    pub(super) fn ledger_way(&self, gate: u16) -> u64 {
        let center = &self.centers[usize::from(self.gates[usize::from(gate)].center)];
        half(center.anywhere_ms)
    }

    pub(super) fn ledger_reachable(&self, center: u16) -> bool {
        self.ledger_up && !self.centers[usize::from(center)].cut_off
    }

    pub(super) fn send_to_ledger(&mut self, v: u32) {
        self.visitors[v as usize].asked_ledger = true;
        let gate = self.visitors[v as usize].gate;
        self.gates[usize::from(gate)].member.asking();
        let at = self.now + self.ledger_way(gate) + self.ledger_slow_ms;
        self.plan(at, Event::LedgerAsk(v, gate));
    }

    pub(super) fn ledger_ask(&mut self, v: u32, gate: u16) {
        let center = self.gates[usize::from(gate)].center;
        if !self.ledger_reachable(center) {
            // Lost. The gate learns of it when the connection breaks.
            let at = self.now + self.scenario.counter_timeout_ms;
            self.plan(at, Event::LedgerAnswer(NOBODY, gate, false));
            return;
        }
        let granted = self.ledger.take(&self.gates[usize::from(gate)].run, 1);
        let at = self.now + self.ledger_way(gate);
        self.plan(at, Event::LedgerAnswer(v, gate, granted > 0));
    }

    pub(super) fn ledger_answer(&mut self, v: u32, gate: u16, got: bool) {
        if self.defer(gate, Event::LedgerAnswer(v, gate, got)) {
            return;
        }
        let way = self.centers[usize::from(self.gates[usize::from(gate)].center)].anywhere_ms;
        let at = &mut self.gates[usize::from(gate)];
        at.member.granted(u64::from(got));
        if v == NOBODY {
            return;
        }
        self.counts.anywhere_ms.push(way as f32);
        if self.is_asking(v, gate) {
            if !got && !self.visitors[v as usize].asked_stock {
                self.send_to_stock(v);
                return;
            }
            self.visitors[v as usize].asking = 0;
            self.conclude(v, got.then_some(Source::Counter));
        } else if got {
            self.gates[usize::from(gate)].member.give_back(1);
        }
    }

    pub(super) fn timed_out(&mut self, v: u32, question: u32) {
        if self.visitors[v as usize].asking != question {
            return;
        }
        self.visitors[v as usize].asking = 0;
        let gate = self.visitors[v as usize].gate;
        if self.gates[usize::from(gate)].up != Up::Running {
            // The visitor's browser tries again, elsewhere.
            self.plan(self.now + RETRY_MS, Event::Request(v));
            return;
        }
        let now = self.room_time(gate);
        let at = &mut self.gates[usize::from(gate)];
        at.stock_queue.retain(|other| *other != v);
        if !self.centers[usize::from(at.center)].stock_up {
            at.stock_asked.clear();
            at.stock_seen = 0;
        }
        at.member.counter_failed(now);
        let counts = at.room.counts(now);
        match at.member.supply(now, counts) {
            Supply::Slot(source) => self.conclude(v, Some(source)),
            Supply::Ask | Supply::Nothing => self.conclude(v, None),
        }
    }

    /// Decides the visitor's request, with a slot in hand or without.
    pub(super) fn conclude(&mut self, v: u32, slot: Option<Source>) {
        let visitor = self.visitors[v as usize];
        let gate = visitor.gate;
        let now = self.room_time(gate);
        let at = &mut self.gates[usize::from(gate)];
        if slot.is_some() {
            at.room.deposit(1);
        }
        let decision = at.room.check_in(now, visitor.ticket);
        if let Some(source) = slot {
            let outcome = match at.room.withdraw() {
                0 => SlotOutcome::Used,
                _ => SlotOutcome::LeftOver,
            };
            let used = at.room.slots_used();
            at.member.settle(source, outcome, used);
        }
        match decision {
            Decision::Admit {
                session, admission, ..
            } => {
                self.visitors[v as usize].ticket = Some(Ticket::Session(session));
                self.admitted(v, admission);
            }
            Decision::Wait { ticket, view, .. } => {
                self.visitors[v as usize].ticket = Some(Ticket::Waiting(ticket));
                self.waits(v, view.wait_time, view.refresh_interval_seconds);
            }
            Decision::Refuse { .. } => self.waits(v, WaitTime::Unknown, 20),
            Decision::Bypass => {}
        }
    }

    pub(super) fn admitted(&mut self, v: u32, admission: Admission) {
        let now = self.now;
        let duration_s = u64::from(self.scenario.session_duration_seconds);
        let ends_s = (now.div_ceil(1000) + duration_s) as usize;
        self.truth.advance(now);
        let initial = self.now < self.warm_up;
        let visitor = &mut self.visitors[v as usize];
        if !visitor.admitted || admission == Admission::New {
            if !visitor.admitted {
                let visit = u64::from(visitor.arrival.visit_ms);
                visitor.visit_until = now + visit;
                if !initial {
                    self.counts.admitted += 1;
                    let latency = now - visitor.asked_at;
                    self.counts.latencies_ms.push(latency as f32);
                }
            }
            visitor.admitted = true;
            self.truth.admit(now, ends_s);
        } else {
            self.truth.prolong(visitor.ends_s, ends_s);
        }
        visitor.ends_s = ends_s;
        if visitor.waiting {
            visitor.waiting = false;
            self.truth.waiting -= 1;
            let wait_s = (now - visitor.arrival.at_ms) as f64 / 1000.0;
            self.counts.waits_s.push(wait_s as f32);
            if let Some(minutes) = visitor.estimate_minutes {
                let off = (minutes as f64 * 60.0 - wait_s).abs() / wait_s.max(60.0);
                self.counts.errors_percent.push((off * 100.0) as f32);
            }
        }
        if now >= visitor.visit_until {
            self.free_visitors.push(v);
            return;
        }
        let next = visitor.visit_until.min(now + duration_s * 600);
        self.roam(v);
        self.plan(next.max(now + 1), Event::Request(v));
    }

    pub(super) fn waits(&mut self, v: u32, wait: WaitTime, refresh_seconds: u32) {
        self.truth.advance(self.now);
        let visitor = &mut self.visitors[v as usize];
        if !visitor.waiting {
            let free = self.truth.free();
            visitor.waiting = true;
            self.counts.queued += 1;
            if self.truth.waiting < free {
                self.counts.early_queued += 1;
            }
            self.counts
                .first_queued_at_percent
                .get_or_insert(self.truth.utilization() * 100.0);
            self.truth.waiting += 1;
            visitor.estimate_minutes = match wait {
                WaitTime::Known {
                    percentile_50_minutes,
                    ..
                } => Some(percentile_50_minutes),
                WaitTime::Unknown => None,
            };
        }
        self.roam(v);
        let late = self.rng.random_range(0..200);
        let at = self.now + u64::from(refresh_seconds.max(1)) * 1000 + late;
        self.plan(at, Event::Request(v));
    }

    /// The next request may go to another gate of the data center.
    pub(super) fn roam(&mut self, v: u32) {
        if self.scenario.roam_percent == 0
            || self.rng.random_range(0..100) >= self.scenario.roam_percent
        {
            return;
        }
        let center = usize::from(self.gates[usize::from(self.visitors[v as usize].gate)].center);
        let first = self
            .gates
            .iter()
            .position(|g| usize::from(g.center) == center);
        let gate = draw_gate(&self.scenario.data_centers[center], &mut self.rng);
        self.visitors[v as usize].gate = (first.unwrap_or(0) + gate) as u16;
    }

    /// Puts off what reaches a frozen gate until it goes on; drops what reaches a dead one. Whether it did.
    pub(super) fn defer(&mut self, gate: u16, event: Event) -> bool {
        match self.gates[usize::from(gate)].up {
            Up::Running => false,
            Up::FrozenUntil(until) => {
                self.plan(until, event);
                true
            }
            Up::Killed => true,
        }
    }

    // The pipeline.
}
