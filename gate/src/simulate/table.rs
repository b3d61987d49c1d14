//! Runs side by side, for a terminal.

use std::fmt::Write as _;

use super::outcome::Run;
use super::scenario::Scenario;

/// One row a figure, one column a strategy.
pub fn render(scenario: &Scenario, seed: u64, runs: &[Run]) -> String {
    let mut text = format!(
        "{}: {}\n{} visitors, {} s, limits {} active / {} new a minute, seed {seed}\n\n",
        scenario.name,
        scenario.description,
        runs.first().map_or(0, |run| run.visitors),
        scenario.duration_seconds,
        scenario.total_active_users,
        scenario.new_users_per_minute,
    );
    let mut row = |name: &str, cell: &dyn Fn(&Run) -> String| {
        // Writing to a string cannot fail.
        _ = write!(text, "{name:<42}");
        for run in runs {
            _ = write!(text, "{:>18}", cell(run));
        }
        text.push('\n');
    };
    row("", &|run| run.strategy.to_owned());
    for (name, cell) in figures() {
        row(name, &cell);
    }
    text
}

type Cell = fn(&Run) -> String;

/// Every figure by its name.
pub(super) fn figures() -> [(&'static str, Cell); 14] {
    [
        ("admitted", |run| run.outcome.admitted.to_string()),
        ("told to wait", |run| run.outcome.queued.to_string()),
        ("… of them with a slot free", |run| {
            let part = 100.0 * run.outcome.early_queued as f64 / run.visitors.max(1) as f64;
            format!("{} ({part:.2} %)", run.outcome.early_queued)
        }),
        ("utilization when the first had to wait", |run| {
            run.first_queued_at_percent
                .map_or("nobody had to".to_owned(), |at| format!("{at:.0} %"))
        }),
        ("most users above a limit", |run| {
            run.outcome.overshoot.to_string()
        }),
        ("gave up waiting", |run| run.gave_up.to_string()),
        ("wait, median", |run| {
            format!("{:.0} s", run.outcome.wait_seconds.p50)
        }),
        ("wait, 99 of 100 less than", |run| {
            format!("{:.0} s", run.outcome.wait_seconds.p99)
        }),
        ("first estimate off by, median", |run| {
            format!("{:.0} %", run.outcome.estimate_error_percent.p50)
        }),
        ("slots idle while somebody waited", |run| {
            format!("{:.1} %", run.outcome.idle_slot_percent)
        }),
        ("added to an admission, median / p99", |run| {
            let latency = run.outcome.admission_latency_ms;
            format!("{:.0} / {:.0} ms", latency.p50, latency.p99)
        }),
        ("calls to the data center's counter", |run| {
            calls(run.local_calls_ms)
        }),
        ("calls to the counter of all", |run| {
            calls(run.anywhere_calls_ms)
        }),
        ("requests nobody answered", |run| run.errors.to_string()),
    ]
}

fn calls(calls: super::outcome::CallsMs) -> String {
    match calls.calls {
        0 => "none".to_owned(),
        count => format!("{count} × {:.0} ms", calls.p50),
    }
}
