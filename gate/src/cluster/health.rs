//! How the counters do: whether they answer, since when one does not, and what went wrong last. Only watches; what follows from a
//! silent counter is decided elsewhere.

use std::error::Error as _;

use parking_lot::Mutex;

use crate::room::Millis;

use super::redis::RedisError;

/// Which counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterScope {
    /// The one of all gates.
    All,
    /// The one of this gate's data center.
    DataCenter,
}

impl CounterScope {
    /// Its word for operators.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::DataCenter => "data_center",
        }
    }
}

/// Whether a counter answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Its last call was answered.
    Reachable,
    /// Its calls have failed, or none has been answered yet, since then.
    Unreachable { since: Millis },
}

/// How one counter does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterHealth {
    pub scope: CounterScope,
    pub reach: Reach,
    /// What went wrong last, also where it has ended.
    pub last_error: Option<String>,
}

/// How a shared room stands with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomHealth {
    /// How old the gate's knowledge of the others is; `None` before it has any.
    pub snapshot_age_millis: Option<u64>,
    /// Calls that counters answered, and new users who were decided without one because it was too slow or gone.
    pub counter_answers: u64,
    pub counter_failures: u64,
}

/// Watches one counter.
#[derive(Debug)]
pub(super) struct CounterWatch {
    scope: CounterScope,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    reach: Reach,
    last_error: Option<String>,
}

impl CounterWatch {
    /// One that has not answered yet.
    pub(super) fn new(scope: CounterScope, now: Millis) -> Self {
        Self {
            scope,
            seen: Mutex::new(Seen {
                reach: Reach::Unreachable { since: now },
                last_error: None,
            }),
        }
    }

    /// Notes what became of a call, and says so where it is news.
    pub(super) fn note<T>(
        &self,
        now: Millis,
        answer: Result<T, RedisError>,
    ) -> Result<T, RedisError> {
        let mut seen = self.seen.lock();
        let whose = match self.scope {
            CounterScope::All => "the counter of all gates",
            CounterScope::DataCenter => "the data center's counter",
        };
        match &answer {
            Ok(_) => {
                if seen.reach != Reach::Reachable && seen.last_error.is_some() {
                    log::info!("{whose} answers again");
                }
                seen.reach = Reach::Reachable;
            }
            Err(error) => {
                let error = described(error);
                if seen.last_error.as_ref() != Some(&error) || seen.reach == Reach::Reachable {
                    log::warn!("{whose}: {error}; admitting what this gate holds");
                }
                if seen.reach == Reach::Reachable {
                    seen.reach = Reach::Unreachable { since: now };
                }
                seen.last_error = Some(error);
            }
        }
        answer
    }

    pub(super) fn health(&self) -> CounterHealth {
        let seen = self.seen.lock();
        CounterHealth {
            scope: self.scope,
            reach: seen.reach,
            last_error: seen.last_error.clone(),
        }
    }
}

fn described(error: &RedisError) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_lasts_from_the_first_failure_to_the_next_answer() {
        let at = |seconds: u64| Millis::new(seconds * 1000);
        let watch = CounterWatch::new(CounterScope::All, at(1));
        let unreachable = |seconds| Reach::Unreachable { since: at(seconds) };
        assert_eq!(watch.health().reach, unreachable(1));
        assert_eq!(watch.health().last_error, None);
        watch.note(at(2), Ok(())).unwrap();
        assert_eq!(watch.health().reach, Reach::Reachable);
        for second in [3, 4] {
            watch
                .note(at(second), Err::<(), _>(RedisError::Answer))
                .unwrap_err();
            assert_eq!(watch.health().reach, unreachable(3));
        }
        watch.note(at(5), Ok(())).unwrap();
        assert_eq!(watch.health().reach, Reach::Reachable);
        assert!(watch.health().last_error.is_some(), "kept for the operator");
    }
}
