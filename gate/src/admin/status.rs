//! The status answer. The first five members of a room are the field's own, the others are exact counts.

use serde::Serialize;

use crate::cluster::{CounterHealth, Reach, RoomHealth};
use crate::kernel::KernelStatus;
use crate::room::{Activity, Millis, Status, WaitTime};

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
    /// How it stands with the other gates; `None` where it is this gate's alone.
    pub health: Option<RoomHealth>,
}

/// The gates that share the rooms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterReport {
    /// When this was seen.
    pub now: Millis,
    pub data_center: String,
    pub gate: String,
    pub counters: Vec<CounterHealth>,
}

impl ClusterReport {
    /// For how long a counter has not answered; 0 where it does.
    pub(super) fn silent_millis(&self, counter: &CounterHealth) -> u64 {
        match counter.reach {
            Reach::Reachable => 0,
            Reach::Unreachable { since } => self.now.millis_since(since),
        }
    }
}

/// Everything an operator is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub rooms: Vec<RoomReport>,
    pub proxy: ProxyCounts,
    /// `None` where the gate is alone.
    pub cluster: Option<ClusterReport>,
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
    /// `null` where the gate is alone.
    cluster: Option<RoomHealthStatus>,
}

#[derive(Serialize)]
struct RoomHealthStatus {
    /// `null` before anything is known of the others.
    snapshot_age_ms: Option<u64>,
    counter_answers_total: u64,
    counter_failures_total: u64,
}

#[derive(Serialize)]
struct ClusterStatus<'a> {
    data_center: &'a str,
    gate: &'a str,
    counters: Vec<CounterStatus<'a>>,
}

#[derive(Serialize)]
struct CounterStatus<'a> {
    counter: &'static str,
    reachable: bool,
    unreachable_ms: u64,
    last_error: Option<&'a str>,
}

#[derive(Serialize)]
struct StatusAnswer<'a> {
    rooms: Vec<RoomStatus<'a>>,
    proxy: ProxyCounts,
    cluster: Option<ClusterStatus<'a>>,
    kernel: Option<&'a KernelStatus>,
}

/// The body of `GET /status`.
pub fn json(report: &Report) -> String {
    let answer = StatusAnswer {
        rooms: report.rooms.iter().map(room_status).collect(),
        proxy: report.proxy,
        cluster: report.cluster.as_ref().map(cluster_status),
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
        cluster: room.health.map(|health| RoomHealthStatus {
            snapshot_age_ms: health.snapshot_age_millis,
            counter_answers_total: health.counter_answers,
            counter_failures_total: health.counter_failures,
        }),
    }
}

fn cluster_status(cluster: &ClusterReport) -> ClusterStatus<'_> {
    ClusterStatus {
        data_center: &cluster.data_center,
        gate: &cluster.gate,
        counters: cluster
            .counters
            .iter()
            .map(|counter| CounterStatus {
                counter: counter.scope.as_str(),
                reachable: counter.reach == Reach::Reachable,
                unreachable_ms: cluster.silent_millis(counter),
                last_error: counter.last_error.as_deref(),
            })
            .collect(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::Value;

    use super::*;
    use crate::cluster::CounterScope;
    use crate::room::{Limits, Plan, Room, Settings};

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
                health: None,
            }],
            cluster: None,
            proxy: ProxyCounts {
                requests_total: 8,
                ..ProxyCounts::default()
            },
            kernel: None,
        }
    }

    /// The same room, shared, with a counter that is gone.
    pub(crate) fn shared_report() -> Report {
        let mut report = report();
        report.rooms[0].health = Some(RoomHealth {
            snapshot_age_millis: Some(2_500),
            counter_answers: 7,
            counter_failures: 2,
        });
        let now = Millis::new(1_750_000_000_000);
        report.cluster = Some(ClusterReport {
            now,
            data_center: "fra".to_owned(),
            gate: "fra-1".to_owned(),
            counters: vec![
                CounterHealth {
                    scope: CounterScope::All,
                    reach: Reach::Unreachable {
                        since: now.minus_millis(3_000),
                    },
                    last_error: Some("a reason".to_owned()),
                },
                CounterHealth {
                    scope: CounterScope::DataCenter,
                    reach: Reach::Reachable,
                    last_error: None,
                },
            ],
        });
        report
    }

    #[test]
    fn a_cluster_is_there_only_where_there_is_one() {
        let alone: Value = serde_json::from_str(&json(&report())).unwrap();
        assert!(alone["cluster"].is_null());
        assert!(alone["rooms"][0]["cluster"].is_null());
        let shared: Value = serde_json::from_str(&json(&shared_report())).unwrap();
        assert_eq!(shared["rooms"][0]["cluster"]["snapshot_age_ms"], 2_500);
        let counters = &shared["cluster"]["counters"];
        assert_eq!(counters[0]["counter"], "all");
        assert_eq!(counters[0]["reachable"], false);
        assert_eq!(counters[0]["unreachable_ms"], 3_000);
        assert_eq!(counters[0]["last_error"], "a reason");
        assert_eq!(counters[1]["reachable"], true);
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
