//! One room: brings limits, sessions, line and events together and decides. Everything it knows of the world is in its
//! arguments.

use std::collections::HashSet;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use super::decision::{Activity, Admission, Decision, Status};
use super::estimate::{self, Outflow};
use super::line::{Line, Standing};
use super::pace::Pace;
use super::plan::{InEffect, Phase, Plan, PrequeueOrder};
use super::rate::RateWindow;
use super::returned::Returned;
use super::sessions::{Live, Sessions, seconds};
use super::settings::{
    AdmissionPacing, Operation, QUEUE_PLACE_GRACE_SECONDS_MAX, QueueAll, QueueingMethod,
    RefreshInterval, SessionRenewal,
};
use super::shared::Shared;
use super::shuffle::Shuffle;
use super::time::Millis;
use super::view::{EventPhase, WaitTime, WaitView};
use super::visitor::{Place, Session, Ticket, VisitorId, Waiting};

/// In a lottery, slots are offered as if this part of a refresh interval were to fill them: the larger, the shorter a free
/// slot idles, and the more it matters who happens to check in first.
const LOTTERY_HASTE: u64 = 4;

/// One room.
#[derive(Debug)]
pub struct Room {
    pub(super) plan: Plan,
    pub(super) in_effect: InEffect,
    /// The latest time seen; earlier ones count as this one.
    pub(super) now: Millis,
    pub(super) sessions: Sessions,
    pub(super) line: Line,
    pub(super) rate: RateWindow,
    pub(super) pace: Pace,
    pub(super) outflow: Outflow,
    /// Applied to places in turn; see [`Shuffle`].
    pub(super) shuffles: Vec<Shuffle>,
    pub(super) prequeue: Option<Prequeue>,
    pub(super) returned: Returned,
    pub(super) gap: Option<Gap>,
    /// `None` where this gate is alone.
    pub(super) shared: Option<Box<Shared>>,
    pub(super) rng: Pcg64Mcg,
    pub(super) admitted_total: u64,
    pub(super) sessions_revoked_total: u64,
}

/// The prequeue that is gathering, or gathered last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prequeue {
    /// The event's start names the event.
    pub(super) event_starts_at: Millis,
    /// The place of its first visitor.
    pub(super) from: u64,
}

/// What happened between the last snapshot and the death of the process is known only from tickets. Each is believed once.
#[derive(Debug)]
pub(super) struct Gap {
    pub(super) saved_at: Millis,
    pub(super) started_at: Millis,
    /// Places given in the gap lie in this range.
    pub(super) places: std::ops::Range<u64>,
    pub(super) claimed: HashSet<VisitorId>,
}

/// Whether a request without a place may take one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Newcomer {
    Joins,
    TurnedAway,
}

/// What the room does with new visitors at this instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// As many as the limits allow.
    Limited,
    /// Everyone (`passthrough`).
    Open,
    /// They gather (`queue_all`, prequeue).
    Gathering,
    /// They are sent away (`reject`).
    Rejecting,
}

/// Somebody who has, or is about to get, a place.
struct Candidate {
    visitor: VisitorId,
    joined_at: Millis,
    last_check_in: Millis,
}

impl Room {
    /// An empty room. Equal seeds and equal calls give equal answers; gates that share a room take different seeds.
    pub fn new(plan: Plan, seed: u64, now: Millis) -> Self {
        let in_effect = plan.in_effect(now);
        let mut room = Self {
            plan,
            in_effect,
            now,
            sessions: Sessions::new(now),
            line: Line::new(0, seconds(now)),
            rate: RateWindow::default(),
            pace: Pace::default(),
            outflow: Outflow::new(now),
            shuffles: Vec::new(),
            prequeue: None,
            returned: Returned::default(),
            gap: None,
            shared: None,
            rng: Pcg64Mcg::seed_from_u64(seed),
            admitted_total: 0,
            sessions_revoked_total: 0,
        };
        room.enter_phase();
        room
    }

    /// Decides a request that carries `ticket`, or none.
    pub fn check_in(&mut self, now: Millis, ticket: Option<Ticket>) -> Decision {
        self.decide(now, ticket, Newcomer::Joins)
    }

