//! Runs side by side as one page that needs nothing else: what to conclude, then the figures, then charts over time.

use std::fmt::Write as _;

use super::outcome::{Run, Sample};
use super::scenario::{FailureKind, Scenario};
use super::table::figures;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 220.0;
const MARGIN: f64 = 46.0;
/// One colour a strategy, told apart without colour vision as well.
const COLORS: [&str; 3] = ["#b45309", "#7c3aed", "#047857"];
const DASHES: [&str; 3] = ["6 3", "2 3", "none"];

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1c1917;--soft:#78716c;--line:#d6d3d1;--paper:#fff;--bad:#b91c1c;--good:#047857}
@media (prefers-color-scheme:dark){:root{--ink:#f5f5f4;--soft:#a8a29e;--line:#44403c;--paper:#1c1917;--bad:#f87171;--good:#34d399}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:1000px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .3rem}p{margin:.3rem 0}.soft{color:var(--soft)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(17rem,1fr));gap:1rem;margin:1.5rem 0}
.card{border:1px solid var(--line);border-top:6px solid;border-radius:8px;padding:.8rem 1rem}
.card b{font-size:1.15rem}.card ul{margin:.4rem 0 0;padding:0;list-style:none}.good{color:var(--good)}.bad{color:var(--bad)}
.table{overflow-x:auto}table{border-collapse:collapse;width:100%}td,th{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--line)}
td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--soft)}
.limit{stroke:var(--bad);stroke-dasharray:2 4}.axis{stroke:var(--line)}.failure{fill:var(--bad);opacity:.12}
";

/// Title, explanation, figure and its limit.
type Chart = (&'static str, &'static str, fn(&Sample) -> u64, Option<u32>);

/// The page.
pub fn render(scenario: &Scenario, seed: u64, runs: &[Run]) -> String {
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,\
         initial-scale=1\"><title>{name} – gate simulate</title><style>{STYLE}</style></head><body><h1>{name}</h1><p>{about}</p>\
         <p class=\"soft\">{visitors} visitors in {time}, {centers} data centers with {gates} gates. Limits: {total} active users, \
         {minute} new users per minute. Seed {seed}; every strategy met the same visitors.</p>",
        name = escape(&scenario.name),
        about = escape(&scenario.description),
        visitors = runs.first().map_or(0, |run| run.visitors),
        time = span(scenario.duration_seconds),
        centers = scenario.data_centers.len(),
        gates = scenario
            .data_centers
            .iter()
            .map(|center| center.gates)
            .sum::<usize>(),
        total = scenario.total_active_users,
        minute = scenario.new_users_per_minute,
    );
    cards(&mut page, runs);
    table(&mut page, runs);
    let charts: [Chart; 3] = [
        (
            "Active users",
            "A line above the limit is an overshoot; one well below it while people wait is a slot wasted.",
            |sample| sample.active,
            Some(scenario.total_active_users),
        ),
        (
            "New users in the minute before",
            "The second limit.",
            |sample| sample.admitted_last_minute,
            Some(scenario.new_users_per_minute),
        ),
        (
            "Visitors waiting",
            "Lower is better, as long as the limits hold.",
            |sample| sample.waiting,
            None,
        ),
    ];
    for (title, about, value, limit) in charts {
        _ = write!(page, "<h2>{title}</h2><p class=\"soft\">{about}</p>");
        chart(&mut page, scenario, runs, value, limit);
    }
    page.push_str("</body></html>\n");
    page
}

fn cards(page: &mut String, runs: &[Run]) {
    page.push_str("<div class=\"cards\">");
    for (at, run) in runs.iter().enumerate() {
        let early = 100.0 * run.outcome.early_queued as f64 / run.visitors.max(1) as f64;
        let verdict = |good: bool, text: String| {
            let (class, mark) = if good {
                ("good", "✓")
            } else {
                ("bad", "✗")
            };
            format!("<li class=\"{class}\">{mark} {text}</li>")
        };
        let limits = match run.outcome.overshoot {
            0 => verdict(true, "never above a limit".to_owned()),
            over => verdict(false, format!("up to {over} users above a limit")),
        };
        let queue = if run.outcome.early_queued == 0 {
            verdict(true, "nobody queued while a slot was free".to_owned())
        } else {
            let text = format!(
                "{early:.2} % of visitors ({}) queued while a slot was free",
                run.outcome.early_queued
            );
            verdict(early <= 1.0, text)
        };
        let latency = run.outcome.admission_latency_ms;
        _ = write!(
            page,
            "<div class=\"card\" style=\"border-top-color:{}\"><b>{}</b><ul>{limits}{queue}<li>{} let in; {} had to wait, half of \
             them less than {}</li><li>+{:.0} ms to let one in ({:.0} ms at worst for 99 of 100)</li></ul></div>",
            color(at),
            run.strategy,
            run.outcome.admitted,
            run.outcome.queued,
            span(run.outcome.wait_seconds.p50 as u64),
            latency.p50,
            latency.p99,
        );
    }
    page.push_str("</div>");
}

