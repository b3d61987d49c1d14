//! The metrics answer, in Prometheus' text format. Labels are names of rooms, of interfaces and our own words, never anything a
//! client sends.

use std::fmt::Write as _;

use super::kernel_metrics::{self, Sample};
use super::status::{ClusterReport, Report, RoomReport, activity, wait_minutes};
use crate::cluster::{CounterHealth, Reach, RoomHealth};
use crate::kernel::KernelStatus;
use crate::room::Activity;

/// What a metric does over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

/// One metric's name, kind and meaning.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: Value,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Room(fn(&RoomReport) -> u64),
    /// No sample while it is not known, or where the gate is alone.
    SharedRoom(fn(&RoomHealth) -> Option<u64>),
    Proxy(fn(&Report) -> u64),
    /// No samples where the kernel part is off.
    Kernel(fn(&KernelStatus) -> Vec<Sample>),
    /// No samples where the gate is alone.
    Counter(fn(&ClusterReport, &CounterHealth) -> u64),
}

impl Metric {
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

const fn room(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: fn(&RoomReport) -> u64,
) -> Metric {
    Metric {
        name,
        kind,
        help,
        value: Value::Room(value),
    }
}

const fn proxy(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: fn(&Report) -> u64,
) -> Metric {
    Metric {
        name,
        kind,
        help,
        value: Value::Proxy(value),
    }
}

const fn kernel(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: fn(&KernelStatus) -> Vec<Sample>,
) -> Metric {
    Metric {
        name,
        kind,
        help,
        value: Value::Kernel(value),
    }
}

const fn shared_room(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: fn(&RoomHealth) -> Option<u64>,
) -> Metric {
    Metric {
        name,
        kind,
        help,
        value: Value::SharedRoom(value),
    }
}

const fn counter(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: fn(&ClusterReport, &CounterHealth) -> u64,
) -> Metric {
    Metric {
        name,
        kind,
        help,
        value: Value::Counter(value),
    }
}

/// Every metric there is, the state of rooms aside.
pub const METRICS: &[Metric] = &[
    room(
        "gate_active_users",
        Kind::Gauge,
        "Sessions alive.",
        |room| room.status.active_users,
    ),
    room(
        "gate_queued_users",
        Kind::Gauge,
        "Waiters that are present.",
        |room| room.status.queued_users,
    ),
    room(
        "gate_places",
        Kind::Gauge,
        "Waiters that have a place, present or not.",
        |room| room.status.places,
    ),
    room(
        "gate_total_active_users_limit",
        Kind::Gauge,
        "The limit in effect on active users.",
        |room| u64::from(room.status.total_active_users),
    ),
    room(
        "gate_new_users_per_minute_limit",
        Kind::Gauge,
        "The limit in effect on new users in any 60 seconds.",
        |room| u64::from(room.status.new_users_per_minute),
    ),
    room(
        "gate_new_users_last_minute",
        Kind::Gauge,
        "Users admitted in the last 60 seconds.",
        |room| room.status.new_users_last_minute,
    ),
    room(
        "gate_admitted_total",
        Kind::Counter,
        "Users admitted.",
        |room| room.status.admitted_total,
    ),
    room(
        "gate_sessions_revoked_total",
        Kind::Counter,
        "Sessions ended on the origin's word.",
        |room| room.status.sessions_revoked_total,
    ),
    room(
        "gate_wait_minutes",
        Kind::Gauge,
        "The wait of one who joins now; 0 when unknown.",
        |room| wait_minutes(&room.status),
    ),
    proxy(
        "gate_connections",
        Kind::Gauge,
        "Client connections open.",
        |report| report.proxy.connections,
    ),
    proxy(
        "gate_requests_total",
        Kind::Counter,
        "Requests read.",
        |report| report.proxy.requests_total,
    ),
    proxy(
        "gate_forwarded_total",
        Kind::Counter,
        "Requests forwarded to the origin.",
        |report| report.proxy.forwarded_total,
    ),
    proxy(
        "gate_queued_answers_total",
        Kind::Counter,
        "Requests answered with the waiting page or its JSON.",
        |report| report.proxy.queued_answers_total,
    ),
    proxy(
        "gate_origin_failures_total",
        Kind::Counter,
        "Requests the origin failed, or was too late for.",
        |report| report.proxy.origin_failures_total,
    ),
    proxy(
        "gate_rate_limited_total",
        Kind::Counter,
        "Requests of sources over their rate.",
        |report| report.proxy.rate_limited_total,
    ),
    kernel(
        "gate_kernel_packets_total",
        Kind::Counter,
        "Packets the kernel program judged; refuse is dropped in enforce and only counted in monitor.",
        kernel_metrics::packets,
    ),
    kernel(
        "gate_kernel_mode",
        Kind::Gauge,
        "1 for the mode in effect.",
        kernel_metrics::mode,
    ),
    kernel(
        "gate_kernel_interface_mode",
        Kind::Gauge,
        "1 for how the interface is guarded.",
        kernel_metrics::interface_mode,
    ),
    kernel(
        "gate_kernel_map_entries",
        Kind::Gauge,
        "Entries of the kernel program's map; SOURCES is counted up to 65536.",
        kernel_metrics::map_entries,
    ),
    kernel(
        "gate_kernel_map_entries_limit",
        Kind::Gauge,
        "Most entries the map holds.",
        kernel_metrics::map_entries_limit,
    ),
    kernel(
        "gate_kernel_admitted_unknown_total",
        Kind::Counter,
        "Times a source with a session was not made known to the kernel.",
        kernel_metrics::admitted_unknown,
    ),
    kernel(
        "gate_kernel_requests_over_total",
        Kind::Counter,
        "Requests without a ticket over the source's rate, refused in enforce and only counted in monitor.",
        kernel_metrics::requests_over,
    ),
    shared_room(
        "gate_snapshot_age_milliseconds",
        Kind::Gauge,
        "How old what is known of the other gates is.",
        |health| health.snapshot_age_millis,
    ),
    shared_room(
        "gate_counter_answers_total",
        Kind::Counter,
        "Calls that counters answered.",
        |health| Some(health.counter_answers),
    ),
    shared_room(
        "gate_counter_failures_total",
        Kind::Counter,
        "New users decided without a counter because it was too slow or gone.",
        |health| Some(health.counter_failures),
    ),
    counter(
        "gate_counter_reachable",
        Kind::Gauge,
        "Whether the counter's last call was answered.",
        |_, counter| u64::from(counter.reach == Reach::Reachable),
    ),
    counter(
        "gate_counter_unreachable_milliseconds",
        Kind::Gauge,
        "For how long the counter has not answered; 0 while it does.",
        ClusterReport::silent_millis,
    ),
];

/// The body of `GET /metrics`. Names of rooms need no escaping: they are letters, digits, `_` and `-`.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    for metric in METRICS {
        head(&mut out, metric.name, metric.kind, metric.help);
        match metric.value {
            Value::Room(value) => {
                for room in &report.rooms {
                    let value = value(room);
                    line(
                        &mut out,
                        format_args!("{}{{room=\"{}\"}} {value}", metric.name, room.name),
                    );
                }
            }
            Value::SharedRoom(value) => {
                for room in &report.rooms {
                    if let Some(value) = room.health.as_ref().and_then(value) {
                        line(
                            &mut out,
                            format_args!("{}{{room=\"{}\"}} {value}", metric.name, room.name),
                        );
                    }
                }
            }
            Value::Proxy(value) => {
                line(&mut out, format_args!("{} {}", metric.name, value(report)))
            }
            Value::Kernel(value) => {
                for sample in report.kernel.iter().flat_map(value) {
                    let (labels, value) = (&sample.labels, sample.value);
                    if labels.is_empty() {
                        line(&mut out, format_args!("{} {value}", metric.name));
                    } else {
                        line(
                            &mut out,
                            format_args!("{}{{{labels}}} {value}", metric.name),
                        );
                    }
                }
            }
            Value::Counter(value) => {
                if let Some(cluster) = &report.cluster {
                    for counter in &cluster.counters {
                        let which = counter.scope.as_str();
                        line(
                            &mut out,
                            format_args!(
                                "{}{{counter=\"{which}\"}} {}",
                                metric.name,
                                value(cluster, counter)
                            ),
                        );
                    }
                }
            }
        }
    }
    head(
        &mut out,
        "gate_room_status",
        Kind::Gauge,
        "1 for what the room does now.",
    );
    for room in &report.rooms {
        for candidate in [
            Activity::EventPrequeueing,
            Activity::NotQueueing,
            Activity::Queueing,
            Activity::Suspended,
        ] {
            line(
                &mut out,
                format_args!(
                    "gate_room_status{{room=\"{}\",status=\"{}\"}} {}",
                    room.name,
                    activity(candidate),
                    u8::from(candidate == room.status.activity)
                ),
            );
        }
    }
    out
}