    /// Decides a request that must not take a place in the line: a sub-resource, a prefetch. It is admitted where a newcomer
    /// would be.
    pub fn observe(&mut self, now: Millis, ticket: Option<Ticket>) -> Decision {
        self.decide(now, ticket, Newcomer::TurnedAway)
    }

    /// Gives back the ticket's place or session. `false` when there was neither.
    pub fn leave(&mut self, now: Millis, ticket: Ticket) -> bool {
        self.advance(now);
        self.take_up(&ticket);
        match ticket {
            Ticket::Session(session) => {
                self.end_everywhere(session.visitor);
                self.sessions.remove(session.visitor)
            }
            Ticket::Waiting(waiting) => match self.find_place(waiting.visitor, Some(waiting.place))
            {
                Some((_, index)) => {
                    self.line.remove(index);
                    true
                }
                None => self.sessions.remove(waiting.visitor),
            },
        }
    }

    /// Ends a session on the origin's word. The slot is free at once. `false` when the visitor has no session.
    pub fn revoke(&mut self, now: Millis, visitor: VisitorId) -> bool {
        self.advance(now);
        let revoked = self.sessions.remove(visitor);
        self.end_everywhere(visitor);
        self.sessions_revoked_total += u64::from(revoked);
        revoked
    }

    /// Takes over a new plan. Sessions and places stay.
    pub fn reconfigure(&mut self, now: Millis, plan: Plan) {
        self.advance(now);
        self.plan = plan;
        self.in_effect = self.plan.in_effect(self.now);
        self.enter_phase();
    }

