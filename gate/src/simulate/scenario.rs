//! What happens in a simulated world: its data centers, its visitors and what breaks. Read from TOML, valid once read.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::room::slots::CurveFactor;
use crate::room::{Limits, LimitsError, SessionDuration};

/// Visitors one simulated world can have.
pub const VISITORS_MAX: u64 = 20_000_000;
/// Gates of one simulated world.
pub const GATES_MAX: usize = crate::room::shared::GATES_MAX as usize;
/// Longest simulated time: a week.
pub const DURATION_SECONDS_MAX: u64 = 7 * 86_400;

/// One world.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub name: String,
    #[serde(default)]
    pub description: String,
    pub total_active_users: u32,
    pub new_users_per_minute: u32,
    #[serde(default = "default_session_seconds")]
    pub session_duration_seconds: u32,
    pub duration_seconds: u64,
    /// Users active all the time, spread over the gates.
    #[serde(default)]
    pub initial_active_users: u32,
    #[serde(default = "default_curve_factor")]
    pub curve_factor: f64,
    #[serde(default = "default_refresh_seconds")]
    pub refresh_interval_seconds: u32,
    #[serde(default = "default_publish_millis")]
    pub publish_interval_ms: u64,
    #[serde(default = "default_timeout_millis")]
    pub counter_timeout_ms: u64,
    /// Mean time from a visitor's admission to his last request, exponentially spread; 0 for one request only.
    #[serde(default)]
    pub visit_seconds: u64,
    /// Mean time after which a waiter gives up, exponentially spread; 0 for never.
    #[serde(default)]
    pub patience_seconds: u64,
    /// Requests after the first that go to another gate of the data center, in percent.
    #[serde(default)]
    pub roam_percent: u8,
    pub data_centers: Vec<DataCenter>,
    #[serde(default)]
    pub traffic: Vec<Traffic>,
    #[serde(default)]
    pub failures: Vec<Failure>,
    /// Where relative paths begin; not part of the file.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// A data center and how far it is from what it asks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataCenter {
    pub name: String,
    pub gates: usize,
    /// Round trip to its own counter.
    #[serde(default = "default_local_millis")]
    pub counter_ms: f64,
    /// Round trip to the counter of all.
    #[serde(default = "default_local_millis")]
    pub anywhere_ms: f64,
    /// How its visitors spread over its gates; even when empty.
    #[serde(default)]
    pub gate_weights: Vec<f64>,
}

/// Some arrivals.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, tag = "shape", rename_all = "kebab-case")]
pub enum Traffic {
    /// `visitors` at random times between two times.
    Steady {
        data_center: String,
        visitors: u64,
        #[serde(default)]
        from_seconds: u64,
        to_seconds: u64,
        /// All of them at this gate of the data center.
        gate: Option<usize>,
    },
    /// `visitors` who come all at once and ever fewer, halving each `half_life_seconds`.
    Spike {
        data_center: String,
        visitors: u64,
        at_seconds: u64,
        half_life_seconds: u64,
        gate: Option<usize>,
    },
    /// `visitors` over whole days, most of them at `peak_hour` (0 to 24, of the simulated day), fewest twelve hours later.
    Daily {
        data_center: String,
        visitors: u64,
        peak_hour: f64,
    },
    /// A file of lines `minute,visitors` or `minute,data_center,visitors`; without a data center, spread by their gates.
    Csv { file: PathBuf },
}

/// What breaks, from `at_seconds` on for `for_seconds`.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawFailure")]
pub struct Failure {
    pub at_seconds: u64,
    pub for_seconds: u64,
    pub kind: FailureKind,
}

