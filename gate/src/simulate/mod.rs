//! `gate simulate`: plays a day of many gates in seconds, to see how each way to split a limit does on the same visitors.
//!
//! The rooms, the strategies and the books of slots are the real ones; only the network, the visitors and the trouble are
//! made up. Nothing here opens a socket or reads a clock.

pub mod arrivals;
pub mod builtin;
pub mod command;
pub mod html;
pub mod outcome;
pub mod scenario;
pub mod table;
mod truth;
mod world;

pub use outcome::Run;
pub use scenario::{Scenario, ScenarioError};

/// A strategy by the name it has on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StrategyName {
    Even,
    Adaptive,
    Counter,
}

impl StrategyName {
    /// In the order in which they were invented.
    pub const ALL: [Self; 3] = [Self::Even, Self::Adaptive, Self::Counter];
}

/// Plays a scenario under one strategy. Equal seeds give equal runs, and every strategy meets the same visitors.
pub fn run(scenario: &Scenario, strategy: StrategyName, seed: u64) -> Result<Run, ScenarioError> {
    let arrivals = arrivals::of(scenario, seed)?;
    let kind = world::strategy(strategy, scenario);
    let world = kind.and_then(|kind| world::World::new(scenario, kind, seed));
    // A scenario was checked when it was read.
    world
        .map(|world| world.run(&arrivals))
        .ok_or(ScenarioError::Value {
            key: "scenario",
            value: scenario.name.clone(),
            allowed: "values in range".to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(name: &str, strategy: StrategyName, seed: u64) -> Run {
        run(&Scenario::load(name).unwrap(), strategy, seed).unwrap()
    }

    #[test]
    fn equal_seeds_give_equal_runs() {
        for strategy in StrategyName::ALL {
            let name = "spike-from-low";
            assert_eq!(play(name, strategy, 7), play(name, strategy, 7));
        }
        let arrivals = |seed| arrivals::of(&Scenario::load("flash-sale").unwrap(), seed).unwrap();
        assert_ne!(arrivals(1), arrivals(2));
    }

    #[test]
    fn of_seven_and_one_at_ten_slots_even_queues_a_quarter_and_the_others_nobody() {
        let even = play("uneven-workers", StrategyName::Even, 1).outcome;
        assert_eq!((even.admitted, even.queued, even.early_queued), (6, 2, 2));
        for strategy in [StrategyName::Adaptive, StrategyName::Counter] {
            let other = play("uneven-workers", strategy, 1).outcome;
            assert_eq!((other.admitted, other.queued), (8, 0), "{strategy:?}");
        }
    }

    #[test]
    fn of_fifteen_at_ten_slots_adaptive_sends_five_too_many_and_counter_queues_five() {
        let adaptive = play("spike-from-low", StrategyName::Adaptive, 1).outcome;
        assert_eq!((adaptive.admitted, adaptive.overshoot), (15, 5));
        let counter = play("spike-from-low", StrategyName::Counter, 1);
        let outcome = counter.outcome;
        assert_eq!((outcome.admitted, outcome.queued), (10, 5));
        assert_eq!((outcome.overshoot, outcome.early_queued), (0, 0));
        assert_eq!(counter.first_queued_at_percent, Some(100.0));
    }

    #[test]
    fn of_128_at_one_gate_counter_queues_none() {
        // 50 come in the minute before and all get in.
        let admitted = |strategy| play("anywhere-128", strategy, 1).outcome.admitted - 50;
        assert_eq!(admitted(StrategyName::Even), 16);
        assert_eq!(admitted(StrategyName::Adaptive), 45 + 15);
        assert_eq!(admitted(StrategyName::Counter), 128);
    }

    #[test]
    fn calls_take_as_long_as_the_way_is() {
        let run = play("anywhere-128", StrategyName::Counter, 1);
        assert!(run.local_calls_ms.calls > 0 && run.local_calls_ms.p99 < 10.0);
        assert!((60.0..=70.0).contains(&run.anywhere_calls_ms.p50));
        assert!((60.0..=70.0).contains(&run.outcome.admission_latency_ms.p99));
        let even = play("anywhere-128", StrategyName::Even, 1).outcome;
        assert_eq!(even.admission_latency_ms.p99, 0.0);
    }

    #[test]
    fn a_flash_sale_holds_its_limits_with_counters_and_not_with_adaptive() {
        let counter = play("flash-sale", StrategyName::Counter, 3);
        assert_eq!(counter.outcome.overshoot, 0);
        assert!(counter.outcome.early_queued * 100 <= counter.visitors);
        assert!(counter.first_queued_at_percent.unwrap() > 90.0);
        assert_eq!(counter.errors, 0);
        let adaptive = play("flash-sale", StrategyName::Adaptive, 3);
        assert!(adaptive.outcome.overshoot > 0);
        let even = play("flash-sale", StrategyName::Even, 3);
        assert_eq!(even.outcome.overshoot, 0);
        assert!(even.first_queued_at_percent.unwrap() < 80.0);
        assert!(even.outcome.admitted < counter.outcome.admitted);
    }

    /// One failure each, a minute into a full room.
    fn with_failure(failure: &str, seed: u64) -> Run {
        let text = format!(
            r#"
            name = "one-failure"
            total_active_users = 400
            new_users_per_minute = 300
            session_duration_seconds = 60
            duration_seconds = 900
            visit_seconds = 30
            patience_seconds = 300
            roam_percent = 5
            [[data_centers]]
            name = "near"
            gates = 2
            [[data_centers]]
            name = "far"
            gates = 2
            anywhere_ms = 65.0
            [[traffic]]
            shape = "steady"
            data_center = "near"
            visitors = 2300
            to_seconds = 900
            [[traffic]]
            shape = "steady"
            data_center = "far"
            visitors = 2300
            to_seconds = 900
            [[failures]]
            {failure}
            at_seconds = 300
            "#
        );
        let scenario = Scenario::parse(&text, "one-failure", std::path::Path::new(".")).unwrap();
        run(&scenario, StrategyName::Counter, seed).unwrap()
    }

    #[test]
    fn limits_hold_through_each_failure_and_counts_converge() {
        for failure in [
            "kind = 'counter-slow'\nby_ms = 1000\nfor_seconds = 60",
            "kind = 'counter-gone'\nfor_seconds = 120",
            "kind = 'counter-gone'\ndata_center = 'near'\nfor_seconds = 60",
            "kind = 'counter-emptied'",
            "kind = 'counter-emptied'\ndata_center = 'far'",
            "kind = 'gate-killed'\ndata_center = 'near'\ngate = 1",
            "kind = 'gate-frozen'\ndata_center = 'far'\ngate = 0\nfor_seconds = 30",
            "kind = 'clock-wrong'\ndata_center = 'far'\ngate = 0\nby_ms = -3600000",
            "kind = 'data-center-cut-off'\ndata_center = 'far'\nfor_seconds = 120",
        ] {
            for seed in 1..=2 {
                let run = with_failure(failure, seed);
                let what = format!("{failure}, seed {seed}: {:?}", run.outcome);
                assert!(run.outcome.overshoot <= 4, "above 1 % of the limit: {what}");
                assert_eq!(run.errors, 0, "{what}");
                assert!(
                    run.count_error_at_end.abs() <= 4,
                    "{} {what}",
                    run.count_error_at_end
                );
                assert!(run.outcome.admitted > 2500, "{what}");
            }
        }
    }

    #[test]
    fn built_in_scenarios_can_be_read() {
        for name in builtin::names() {
            let scenario = Scenario::load(name).unwrap();
            assert_eq!(scenario.name, name);
        }
    }

    #[test]
    fn what_cannot_be_played_is_refused_with_its_key() {
        let text = builtin::text("uneven-workers").unwrap();
        let refused = |from: &str, to: &str| {
            let text = text.replacen(from, to, 1);
            Scenario::parse(&text, "s.toml", std::path::Path::new("."))
                .map(|_| ())
                .unwrap_err()
                .to_string()
        };
        assert!(refused("per_minute = 10", "per_minute = 101").contains("new_users_per_minute"));
        assert!(refused("gates = 2", "gates = 65").contains("gates = 65"));
        assert!(refused("gate = 0", "gate = 2").contains("0 to 1"));
        assert!(refused("data_center = \"san", "data_center = \"s").contains("san-jose"));
        assert!(refused("curve_factor = 0.25", "curve_factor = 0.0").contains("curve_factor"));
        assert!(refused("gates = 2", "gats = 2").contains("not a scenario"));
        assert!(
            Scenario::load("no-such")
                .unwrap_err()
                .to_string()
                .contains("flash-sale")
        );
    }
}