    /// Whether nobody is held back at `now`: the room is suspended, or `passthrough` is in effect.
    pub fn lets_all_pass(&mut self, now: Millis) -> bool {
        self.advance(now);
        self.in_effect.settings.operation == Operation::Suspended || self.door() == Door::Open
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The room as it stands.
    pub fn status(&mut self, now: Millis) -> Status {
        self.advance(now);
        let settings = self.in_effect.settings;
        let queued = self.waiters();
        let active_users = self.active_users();
        let activity = match self.in_effect.event {
            _ if settings.operation == Operation::Suspended => Activity::Suspended,
            Some((_, Phase::Prequeue)) => Activity::EventPrequeueing,
            Some((_, Phase::Running)) | None if queued > 0 => Activity::Queueing,
            Some((_, Phase::Running)) | None => Activity::NotQueueing,
        };
        let wait_time = if queued == 0 && self.free_slots() > 0 {
            WaitTime::Known {
                percentile_25_minutes: 0,
                percentile_50_minutes: 0,
                percentile_75_minutes: 0,
            }
        } else {
            self.wait_time(queued)
        };
        Status {
            activity,
            active_users,
            queued_users: queued,
            places: self.line.alive(),
            new_users_last_minute: self.rate.total(),
            admitted_total: self.admitted_total,
            sessions_revoked_total: self.sessions_revoked_total,
            total_active_users: settings.limits.total_active_users(),
            new_users_per_minute: settings.limits.new_users_per_minute(),
            wait_time,
            event: self.event_phase(),
            event_index: self.in_effect.event.map(|(index, _)| index),
        }
    }

    /// Lets time pass: sessions end, silent waiters become absent, events begin and end. Never goes back.
    pub(super) fn advance(&mut self, now: Millis) {
        self.now = self.now.max(now);
        let now = self.now;
        self.outflow.advance(now, self.waiters() > 0);
        self.sessions.advance(now);
        self.rate.advance(now);
        let grace = self.grace_seconds();
        self.line.advance(seconds(now), grace);
        self.advance_shared();
        if now >= self.in_effect.until {
            self.in_effect = self.plan.in_effect(now);
            self.enter_phase();
        }
        if let Some(gap) = &self.gap {
            let settings = &self.in_effect.settings;
            let useful = u64::from(grace).max(u64::from(settings.session_duration.as_seconds()));
            if now.millis_since(gap.started_at) > useful * 1000 {
                self.gap = None;
            }
        }
    }

    fn decide(&mut self, now: Millis, ticket: Option<Ticket>, newcomer: Newcomer) -> Decision {
        self.advance(now);
        if self.in_effect.settings.operation == Operation::Suspended {
            return Decision::Bypass;
        }
        let Some(ticket) = ticket else {
            let visitor = VisitorId(self.rng.random());
            return self.newcomer(visitor, newcomer);
        };
        let (visitor, joined_at, place, last_check_in) = match ticket {
            Ticket::Session(s) => (s.visitor, s.joined_at, None, s.last_check_in),
            Ticket::Waiting(w) => (w.visitor, w.joined_at, Some(w.place), w.last_check_in),
        };
        self.adopt(&ticket);
        self.take_up(&ticket);
        if let Some(live) = self.sessions.get(visitor) {
            if self.in_effect.settings.queue_all != QueueAll::Everyone {
                return self.renew(visitor, joined_at, live);
            }
            self.sessions.remove(visitor);
        }
        if let Some((place, index)) = self.find_place(visitor, place) {
            let candidate = Candidate {
                visitor,
                joined_at,
                last_check_in,
            };
            return self.waiter(candidate, place, index);
        }
        let decision = self.newcomer(visitor, newcomer);
        if let Decision::Wait { ticket, .. } = &decision {
            self.returned.insert(visitor, ticket.place);
        }
        decision
    }

    pub(super) fn door(&self) -> Door {
        let settings = &self.in_effect.settings;
        let prequeueing = matches!(self.in_effect.event, Some((_, Phase::Prequeue)));
        if settings.queue_all != QueueAll::Off || prequeueing {
            return Door::Gathering;
        }
        match settings.queueing_method {
            QueueingMethod::Fifo | QueueingMethod::Random => Door::Limited,
            QueueingMethod::Passthrough => Door::Open,
            QueueingMethod::Reject => Door::Rejecting,
        }
    }

    /// Slots that somebody could take now.
    pub(super) fn free_slots(&self) -> u64 {
        let settings = &self.in_effect.settings;
        let limits = settings.limits;
        let pace = match settings.admission_pacing {
            AdmissionPacing::Burst => u64::MAX,
            AdmissionPacing::Smooth => self.pace.allows(self.now, self.pace_per_minute()),
        };
        if let Some(shared) = &self.shared {
            return shared.free_slots().min(pace);
        }
        let seats =
            u64::from(limits.total_active_users()).saturating_sub(self.sessions.len() as u64);
        let rate = u64::from(limits.new_users_per_minute()).saturating_sub(self.rate.total());
        seats.min(rate).min(pace)
    }

    /// A visitor without a place and without a session.
    fn newcomer(&mut self, visitor: VisitorId, newcomer: Newcomer) -> Decision {
        let candidate = Candidate {
            visitor,
            joined_at: self.now,
            last_check_in: self.now,
        };
        self.count_new_user();
        let enters = match self.door() {
            Door::Open => true,
            Door::Limited => {
                self.reaches_a_slot(self.line.next_index(), self.waiters()) && self.take_slot()
            }
            Door::Gathering => false,
            Door::Rejecting => return self.refuse(QueueFull::No),
        };
        if enters {
            return self.admit(&candidate);
        }
        if newcomer == Newcomer::TurnedAway {
            return self.refuse(QueueFull::No);
        }
        if self.line.alive() >= u64::from(self.in_effect.settings.waiters_max) {
            return self.refuse(QueueFull::Yes);
        }
        let refresh_seconds = self.refresh_interval_seconds(self.waiters());
        self.open_second();
        let index = self
            .line
            .join(seconds(self.now), present_seconds(refresh_seconds));
        self.wait(&candidate, index, Place(index), refresh_seconds)
    }

    /// The visitor who got `place`, now at `index` of the line, checks in.
    fn waiter(&mut self, mut candidate: Candidate, place: Place, index: u64) -> Decision {
        let ahead = self.waiters_before(index);
        let refresh_seconds = self.refresh_interval_seconds(ahead);
        let Some(standing) = self.line.standing(index) else {
            return self.newcomer(candidate.visitor, Newcomer::Joins);
        };
        let counts = self.check_in_counts(standing);
        if counts {
            self.line
                .check_in(index, seconds(self.now), present_seconds(refresh_seconds));
            candidate.last_check_in = self.now;
        }
        let enters = match self.door() {
            Door::Open => true,
            Door::Limited => {
                let free = self.free_slots();
                match self.in_effect.settings.queueing_method {
                    // In a shared room the draw came before the slot, in `asks`.
                    QueueingMethod::Random if self.shared.is_some() => counts && self.take_slot(),
                    QueueingMethod::Random => counts && self.draws_a_slot(free),
                    QueueingMethod::Fifo | QueueingMethod::Passthrough | QueueingMethod::Reject => {
                        self.reaches_a_slot(index, ahead) && self.take_slot()
                    }
                }
            }
            Door::Gathering => false,
            Door::Rejecting => return self.refuse(QueueFull::No),
        };
        if enters {
            self.line.remove(index);
            self.outflow.record(self.now);
            return self.admit(&candidate);
        }
        self.wait(&candidate, index, place, refresh_seconds)
    }

    /// Whether the slots that are free reach back to `index`, which has `ahead` waiters before it.
    fn reaches_a_slot(&mut self, index: u64, ahead: u64) -> bool {
        let free = self.free_slots();
        match self.shared {
            Some(_) => ahead < free,
            None => !self.line.has_present_before(index, free),
        }
    }

    /// Whether a check-in does anything. Early by a second still counts: whole seconds are all that is known.
    pub(super) fn check_in_counts(&self, standing: Standing) -> bool {
        !standing.present
            || u32::from(standing.seconds_since_check_in) + 1 >= self.least_refresh_seconds()
    }

    /// One draw of one present waiter among all.
    pub(super) fn draws_a_slot(&mut self, free: u64) -> bool {
        let present = self.waiters();
        if present <= free {
            return true;
        }
        let favourable = free.saturating_mul(LOTTERY_HASTE).min(present);
        self.rng.random_range(0..present) < favourable
    }

    fn admit(&mut self, candidate: &Candidate) -> Decision {
        let settings = self.in_effect.settings;
        let now = self.now;
        self.rate.record(now);
        if settings.admission_pacing == AdmissionPacing::Smooth {
            self.pace.take(now, self.pace_per_minute());
        }
        self.admitted_total += 1;
        self.sessions
            .insert(candidate.visitor, now, settings.session_duration);
        Decision::Admit {
            session: Session {
                visitor: candidate.visitor,
                joined_at: candidate.joined_at,
                accepted_at: now,
                last_check_in: now,
            },
            admission: Admission::New,
            lifetime_seconds: settings.session_duration.as_seconds(),
        }
    }

    /// A request of an active user.
    fn renew(&mut self, visitor: VisitorId, joined_at: Millis, live: Live) -> Decision {
        let settings = &self.in_effect.settings;
        let live = match settings.session_renewal {
            SessionRenewal::EachRequest => self
                .sessions
                .renew(visitor, self.now, settings.session_duration)
                .unwrap_or(live),
            SessionRenewal::Disabled => live,
        };
        Decision::Admit {
            session: Session {
                visitor,
                joined_at,
                accepted_at: live.accepted_at,
                last_check_in: self.now,
            },
            admission: Admission::Renewed,
            lifetime_seconds: live.ends_at_s.saturating_sub(seconds(self.now)),
        }
    }

    fn wait(
        &mut self,
        candidate: &Candidate,
        index: u64,
        place: Place,
        refresh_seconds: u32,
    ) -> Decision {
        let ahead = self.waiters_before(index);
        let mut view = self.view(ahead, candidate.last_check_in);
        view.refresh_interval_seconds = refresh_seconds;
        if self.is_ordered() {
            view.position = Some(ahead + 1);
        }
        Decision::Wait {
            ticket: Waiting {
                visitor: candidate.visitor,
                place,
                joined_at: candidate.joined_at,
                last_check_in: candidate.last_check_in,
            },
            view,
            lifetime_seconds: u32::from(self.grace_seconds()),
        }
    }

    fn refuse(&mut self, queue_full: QueueFull) -> Decision {
        let present = self.waiters();
        let mut view = self.view(present, self.now);
        if queue_full == QueueFull::Yes {
            view.queue_is_full = true;
        }
        if self.door() == Door::Rejecting {
            view.refresh_interval_seconds = 0;
        }
        Decision::Refuse { view }
    }

    fn view(&mut self, ahead: u64, last_updated: Millis) -> WaitView {
        let wait_time = self.wait_time(ahead);
        let queue_is_full = matches!(wait_time, WaitTime::Known { percentile_50_minutes, .. }
            if percentile_50_minutes > estimate::WAIT_MINUTES_MAX);
        WaitView {
            position: None,
            wait_time,
            queue_is_full,
            queue_all: self.in_effect.settings.queue_all != QueueAll::Off,
            queueing_method: self.in_effect.settings.queueing_method,
            last_updated,
            refresh_interval_seconds: self.least_refresh_seconds(),
            event: self.event_phase(),
            event_index: self.in_effect.event.map(|(index, _)| index),
            now: self.now,
        }
    }

    /// The wait of somebody with `ahead` present waiters before him.
    fn wait_time(&self, ahead: u64) -> WaitTime {
        if self.door() != Door::Limited {
            return WaitTime::Unknown;
        }
        let settings = &self.in_effect.settings;
        let sustained =
            estimate::sustained_per_minute(settings.limits, settings.session_duration.as_seconds());
        let per_minute = self
            .shared_per_minute(sustained)
            .unwrap_or_else(|| self.outflow.per_minute(self.now, sustained));
        if settings.queueing_method == QueueingMethod::Random {
            let people = self.waiters().max(1);
            return estimate::drawn_wait(people, per_minute);
        }
        let people = (ahead + 1).saturating_sub(self.free_slots()).max(1);
        estimate::ordered_wait(people, per_minute)
    }

    /// Whether somebody is the next to enter.
    fn is_ordered(&self) -> bool {
        let shuffled_prequeue = matches!(
            self.event_phase(),
            EventPhase::Prequeueing {
                shuffle_at_event_start: true,
                ..
            }
        );
        !shuffled_prequeue
            && match self.in_effect.settings.queueing_method {
                QueueingMethod::Fifo => true,
                QueueingMethod::Random | QueueingMethod::Passthrough | QueueingMethod::Reject => {
                    false
                }
            }
    }

    fn event_phase(&self) -> EventPhase {
        let Some((index, phase)) = self.in_effect.event else {
            return EventPhase::None;
        };
        let event = &self.plan.events()[index];
        let shuffle_at_event_start = event.prequeue_order() == PrequeueOrder::Shuffled;
        match phase {
            Phase::Prequeue => EventPhase::Prequeueing {
                starts_at: event.starts_at(),
                ends_at: event.ends_at(),
                shuffle_at_event_start,
            },
            Phase::Running => EventPhase::Active {
                ends_at: event.ends_at(),
                shuffle_at_event_start,
            },
        }
    }

    /// Remembers where a prequeue begins, and shuffles it when its event starts.
    pub(super) fn enter_phase(&mut self) {
        let Some((index, phase)) = self.in_effect.event else {
            return;
        };
        let event = &self.plan.events()[index];
        let gathered = self
            .prequeue
            .filter(|prequeue| prequeue.event_starts_at == event.starts_at());
        match phase {
            Phase::Prequeue if gathered.is_none() => {
                self.prequeue = Some(Prequeue {
                    event_starts_at: event.starts_at(),
                    from: self.line.next_index(),
                });
            }
            Phase::Prequeue => {}
            Phase::Running => {
                if let Some(Prequeue { from, .. }) = gathered
                    && event.prequeue_order() == PrequeueOrder::Shuffled
                {
                    self.shuffle(from);
                }
                self.prequeue = None;
            }
        }
    }

    fn shuffle(&mut self, from: u64) {
        let shuffle = Shuffle {
            from,
            length: self.line.next_index().saturating_sub(from),
            key: self.rng.random(),
        };
        self.line.rearrange(|index| shuffle.apply(index));
        self.shuffles.push(shuffle);
        // Nobody holds a place of a shuffle before the line's head any more, so few are ever kept.
        let head = self.line.head_index();
        self.shuffles
            .retain(|shuffle| shuffle.from + shuffle.length > head);
    }

    /// Where a visitor stands: at the place of its ticket, or at the one it got for a dead ticket. The place, and the index it
    /// has in the line.
    pub(super) fn find_place(
        &mut self,
        visitor: VisitorId,
        place: Option<Place>,
    ) -> Option<(Place, u64)> {
        let returned = self.returned.get(visitor);
        let places = [place, returned].into_iter().flatten();
        let mut found = places.map(|place| (place, self.index_at(place)));
        if let Some(found) = found.find(|(_, index)| self.line.standing(*index).is_some()) {
            return Some(found);
        }
        let place = place?;
        let gap = self.gap.as_mut()?;
        if !gap.places.contains(&place.0) || !gap.claimed.insert(visitor) {
            return None;
        }
        let present = present_seconds(self.least_refresh_seconds());
        self.line.claim(place.0, seconds(self.now), present);
        Some((place, place.0))
    }

    fn index_at(&self, place: Place) -> u64 {
        self.shuffles
            .iter()
            .fold(place.0, |index, shuffle| shuffle.apply(index))
    }

    /// Believes, once, a session ticket sealed after the last snapshot and before this process began.
    fn adopt(&mut self, ticket: &Ticket) {
        let (Ticket::Session(session), Some(gap)) = (ticket, self.gap.as_mut()) else {
            return;
        };
        let settings = &self.in_effect.settings;
        let seats = u64::from(settings.limits.total_active_users());
        if session.accepted_at > gap.saved_at
            && session.accepted_at <= gap.started_at
            && (self.sessions.len() as u64) < seats
            && self.sessions.get(session.visitor).is_none()
            && gap.claimed.insert(session.visitor)
        {
            self.rate.record(self.now);
            self.sessions
                .insert(session.visitor, self.now, settings.session_duration);
        }
    }

    pub(super) fn grace_seconds(&self) -> u16 {
        let settings = &self.in_effect.settings;
        let interval = match settings.refresh_interval {
            RefreshInterval::Fixed { seconds } => seconds.get(),
            RefreshInterval::Adaptive { seconds_max, .. } => seconds_max.get(),
        };
        let grace = settings
            .queue_place_grace_seconds
            .min(QUEUE_PLACE_GRACE_SECONDS_MAX)
            .max(u32::from(present_seconds(interval)));
        u16::try_from(grace).unwrap_or(u16::MAX)
    }

    pub(super) fn least_refresh_seconds(&self) -> u32 {
        match self.in_effect.settings.refresh_interval {
            RefreshInterval::Fixed { seconds } => seconds.get(),
            RefreshInterval::Adaptive { seconds_min, .. } => seconds_min.get(),
        }
    }

    /// When somebody with `ahead` waiters before him should come back. Adaptive: after a quarter of what his wait seems to be,
    /// give or take a tenth.
    fn refresh_interval_seconds(&mut self, ahead: u64) -> u32 {
        let (least, most) = match self.in_effect.settings.refresh_interval {
            RefreshInterval::Fixed { seconds } => return seconds.get(),
            RefreshInterval::Adaptive {
                seconds_min,
                seconds_max,
            } => (seconds_min.get(), seconds_max.get()),
        };
        let WaitTime::Known {
            percentile_50_minutes,
            ..
        } = self.wait_time(ahead)
        else {
            return self.jittered(most, least, most);
        };
        let quarter = percentile_50_minutes.saturating_mul(60) / 4;
        // The last minute of a wait is where a free slot waits for its visitor.
        let wanted = if percentile_50_minutes <= 1 {
            least
        } else {
            u32::try_from(quarter).unwrap_or(most)
        };
        self.jittered(wanted, least, most)
    }

    fn jittered(&mut self, wanted: u32, least: u32, most: u32) -> u32 {
        let spread = wanted / 10;
        let jitter = self.rng.random_range(0..=2 * spread);
        (wanted + jitter).saturating_sub(spread).clamp(least, most)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueFull {
    Yes,
    No,
}

/// Two and a half intervals: one lost check-in makes nobody absent.
pub(super) fn present_seconds(refresh_seconds: u32) -> u16 {
    u16::try_from((refresh_seconds * 5).div_ceil(2)).unwrap_or(u16::MAX)
}
