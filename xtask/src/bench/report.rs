//! Rounds become medians, spreads and ratios; those become a table or JSON. Ratios are taken inside a round, where both
//! sides had the same machine, and only then is their median taken.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

/// CPU time of the subject over requests, in microseconds.
pub(super) const CPU_US_PER_REQUEST: &str = "cpu_us_per_request";
pub(super) const REQUESTS_PER_SECOND: &str = "requests_per_second";
pub(super) const P50_MS: &str = "p50_ms";
pub(super) const P99_MS: &str = "p99_ms";
pub(super) const RSS_KIB: &str = "rss_kib";

/// One measurement: figures by name, in the order they are shown. A name ends in its unit.
pub(super) type Sample = Vec<(&'static str, f64)>;

/// `figure` of a row over the same figure of the row of `to` in the same case and round, shown as `name`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio {
    pub figure: &'static str,
    pub to: &'static str,
    pub name: &'static str,
}

/// Median and extremes of one figure over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// `None` without a value.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (lower, upper) = (
            sorted.get((sorted.len() - 1) / 2)?,
            sorted.get(sorted.len() / 2)?,
        );
        Some(Self {
            median: f64::midpoint(*lower, *upper),
            min,
            max,
        })
    }

    fn json(self) -> Value {
        json!({ "median": rounded(self.median), "min": rounded(self.min), "max": rounded(self.max) })
    }

    fn text(self) -> String {
        if self.min.to_bits() == self.max.to_bits() {
            short(self.median)
        } else {
            format!(
                "{} ({}..{})",
                short(self.median),
                short(self.min),
                short(self.max)
            )
        }
    }
}

/// Five significant digits: what follows is noise.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let digits = 4 - value.abs().log10().floor() as i32;
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

fn short(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// What is shown of one case and subject.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub case: String,
    pub subject: String,
    pub figures: Vec<(&'static str, Spread)>,
}

/// A suite's rows, and what a reader has to know about them.
#[derive(Clone, Debug)]
pub(super) struct Suite {
    pub name: &'static str,
    pub rows: Vec<Row>,
    pub notes: Vec<String>,
}

/// Collects the samples of a suite, round by round.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    series: Vec<Series>,
}

/// The samples of one row, each with its round.
#[derive(Debug)]
struct Series {
    case: String,
    subject: String,
    samples: Vec<(u32, Sample)>,
}

impl Rounds {
    pub(super) fn record(&mut self, case: &str, subject: &str, round: u32, sample: Sample) {
        let known = self
            .series
            .iter_mut()
            .find(|row| row.case == case && row.subject == subject);
        if let Some(row) = known {
            row.samples.push((round, sample));
        } else {
            self.series.push(Series {
                case: case.to_owned(),
                subject: subject.to_owned(),
                samples: vec![(round, sample)],
            });
        }
    }

    /// Rows in the order of their first record, but a case's rows together.
    pub(super) fn suite(&self, name: &'static str, ratios: &[Ratio], notes: Vec<String>) -> Suite {
        let mut cases: Vec<&str> = Vec::new();
        for row in &self.series {
            if !cases.contains(&row.case.as_str()) {
                cases.push(&row.case);
            }
        }
        let rows = cases
            .iter()
            .flat_map(|case| self.series.iter().filter(move |row| row.case == *case))
            .map(|row| Row {
                case: row.case.clone(),
                subject: row.subject.clone(),
                figures: self.figures(row, ratios),
            })
            .collect();
        Suite { name, rows, notes }
    }

    fn figures(&self, row: &Series, ratios: &[Ratio]) -> Vec<(&'static str, Spread)> {
        let Series { case, samples, .. } = row;
        let mut names: Vec<&'static str> = Vec::new();
        for (name, _) in samples.iter().flat_map(|(_, sample)| sample) {
            if !names.contains(name) {
                names.push(name);
            }
        }
        let mut figures = Vec::new();
        for name in names {
            let values: Vec<f64> = samples
                .iter()
                .filter_map(|(_, sample)| value(sample, name))
                .collect();
            figures.extend(Spread::of(&values).map(|spread| (name, spread)));
            for ratio in ratios.iter().filter(|ratio| ratio.figure == name) {
                let values: Vec<f64> = samples
                    .iter()
                    .filter_map(|(round, sample)| {
                        let reference = value(self.sample(case, ratio.to, *round)?, name)?;
                        Some(value(sample, name)? / reference)
                    })
                    .filter(|value| value.is_finite())
                    .collect();
                figures.extend(Spread::of(&values).map(|spread| (ratio.name, spread)));
            }
        }
        figures
    }

