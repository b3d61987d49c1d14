//! Who comes when and where, worked out before the world begins, so that every strategy meets the same visitors.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use super::scenario::{DataCenter, Scenario, ScenarioError, Traffic, VISITORS_MAX};

const DAY_SECONDS: f64 = 86_400.0;

/// One visitor, before he meets a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival {
    pub at_ms: u64,
    pub data_center: u16,
    /// Within the data center.
    pub gate: u16,
    /// From admission to the last request.
    pub visit_ms: u32,
    /// From arrival to giving up; `u32::MAX` for never.
    pub patience_ms: u32,
}

/// Every visitor of a scenario in order of arrival. Equal seeds give equal visitors.
pub fn of(scenario: &Scenario, seed: u64) -> Result<Vec<Arrival>, ScenarioError> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut arrivals = Vec::new();
    for traffic in &scenario.traffic {
        add(scenario, traffic, &mut rng, &mut arrivals)?;
    }
    let end_ms = scenario.duration_seconds * 1000;
    arrivals.retain(|arrival| arrival.at_ms < end_ms);
    // Stable: those of one millisecond come as the scenario lists them.
    arrivals.sort_by_key(|arrival| arrival.at_ms);
    Ok(arrivals)
}

fn add(
    scenario: &Scenario,
    traffic: &Traffic,
    rng: &mut Pcg64Mcg,
    arrivals: &mut Vec<Arrival>,
) -> Result<(), ScenarioError> {
    let mut push = |rng: &mut Pcg64Mcg, center: usize, gate: Option<usize>, at_seconds: f64| {
        let gate = gate.unwrap_or_else(|| draw_gate(&scenario.data_centers[center], rng));
        arrivals.push(Arrival {
            at_ms: (at_seconds.max(0.0) * 1000.0) as u64,
            data_center: center as u16,
            gate: gate as u16,
            visit_ms: exponential_ms(scenario.visit_seconds, rng),
            patience_ms: match scenario.patience_seconds {
                0 => u32::MAX,
                mean => exponential_ms(mean, rng),
            },
        });
    };
    match traffic {
        Traffic::Steady {
            data_center,
            visitors,
            from_seconds,
            to_seconds,
            gate,
        } => {
            let center = scenario.index_of(data_center, *gate)?;
            for _ in 0..*visitors {
                let span = (to_seconds - from_seconds) as f64;
                let at = *from_seconds as f64 + rng.random::<f64>() * span;
                push(rng, center, *gate, at);
            }
        }
        Traffic::Spike {
            data_center,
            visitors,
            at_seconds,
            half_life_seconds,
            gate,
        } => {
            let center = scenario.index_of(data_center, *gate)?;
            for _ in 0..*visitors {
                let later = -(1.0 - rng.random::<f64>()).log2() * *half_life_seconds as f64;
                push(rng, center, *gate, *at_seconds as f64 + later);
            }
        }
        Traffic::Daily {
            data_center,
            visitors,
            peak_hour,
        } => {
            let center = scenario.index_of(data_center, None)?;
            for _ in 0..*visitors {
                let at = draw_daily(scenario.duration_seconds as f64, *peak_hour, rng);
                push(rng, center, None, at);
            }
        }
        Traffic::Csv { file } => {
            for (center, minute, visitors) in read_csv(scenario, file)? {
                for _ in 0..visitors {
                    let center = center.unwrap_or_else(|| draw_center(scenario, rng));
                    let at = (minute as f64 + rng.random::<f64>()) * 60.0;
                    push(rng, center, None, at);
                }
            }
        }
    }
    Ok(())
}

/// By rejection: the density is a cosine between a tenth and one.
fn draw_daily(duration_seconds: f64, peak_hour: f64, rng: &mut Pcg64Mcg) -> f64 {
    loop {
        let at = rng.random::<f64>() * duration_seconds;
        let angle = (at / DAY_SECONDS - peak_hour / 24.0) * std::f64::consts::TAU;
        if rng.random::<f64>() < 0.55 + 0.45 * angle.cos() {
            return at;
        }
    }
}

pub(super) fn draw_gate(center: &DataCenter, rng: &mut Pcg64Mcg) -> usize {
    if center.gate_weights.is_empty() {
        return rng.random_range(0..center.gates);
    }
    let mut left = rng.random::<f64>() * center.gate_weights.iter().sum::<f64>();
    for (gate, weight) in center.gate_weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return gate;
        }
    }
    center.gates - 1
}

fn draw_center(scenario: &Scenario, rng: &mut Pcg64Mcg) -> usize {
    let gates: usize = scenario
        .data_centers
        .iter()
        .map(|center| center.gates)
        .sum();
    let mut gate = rng.random_range(0..gates);
    for (index, center) in scenario.data_centers.iter().enumerate() {
        if gate < center.gates {
            return index;
        }
        gate -= center.gates;
    }
    0
}

fn exponential_ms(mean_seconds: u64, rng: &mut Pcg64Mcg) -> u32 {
    let millis = -(1.0 - rng.random::<f64>()).ln() * mean_seconds as f64 * 1000.0;
    // A float beyond the range becomes its end.
    (millis as u32).min(u32::MAX - 1)
}

/// `(data center or anywhere, minute, visitors)` of each line.
fn read_csv(
    scenario: &Scenario,
    file: &std::path::Path,
) -> Result<Vec<(Option<usize>, u64, u64)>, ScenarioError> {
    const ALLOWED: &str = "minute,visitors or minute,data_center,visitors with whole numbers";
    let file = scenario.folder.join(file);
    let text = std::fs::read_to_string(&file).map_err(|error| ScenarioError::Read {
        file: file.clone(),
        error,
    })?;
    let mut rows = Vec::new();
    let mut all = 0_u64;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || (index == 0 && line.starts_with("minute")) {
            continue;
        }
        let wrong = || ScenarioError::Csv {
            file: file.clone(),
            line: index + 1,
            allowed: ALLOWED,
        };
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let (center, minute, visitors) = match cells[..] {
            [minute, visitors] => (None, minute, visitors),
            [minute, center, visitors] => {
                (Some(scenario.index_of(center, None)?), minute, visitors)
            }
            _ => return Err(wrong()),
        };
        let minute: u64 = minute.parse().map_err(|_| wrong())?;
        let visitors: u64 = visitors.parse().map_err(|_| wrong())?;
        all = all.saturating_add(visitors);
        if minute > super::scenario::DURATION_SECONDS_MAX / 60 || all > VISITORS_MAX {
            return Err(wrong());
        }
        rows.push((center, minute, visitors));
    }
    Ok(rows)
}