/// What breaks.
#[derive(Clone, Debug, PartialEq)]
pub enum FailureKind {
    /// The counter of all answers this much later.
    CounterSlow { by_ms: u64 },
    /// No counter answers, of all or of one data center.
    CounterGone { data_center: Option<String> },
    /// A counter forgets everything at once.
    CounterEmptied { data_center: Option<String> },
    /// A gate is gone for good.
    GateKilled { data_center: String, gate: usize },
    /// A gate does nothing, then goes on.
    GateFrozen { data_center: String, gate: usize },
    /// A gate's clock is wrong from the start.
    ClockWrong {
        data_center: String,
        gate: usize,
        by_ms: i64,
    },
    /// A data center reaches its own counter only.
    DataCenterCutOff { data_center: String },
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FailureName {
    CounterSlow,
    CounterGone,
    CounterEmptied,
    GateKilled,
    GateFrozen,
    ClockWrong,
    DataCenterCutOff,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFailure {
    kind: FailureName,
    at_seconds: u64,
    #[serde(default)]
    for_seconds: u64,
    by_ms: Option<i64>,
    data_center: Option<String>,
    gate: Option<usize>,
}

impl TryFrom<RawFailure> for Failure {
    type Error = String;

    fn try_from(raw: RawFailure) -> Result<Self, String> {
        fn needed<T>(value: Option<T>, key: &str) -> Result<T, String> {
            value.ok_or_else(|| format!("this kind of failure needs the key {key}"))
        }
        let gate = || needed(raw.gate, "gate");
        let center = || needed(raw.data_center.clone(), "data_center");
        let by_ms = || needed(raw.by_ms, "by_ms");
        let kind = match raw.kind {
            FailureName::CounterSlow => FailureKind::CounterSlow {
                by_ms: u64::try_from(by_ms()?).map_err(|_| "by_ms must be 0 or more")?,
            },
            FailureName::CounterGone => FailureKind::CounterGone {
                data_center: raw.data_center,
            },
            FailureName::CounterEmptied => FailureKind::CounterEmptied {
                data_center: raw.data_center,
            },
            FailureName::GateKilled => FailureKind::GateKilled {
                data_center: center()?,
                gate: gate()?,
            },
            FailureName::GateFrozen => FailureKind::GateFrozen {
                data_center: center()?,
                gate: gate()?,
            },
            FailureName::ClockWrong => FailureKind::ClockWrong {
                data_center: center()?,
                gate: gate()?,
                by_ms: by_ms()?,
            },
            FailureName::DataCenterCutOff => FailureKind::DataCenterCutOff {
                data_center: center()?,
            },
        };
        Ok(Self {
            at_seconds: raw.at_seconds,
            for_seconds: raw.for_seconds,
            kind,
        })
    }
}

fn default_session_seconds() -> u32 {
    300
}
fn default_curve_factor() -> f64 {
    1.0
}
fn default_refresh_seconds() -> u32 {
    20
}
fn default_publish_millis() -> u64 {
    1000
}
fn default_timeout_millis() -> u64 {
    250
}
fn default_local_millis() -> f64 {
    2.0
}

/// Why a scenario cannot be played.
#[derive(Debug)]
pub enum ScenarioError {
    /// Neither a built-in name nor a file.
    Unknown { name: String },
    Read {
        file: PathBuf,
        error: std::io::Error,
    },
    Parse {
        file: String,
        error: Box<toml::de::Error>,
    },
    /// A key has a value that is not allowed.
    Value {
        key: &'static str,
        value: String,
        allowed: String,
    },
    /// A line of arrivals says nothing sensible.
    Csv {
        file: PathBuf,
        line: usize,
        allowed: &'static str,
    },
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => write!(
                f,
                "scenario {name}: neither a file nor one of {}",
                super::builtin::names().collect::<Vec<_>>().join(", ")
            ),
            Self::Read { file, .. } => write!(f, "{}: cannot be read", file.display()),
            Self::Parse { file, .. } => write!(f, "{file}: not a scenario"),
            Self::Value {
                key,
                value,
                allowed,
            } => write!(f, "{key} = {value}: allowed is {allowed}"),
            Self::Csv {
                file,
                line,
                allowed,
            } => {
                write!(f, "{}, line {line}: allowed is {allowed}", file.display())
            }
        }
    }
}

impl std::error::Error for ScenarioError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { error, .. } => Some(error),
            Self::Parse { error, .. } => Some(error.as_ref()),
            Self::Unknown { .. } | Self::Value { .. } | Self::Csv { .. } => None,
        }
    }
}

fn refuse<T>(
    key: &'static str,
    value: impl fmt::Display,
    allowed: &str,
) -> Result<T, ScenarioError> {
    Err(ScenarioError::Value {
        key,
        value: value.to_string(),
        allowed: allowed.to_owned(),
    })
}

impl Scenario {
    /// A built-in scenario by its name, else a file.
    pub fn load(name: &str) -> Result<Self, ScenarioError> {
        if let Some(text) = super::builtin::text(name) {
            return Self::parse(text, name, Path::new("."));
        }
        let file = Path::new(name);
        if !file.exists() {
            return Err(ScenarioError::Unknown {
                name: name.to_owned(),
            });
        }
        let text = std::fs::read_to_string(file).map_err(|error| ScenarioError::Read {
            file: file.to_owned(),
            error,
        })?;
        Self::parse(&text, name, file.parent().unwrap_or(Path::new(".")))
    }

    /// From TOML; `file` names it in errors, `folder` is where relative paths in it begin.
    pub fn parse(text: &str, file: &str, folder: &Path) -> Result<Self, ScenarioError> {
        let mut scenario: Self = toml::from_str(text).map_err(|error| ScenarioError::Parse {
            file: file.to_owned(),
            error: Box::new(error),
        })?;
        scenario.folder = folder.to_owned();
        scenario.check()?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), ScenarioError> {
        if let Err(error) = Limits::new(self.total_active_users, self.new_users_per_minute) {
            let (key, value) = match error {
                LimitsError::TotalActiveUsersOutOfRange => {
                    ("total_active_users", self.total_active_users)
                }
                LimitsError::NewUsersPerMinuteOutOfRange => {
                    ("new_users_per_minute", self.new_users_per_minute)
                }
            };
            return refuse(key, value, &error.to_string());
        }
        if SessionDuration::from_seconds(self.session_duration_seconds).is_none() {
            return refuse(
                "session_duration_seconds",
                self.session_duration_seconds,
                "1 to 86400",
            );
        }
        if CurveFactor::new(self.curve_factor).is_none() {
            return refuse("curve_factor", self.curve_factor, "a number above 0");
        }
        for (key, value, least, most) in [
            (
                "duration_seconds",
                self.duration_seconds,
                1,
                DURATION_SECONDS_MAX,
            ),
            (
                "refresh_interval_seconds",
                u64::from(self.refresh_interval_seconds),
                1,
                300,
            ),
            ("publish_interval_ms", self.publish_interval_ms, 100, 10_000),
            ("counter_timeout_ms", self.counter_timeout_ms, 1, 10_000),
            ("roam_percent", u64::from(self.roam_percent), 0, 100),
        ] {
            if !(least..=most).contains(&value) {
                return refuse(key, value, &format!("{least} to {most}"));
            }
        }
        self.check_places()?;
        self.check_traffic()
    }