    fn sample(&self, case: &str, subject: &str, round: u32) -> Option<&Sample> {
        let row = self
            .series
            .iter()
            .find(|row| row.case == case && row.subject == subject)?;
        row.samples
            .iter()
            .find(|(r, _)| *r == round)
            .map(|(_, sample)| sample)
    }
}

fn value(sample: &Sample, name: &str) -> Option<f64> {
    sample
        .iter()
        .find(|(key, _)| *key == name)
        .map(|(_, value)| *value)
}

/// The whole report as scripts read it.
pub(super) fn json(suites: &[Suite]) -> Value {
    let suites: Vec<Value> = suites
        .iter()
        .map(|suite| {
            let rows: Vec<Value> = suite.rows.iter().map(row_json).collect();
            json!({ "name": suite.name, "rows": rows, "notes": suite.notes })
        })
        .collect();
    json!({ "suites": suites })
}

fn row_json(row: &Row) -> Value {
    let mut object = Map::new();
    object.insert("case".to_owned(), json!(row.case));
    object.insert("subject".to_owned(), json!(row.subject));
    for (name, spread) in &row.figures {
        object.insert((*name).to_owned(), spread.json());
    }
    Value::Object(object)
}

/// One suite as Markdown tables, one for each set of figures: median (least..greatest).
pub(super) fn table(suite: &Suite) -> String {
    let mut text = format!("\n## {}\n", suite.name);
    let mut rest = suite.rows.as_slice();
    while let Some(first) = rest.first() {
        let names: Vec<&str> = first.figures.iter().map(|(name, _)| *name).collect();
        let same = |row: &Row| {
            row.figures
                .iter()
                .map(|(name, _)| *name)
                .eq(names.iter().copied())
        };
        let count = rest.iter().take_while(|row| same(row)).count();
        let (rows, others) = rest.split_at(count);
        one_table(&mut text, &names, rows);
        rest = others;
    }
    for note in &suite.notes {
        text.push_str(&format!("\n{note}\n"));
    }
    text
}

fn one_table(text: &mut String, names: &[&str], rows: &[Row]) {
    let head = ["case", "subject"]
        .iter()
        .chain(names)
        .map(|&name| name.replace('_', " "));
    let mut lines: Vec<Vec<String>> = vec![head.collect()];
    lines.extend(rows.iter().map(|row| {
        let figures = row.figures.iter().map(|(_, spread)| spread.text());
        [row.case.clone(), row.subject.clone()]
            .into_iter()
            .chain(figures)
            .collect()
    }));
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..names.len() + 2).map(width).collect();
    text.push('\n');
    for (index, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(&widths) {
            // Writing to a string cannot fail.
            write!(text, "| {cell:<width$} ").ok();
        }
        text.push_str("|\n");
        if index == 0 {
            for width in &widths {
                write!(text, "|{:-<width$}", "", width = width + 2).ok();
            }
            text.push_str("|\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_inside_a_round_and_then_their_median() {
        let mut rounds = Rounds::default();
        for (round, ours, theirs) in [(0, 10.0, 20.0), (1, 30.0, 10.0), (2, 8.0, 10.0)] {
            rounds.record(
                "1KiB-64",
                "nginx",
                round,
                vec![(CPU_US_PER_REQUEST, theirs)],
            );
            rounds.record("1KiB-64", "gate", round, vec![(CPU_US_PER_REQUEST, ours)]);
        }
        let ratio = Ratio {
            figure: CPU_US_PER_REQUEST,
            to: "nginx",
            name: "cpu_ratio_to_nginx",
        };
        let suite = rounds.suite("proxy", &[ratio], Vec::new());
        let report = json(std::slice::from_ref(&suite));
        let gate = &report["suites"][0]["rows"][1];
        assert_eq!(gate["subject"], "gate");
        assert_eq!(
            gate["cpu_us_per_request"],
            json!({ "median": 10.0, "min": 8.0, "max": 30.0 })
        );
        assert_eq!(
            gate["cpu_ratio_to_nginx"],
            json!({ "median": 0.8, "min": 0.5, "max": 3.0 })
        );
        assert!(
            table(&suite).contains("| 1KiB-64 | gate    | 10.0 (8.00..30.0)"),
            "{}",
            table(&suite)
        );
    }

    #[test]
    fn an_even_number_of_rounds_has_the_mean_of_the_middle_two() {
        let spread = Spread::of(&[4.0, 1.0, 2.0, 3.0]).unwrap();
        assert!((spread.median - 2.5).abs() < f64::EPSILON);
        assert!(Spread::of(&[]).is_none());
    }
}
