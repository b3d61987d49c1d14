//! What is really so in a simulated world, whatever the gates believe.

use std::collections::VecDeque;

use crate::room::Limits;

const WINDOW_MS: u64 = 60_000;

/// Exact counts of the whole world.
#[derive(Debug)]
pub(super) struct Truth {
    limits: Limits,
    /// Sessions that end in each second of the world.
    ends: Vec<i64>,
    next_end_s: usize,
    pub(super) active: i64,
    admissions: VecDeque<(u64, u64)>,
    pub(super) admitted_last_minute: u64,
    pub(super) waiting: u64,
    pub(super) overshoot: u64,
    /// Slots that were free while somebody waited, and all slots, each times seconds.
    idle_slot_seconds: u64,
    slot_seconds: u64,
}

impl Truth {
    pub(super) fn new(limits: Limits, seconds: u64) -> Self {
        Self {
            limits,
            ends: vec![0; usize::try_from(seconds).unwrap_or(0) + 1],
            next_end_s: 0,
            active: 0,
            admissions: VecDeque::new(),
            admitted_last_minute: 0,
            waiting: 0,
            overshoot: 0,
            idle_slot_seconds: 0,
            slot_seconds: 0,
        }
    }

    pub(super) fn advance(&mut self, now_ms: u64) {
        let now_s = (now_ms / 1000) as usize;
        while self.next_end_s <= now_s && self.next_end_s < self.ends.len() {
            self.active -= self.ends[self.next_end_s];
            self.next_end_s += 1;
        }
        while let Some(&(at, count)) = self.admissions.front() {
            if now_ms - at <= WINDOW_MS {
                break;
            }
            self.admitted_last_minute -= count;
            self.admissions.pop_front();
        }
    }

    /// Slots neither limit forbids.
    pub(super) fn free(&self) -> u64 {
        let seats = i64::from(self.limits.total_active_users()) - self.active;
        let rate = i64::from(self.limits.new_users_per_minute()) - self.admitted_last_minute as i64;
        u64::try_from(seats.min(rate)).unwrap_or(0)
    }

    /// How near the nearer limit is, 0 to 1 and beyond.
    pub(super) fn utilization(&self) -> f64 {
        let seats = self.active as f64 / f64::from(self.limits.total_active_users());
        let rate = self.admitted_last_minute as f64 / f64::from(self.limits.new_users_per_minute());
        seats.max(rate)
    }

    /// A new session that ends in `ends_s`.
    pub(super) fn admit(&mut self, now_ms: u64, ends_s: usize) {
        self.active += 1;
        self.admitted_last_minute += 1;
        match self.admissions.back_mut() {
            Some((at, count)) if *at == now_ms => *count += 1,
            Some(_) | None => self.admissions.push_back((now_ms, 1)),
        }
        self.end_at(ends_s, 1);
        let over = |used: i64, limit: u32| u64::try_from(used - i64::from(limit)).unwrap_or(0);
        self.overshoot = self
            .overshoot
            .max(over(self.active, self.limits.total_active_users()))
            .max(over(
                self.admitted_last_minute as i64,
                self.limits.new_users_per_minute(),
            ));
    }

    /// A session that would have ended in `from_s` ends in `to_s`.
    pub(super) fn prolong(&mut self, from_s: usize, to_s: usize) {
        self.end_at(from_s, -1);
        self.end_at(to_s, 1);
    }

    fn end_at(&mut self, second: usize, count: i64) {
        if let Some(ends) = self.ends.get_mut(second) {
            *ends += count;
        }
    }

    /// Once a second.
    pub(super) fn tick(&mut self) {
        if self.waiting > 0 {
            self.idle_slot_seconds += self.free().min(self.waiting);
            self.slot_seconds += u64::from(self.limits.total_active_users());
        }
    }

    pub(super) fn idle_slot_percent(&self) -> f64 {
        100.0 * self.idle_slot_seconds as f64 / self.slot_seconds.max(1) as f64
    }
}