    fn check_places(&self) -> Result<(), ScenarioError> {
        if self.data_centers.is_empty() {
            return refuse("data_centers", "[]", "one at least");
        }
        let gates: usize = self.data_centers.iter().map(|center| center.gates).sum();
        if gates > GATES_MAX {
            return refuse(
                "gates",
                gates,
                &format!("{GATES_MAX} over all data centers"),
            );
        }
        for (at, center) in self.data_centers.iter().enumerate() {
            if center.gates == 0 {
                return refuse("gates", 0, "1 or more");
            }
            if self.data_centers[..at]
                .iter()
                .any(|other| other.name == center.name)
            {
                return refuse(
                    "name",
                    &center.name,
                    "a name of its own for each data center",
                );
            }
            let weights = &center.gate_weights;
            let sane = weights.iter().all(|w| w.is_finite() && *w >= 0.0)
                && (weights.is_empty() || weights.iter().sum::<f64>() > 0.0);
            if !sane || !(weights.is_empty() || weights.len() == center.gates) {
                return refuse(
                    "gate_weights",
                    format!("{weights:?}"),
                    "a number of 0 or more for each gate, not all 0",
                );
            }
            for (key, millis) in [
                ("counter_ms", center.counter_ms),
                ("anywhere_ms", center.anywhere_ms),
            ] {
                if !(0.0..=10_000.0).contains(&millis) {
                    return refuse(key, millis, "0 to 10000");
                }
            }
        }
        for failure in &self.failures {
            match &failure.kind {
                FailureKind::CounterSlow { .. }
                | FailureKind::CounterGone { data_center: None }
                | FailureKind::CounterEmptied { data_center: None } => {}
                FailureKind::CounterGone {
                    data_center: Some(name),
                }
                | FailureKind::CounterEmptied {
                    data_center: Some(name),
                }
                | FailureKind::DataCenterCutOff { data_center: name } => {
                    self.index_of(name, None)?;
                }
                FailureKind::GateKilled { data_center, gate }
                | FailureKind::GateFrozen { data_center, gate }
                | FailureKind::ClockWrong {
                    data_center, gate, ..
                } => {
                    self.index_of(data_center, Some(*gate))?;
                }
            }
        }
        Ok(())
    }

    fn check_traffic(&self) -> Result<(), ScenarioError> {
        let mut visitors = u64::from(self.initial_active_users);
        for traffic in &self.traffic {
            let (center, gate, count) = match traffic {
                Traffic::Steady {
                    data_center,
                    visitors,
                    from_seconds,
                    to_seconds,
                    gate,
                } => {
                    if from_seconds >= to_seconds {
                        return refuse("to_seconds", to_seconds, "a time after from_seconds");
                    }
                    (data_center, *gate, *visitors)
                }
                Traffic::Spike {
                    data_center,
                    visitors,
                    half_life_seconds,
                    gate,
                    ..
                } => {
                    if *half_life_seconds == 0 {
                        return refuse("half_life_seconds", 0, "1 or more");
                    }
                    (data_center, *gate, *visitors)
                }
                Traffic::Daily {
                    data_center,
                    visitors,
                    peak_hour,
                } => {
                    if !(0.0..=24.0).contains(peak_hour) {
                        return refuse("peak_hour", peak_hour, "0 to 24");
                    }
                    (data_center, None, *visitors)
                }
                Traffic::Csv { .. } => continue,
            };
            self.index_of(center, gate)?;
            visitors = visitors.saturating_add(count);
        }
        if visitors > VISITORS_MAX {
            return refuse("visitors", visitors, &format!("{VISITORS_MAX} in all"));
        }
        Ok(())
    }

    /// The index of a data center, checked together with the number of one of its gates.
    pub fn index_of(&self, name: &str, gate: Option<usize>) -> Result<usize, ScenarioError> {
        let Some(index) = self
            .data_centers
            .iter()
            .position(|center| center.name == name)
        else {
            let names: Vec<_> = self.data_centers.iter().map(|c| c.name.as_str()).collect();
            return refuse("data_center", name, &names.join(", "));
        };
        let gates = self.data_centers[index].gates;
        match gate {
            Some(gate) if gate >= gates => refuse("gate", gate, &format!("0 to {}", gates - 1)),
            Some(_) | None => Ok(index),
        }
    }
}
