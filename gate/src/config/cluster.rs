//! The `[cluster]` section, and what a room says about sharing: how its limits are split over the gates.

use std::path::PathBuf;

use crate::cluster::settings::{ClusterSettings, RawCluster};
use crate::room::slots::{CurveFactor, StrategyKind};

use super::Surroundings;
use super::fields::{Section, WordCase};

/// `None` after every fault has been reported.
pub(super) fn read(mut section: Section<'_>, around: &Surroundings<'_>) -> Option<ClusterSettings> {
    let report = section.report();
    let text = |section: &mut Section<'_>, key| section.string(key).map(|found| found.value);
    for (key, what) in [
        ("data_center", "gates of one data center share a counter"),
        ("gate", "each gate has a name of its own"),
        ("gate_number", "each gate has a number of its own, from 0"),
        ("redis_url", "the counter of all gates"),
    ] {
        section.require(key, what);
    }
    let file = |section: &mut Section<'_>, key| {
        let path = section.string(key)?.value;
        Some(around.resolve(&PathBuf::from(path)))
    };
    let small = |section: &mut Section<'_>, key, default: u16| {
        section
            .small_integer(key, 0..=u32::from(u16::MAX))
            .map_or(default, |found| {
                u16::try_from(found.value).unwrap_or(default)
            })
    };
    let number = |section: &mut Section<'_>, key, default: u64| {
        section
            .integer(key, 0..=u64::from(u32::MAX))
            .map_or(default, |found| found.value)
    };
    let defaults = RawCluster::default();
    let raw = RawCluster {
        data_center: text(&mut section, "data_center").unwrap_or_else(|| "?".to_owned()),
        gate: text(&mut section, "gate").unwrap_or_else(|| "?".to_owned()),
        gate_number: small(&mut section, "gate_number", defaults.gate_number),
        gates_max: small(&mut section, "gates_max", defaults.gates_max),
        redis_url: text(&mut section, "redis_url").unwrap_or(defaults.redis_url),
        data_center_redis_url: text(&mut section, "data_center_redis_url"),
        redis_password_file: file(&mut section, "redis_password_file"),
        data_center_redis_password_file: file(&mut section, "data_center_redis_password_file"),
        tls_ca_file: file(&mut section, "tls_ca_file"),
        namespace: text(&mut section, "namespace").unwrap_or(defaults.namespace),
        publish_interval_ms: number(
            &mut section,
            "publish_interval_ms",
            defaults.publish_interval_ms,
        ),
        counter_timeout_ms: number(
            &mut section,
            "counter_timeout_ms",
            defaults.counter_timeout_ms,
        ),
        gate_absent_seconds: number(
            &mut section,
            "gate_absent_seconds",
            defaults.gate_absent_seconds,
        ),
        gate_hold_seconds: number(
            &mut section,
            "gate_hold_seconds",
            defaults.gate_hold_seconds,
        ),
        data_center_hold_seconds: number(
            &mut section,
            "data_center_hold_seconds",
            defaults.data_center_hold_seconds,
        ),
    };
    let settings = match ClusterSettings::new(raw) {
        Ok(settings) => Some(settings),
        Err(problems) => {
            for problem in problems {
                // One that is missing has been reported.
                if section.has(problem.key) {
                    let at = section.at_value(problem.key).without_value();
                    report.add(&at, format!("must be {}", problem.allowed));
                }
            }
            None
        }
    };
    section.finish();
    settings
}

/// `slot_strategy` and `curve_factor`.
pub(super) fn read_strategy(section: &mut Section<'_>) -> StrategyKind {
    let report = section.report();
    let factor = section.number("curve_factor").and_then(|found| {
        let factor = CurveFactor::new(found.value);
        if factor.is_none() {
            report.add(&found.at, "must be a number above 0");
        }
        factor
    });
    let strategies = [
        ("even", StrategyKind::Even),
        (
            "adaptive",
            StrategyKind::Adaptive(factor.unwrap_or_default()),
        ),
        ("counter", StrategyKind::Counter),
    ];
    section
        .word("slot_strategy", WordCase::Exact, &strategies)
        .map_or_else(StrategyKind::default, |found| found.value)
}