fn head(out: &mut String, name: &str, kind: Kind, help: &str) {
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    };
    line(out, format_args!("# HELP {name} {help}"));
    line(out, format_args!("# TYPE {name} {kind}"));
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    if out.write_fmt(text).is_ok() {
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_comment_or_a_sample() {
        let text = text(&super::super::status::tests::shared_report());
        assert!(text.contains("gate_snapshot_age_milliseconds{room=\"shop\"} 2500\n"));
        assert!(text.contains("gate_counter_reachable{counter=\"all\"} 0\n"));
        assert!(text.contains("gate_counter_reachable{counter=\"data_center\"} 1\n"));
        assert!(text.contains("gate_active_users{room=\"shop\"} 5\n"));
        assert!(text.contains("gate_queued_users{room=\"shop\"} 3\n"));
        assert!(text.contains("gate_room_status{room=\"shop\",status=\"queueing\"} 1\n"));
        for line in text.lines() {
            let sample = line
                .rsplit_once(' ')
                .is_some_and(|(_, value)| value.parse::<u64>().is_ok());
            assert!(line.starts_with("# ") || sample, "{line}");
        }
    }

    #[test]
    fn a_gate_alone_has_nothing_to_say_of_others() {
        let mut report = super::super::status::tests::report();
        assert!(!text(&report).contains("\ngate_counter_"));
        assert!(!text(&report).contains("\ngate_snapshot_"));
        report = super::super::status::tests::shared_report();
        report.rooms[0].health = report.rooms[0].health.map(|health| RoomHealth {
            snapshot_age_millis: None,
            ..health
        });
        assert!(!text(&report).contains("gate_snapshot_age_milliseconds{"));
    }

    #[test]
    fn names_follow_the_conventions() {
        for metric in METRICS {
            assert!(metric.name.starts_with("gate_"), "{}", metric.name);
            let counts = metric.kind == Kind::Counter;
            assert_eq!(metric.name.ends_with("_total"), counts, "{}", metric.name);
        }
    }
}
