//! The status answer. The first five members of a room are the field's own, the others are exact counts.

use serde::Serialize;

use crate::kernel::KernelStatus;
use crate::room::{Activity, Status, WaitTime};

/// What the proxy has done since it started. Counters only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProxyCounts {
    /// Client connections open now.
    pub connections: u64,
    pub requests_total: u64,
    /// Forwarded to the origin.
    pub forwarded_total: u64,
    /// Answered with the waiting page or its JSON.
    pub queued_answers_total: u64,
    /// The origin failed or was too late: 502 and 504.
    pub origin_failures_total: u64,
    /// Over the per-source rate: 429.
    pub rate_limited_total: u64,
}

/// One room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomReport {
    pub name: String,
    /// Name of the event in effect; empty when there is none, the field's way to say so.
    pub event_id: String,
    pub status: Status,
}

/// Everything an operator is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub rooms: Vec<RoomReport>,
    pub proxy: ProxyCounts,
    /// The kernel part's own status; nothing, `null` in JSON, when it is off.
    pub kernel: Option<KernelStatus>,
}

#[derive(Serialize)]
struct RoomStatus<'a> {
    name: &'a str,
    status: &'static str,
    event_id: &'a str,
    estimated_queued_users: u64,
    estimated_total_active_users: u64,
    max_estimated_time_minutes: u64,
    active_users: u64,
    queued_users: u64,
    places: u64,
    total_active_users: u32,
    new_users_per_minute: u32,
    new_users_last_minute: u64,
    admitted_total: u64,
    sessions_revoked_total: u64,
}

#[derive(Serialize)]
struct StatusAnswer<'a> {
    rooms: Vec<RoomStatus<'a>>,
    proxy: ProxyCounts,
    kernel: Option<&'a KernelStatus>,
}

/// The body of `GET /status`.
pub fn json(report: &Report) -> String {
    let answer = StatusAnswer {
        rooms: report.rooms.iter().map(room_status).collect(),
        proxy: report.proxy,
        kernel: report.kernel.as_ref(),
    };
    // Numbers and strings always serialize.
    serde_json::to_string(&answer).unwrap_or_default()
}

/// The field's word for what a room does.
pub(super) fn activity(activity: Activity) -> &'static str {
    match activity {
        Activity::EventPrequeueing => "event_prequeueing",
        Activity::NotQueueing => "not_queueing",
        Activity::Queueing => "queueing",
        Activity::Suspended => "suspended",
    }
}

/// 0 where nobody can say, the field's way.
pub(super) fn wait_minutes(status: &Status) -> u64 {
    match status.wait_time {
        WaitTime::Known {
            percentile_75_minutes,
            ..
        } => percentile_75_minutes,
        WaitTime::Unknown => 0,
    }
}

fn room_status(room: &RoomReport) -> RoomStatus<'_> {
    let status = &room.status;
    RoomStatus {
        name: &room.name,
        status: activity(status.activity),
        event_id: &room.event_id,
        estimated_queued_users: status.queued_users,
        estimated_total_active_users: status.active_users,
        max_estimated_time_minutes: wait_minutes(status),
        active_users: status.active_users,
        queued_users: status.queued_users,
        places: status.places,
        total_active_users: status.total_active_users,
        new_users_per_minute: status.new_users_per_minute,
        new_users_last_minute: status.new_users_last_minute,
        admitted_total: status.admitted_total,
        sessions_revoked_total: status.sessions_revoked_total,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::Value;

    use super::*;
    use crate::room::{Limits, Millis, Plan, Room, Settings};

    pub(crate) fn report() -> Report {
        let now = Millis::new(1_750_000_000_000);
        let settings = Settings::with_limits(Limits::new(5, 5).unwrap());
        let mut room = Room::new(Plan::new_without_events(settings), 1, now);
        for _ in 0..8 {
            room.check_in(now, None);
        }
        Report {
            rooms: vec![RoomReport {
                name: "shop".to_owned(),
                event_id: String::new(),
                status: room.status(now),
            }],
            proxy: ProxyCounts {
                requests_total: 8,
                ..ProxyCounts::default()
            },
            kernel: None,
        }
    }

    #[test]
    fn speaks_the_fields_words() {
        let parsed: Value = serde_json::from_str(&json(&report())).unwrap();
        let room = &parsed["rooms"][0];
        assert_eq!(room["name"], "shop");
        assert_eq!(room["status"], "queueing");
        assert_eq!(room["event_id"], "");
        assert_eq!(room["estimated_queued_users"], 3);
        assert_eq!(room["estimated_total_active_users"], 5);
        assert_eq!(room["new_users_last_minute"], 5);
        assert!(room["max_estimated_time_minutes"].as_u64().unwrap() >= 1);
        assert_eq!(parsed["proxy"]["requests_total"], 8);
        assert!(parsed["kernel"].is_null());
    }
}
