//! What came of a simulated world.

use serde::Serialize;

/// The figures of one strategy. The names are a contract with scripts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Visitors who got in.
    pub admitted: u64,
    /// Visitors who were told to wait when they came.
    pub queued: u64,
    /// Of those, the ones who were told so while a slot was free for them.
    pub early_queued: u64,
    /// Most users above either limit at any instant.
    pub overshoot: u64,
    /// Of those who waited and got in.
    pub wait_seconds: WaitSeconds,
    /// How far the first shown wait was from the real one, of those who waited and got in, in percent of the real one (of a
    /// minute, where it was shorter: whole minutes are shown).
    pub estimate_error_percent: Median,
    /// Slots free while somebody waited, in percent of all slots for as long as somebody waited.
    pub idle_slot_percent: f64,
    /// From the request of an admitted visitor to the decision: what asking counters cost.
    pub admission_latency_ms: LatencyMs,
}

/// Percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WaitSeconds {
    pub p50: f64,
    pub p99: f64,
}

/// Percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyMs {
    pub p50: f64,
    pub p99: f64,
}

/// A median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Median {
    pub p50: f64,
}

/// The world at one time of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    pub at_seconds: u64,
    pub active: u64,
    pub waiting: u64,
    /// Admissions in the minute before.
    pub admitted_last_minute: u64,
}

/// An outcome and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub strategy: &'static str,
    pub outcome: Outcome,
    pub visitors: u64,
    /// Utilization of the nearer limit, in percent, when the first visitor was told to wait.
    pub first_queued_at_percent: Option<f64>,
    /// Visitors who gave up.
    pub gave_up: u64,
    /// Calls to a data center's counter and to the counter of all, with their round trips.
    pub local_calls_ms: CallsMs,
    pub anywhere_calls_ms: CallsMs,
    /// Requests that found no answer at all.
    pub errors: u64,
    /// Active users as the gates believe at the end, less those there are.
    pub count_error_at_end: i64,
    pub samples: Vec<Sample>,
}

/// Round trips to a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallsMs {
    pub calls: u64,
    pub p50: f64,
    pub p99: f64,
}

/// A percentile of sorted values; 0 of none.
pub(super) fn percentile(sorted: &[f32], percent: f64) -> f64 {
    let last = match sorted.len() {
        0 => return 0.0,
        len => len - 1,
    };
    let at = (last as f64 * percent / 100.0).round() as usize;
    // Values were rounded to thousandths when they were noted; show them so.
    (f64::from(sorted[at.min(last)]) * 1000.0).round() / 1000.0
}