fn table(page: &mut String, runs: &[Run]) {
    page.push_str("<div class=\"table\"><table><tr><th></th>");
    for run in runs {
        _ = write!(page, "<th>{}</th>", run.strategy);
    }
    page.push_str("</tr>");
    for (name, cell) in figures() {
        _ = write!(page, "<tr><td>{name}</td>");
        for run in runs {
            _ = write!(page, "<td>{}</td>", cell(run));
        }
        page.push_str("</tr>");
    }
    page.push_str("</table></div>");
}

fn chart(
    page: &mut String,
    scenario: &Scenario,
    runs: &[Run],
    value: fn(&Sample) -> u64,
    limit: Option<u32>,
) {
    let highest = runs
        .iter()
        .flat_map(|run| run.samples.iter().map(value))
        .chain(limit.map(u64::from))
        .max()
        .unwrap_or(0)
        .max(1) as f64
        * 1.05;
    let seconds = scenario.duration_seconds as f64;
    let x = |at: f64| MARGIN + (WIDTH - MARGIN - 8.0) * at / seconds;
    let y = |v: f64| HEIGHT - 24.0 - (HEIGHT - 40.0) * v / highest;
    _ = write!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><line class=\"axis\" x1=\"{MARGIN}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" \
         y2=\"{0:.1}\"/><text x=\"{1:.0}\" y=\"{2:.0}\" text-anchor=\"end\">0</text>",
        y(0.0),
        MARGIN - 6.0,
        y(0.0) + 4.0,
    );
    for failure in &scenario.failures {
        let (from, name) = (failure.at_seconds as f64, failure_name(&failure.kind));
        let to = (from + failure.for_seconds as f64).max(from + seconds / 300.0);
        _ = write!(
            page,
            "<rect class=\"failure\" x=\"{:.1}\" width=\"{:.1}\" y=\"0\" height=\"{:.1}\"/><text x=\"{:.1}\" y=\"10\">{name}</text>",
            x(from),
            x(to) - x(from),
            HEIGHT - 24.0,
            x(from),
        );
    }
    if let Some(limit) = limit {
        let at = y(f64::from(limit));
        _ = write!(
            page,
            "<line class=\"limit\" x1=\"{MARGIN}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{:.0}\" y=\"{:.1}\" \
             text-anchor=\"end\">{limit}</text>",
            MARGIN - 6.0,
            at + 4.0,
        );
    } else {
        let top = highest / 1.05;
        _ = write!(
            page,
            "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{top:.0}</text>",
            MARGIN - 6.0,
            y(top) + 4.0
        );
    }
    for (at, run) in runs.iter().enumerate() {
        let points: String = run
            .samples
            .iter()
            .fold(String::new(), |mut points, sample| {
                _ = write!(
                    points,
                    "{:.1},{:.1} ",
                    x(sample.at_seconds as f64),
                    y(value(sample) as f64)
                );
                points
            });
        _ = write!(
            page,
            "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\" points=\"{points}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" style=\"fill:{}\">— {}</text>",
            color(at),
            DASHES[at % DASHES.len()],
            MARGIN + 90.0 * at as f64,
            HEIGHT - 4.0,
            color(at),
            run.strategy,
        );
    }
    _ = write!(
        page,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text></svg>",
        WIDTH - 8.0,
        HEIGHT - 4.0,
        span(scenario.duration_seconds)
    );
}

fn color(at: usize) -> &'static str {
    COLORS[at % COLORS.len()]
}

fn failure_name(kind: &FailureKind) -> &'static str {
    match kind {
        FailureKind::CounterSlow { .. } => "counter slow",
        FailureKind::CounterGone { .. } => "counter gone",
        FailureKind::CounterEmptied { .. } => "counter emptied",
        FailureKind::GateKilled { .. } => "gate killed",
        FailureKind::GateFrozen { .. } => "gate frozen",
        FailureKind::ClockWrong { .. } => "clock wrong",
        FailureKind::DataCenterCutOff { .. } => "cut off",
    }
}

fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{StrategyName, run};

    #[test]
    fn the_page_needs_nothing_else_and_escapes_names() {
        let mut scenario = Scenario::load("uneven-workers").unwrap();
        scenario.name = "<script>".to_owned();
        let runs: Vec<Run> = StrategyName::ALL
            .iter()
            .map(|strategy| run(&scenario, *strategy, 1).unwrap())
            .collect();
        let page = render(&scenario, 1, &runs);
        assert!(!page.contains("<script"));
        assert!(!page.contains("http"), "no other resource");
        assert_eq!(page.matches("<svg").count(), 3);
        assert_eq!(page.matches("<polyline").count(), 9);
        assert!(page.contains("25.00 % of visitors (2) queued while a slot was free"));
    }
}
