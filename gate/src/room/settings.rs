//! The limits and methods of one room, as the core uses them. Values are valid by construction; `config` says what is wrong
//! with a file.

use std::fmt;
use std::num::NonZeroU32;

/// The largest limit the field's API knows.
pub const LIMIT_MAX: u32 = 2_147_483_647;
/// The interval at which a waiting page comes back, unless a room says otherwise. The field's value.
pub const REFRESH_INTERVAL_SECONDS_DEFAULT: u32 = 20;
/// Longest interval between two check-ins, so that presence (2.5 intervals) stays well inside [`QUEUE_PLACE_GRACE_SECONDS_MAX`].
pub const REFRESH_INTERVAL_SECONDS_MAX: u32 = 300;
/// How long the place of an absent waiter is kept, unless a room says otherwise. The field's value.
pub const QUEUE_PLACE_GRACE_SECONDS_DEFAULT: u32 = 300;
/// Longest grace: the line keeps check-in times modulo 65,536 seconds and must never mistake one turn for the next.
pub const QUEUE_PLACE_GRACE_SECONDS_MAX: u32 = 7200;
/// Waiters one line holds, unless a room says otherwise. When full, newcomers are told that the queue is full and get no
/// place; nobody who already waits is touched.
pub const WAITERS_MAX_DEFAULT: u32 = 10_000_000;
/// Longest session: a day. The field stops at 30 minutes; nothing here does.
pub const SESSION_DURATION_SECONDS_MAX: u32 = 86_400;

/// How waiting visitors are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QueueingMethod {
    /// In order of arrival.
    #[default]
    Fifo,
    /// By lot; longer waiting means more draws.
    Random,
    /// Nobody waits; limits are not applied, only counted.
    Passthrough,
    /// Nobody new enters.
    Reject,
}

/// Whether a request of an active user prolongs its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionRenewal {
    /// Each request starts `session_duration` anew.
    #[default]
    EachRequest,
    /// The session ends `session_duration` after admission, whatever the visitor does (`disable_session_renewal`).
    Disabled,
}

/// The switch that holds everybody (`queue_all`). Wins over every method and event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueAll {
    #[default]
    Off,
    /// Everyone new waits and nobody is admitted; active users stay.
    NewUsers,
    /// Active users are called back into the line as well (`queue_all_recalls_active`).
    Everyone,
}

/// Whether the room does anything at all (`suspended`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    #[default]
    Running,
    /// Traffic passes untouched and no cookie is set.
    Suspended,
}

/// How the budget of a minute is spent (`admission_pacing`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmissionPacing {
    /// As fast as visitors come, until the minute's budget is used.
    #[default]
    Burst,
    /// Evenly over the minute; at most one second's share at once.
    Smooth,
}

/// When a waiter is asked to come back (`refresh_interval_seconds`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshInterval {
    /// The same interval for everyone, 1 to [`REFRESH_INTERVAL_SECONDS_MAX`] seconds.
    Fixed { seconds: NonZeroU32 },
    /// Sooner near the head of the line, later far back, with jitter; always within these bounds.
    Adaptive {
        seconds_min: NonZeroU32,
        seconds_max: NonZeroU32,
    },
}

impl Default for RefreshInterval {
    fn default() -> Self {
        Self::Fixed {
            seconds: const { NonZeroU32::new(REFRESH_INTERVAL_SECONDS_DEFAULT).unwrap() },
        }
    }
}

impl RefreshInterval {
    /// Bounds of the adaptive interval, unless configured.
    pub const ADAPTIVE_DEFAULT: Self = Self::Adaptive {
        seconds_min: NonZeroU32::new(5).unwrap(),
        seconds_max: NonZeroU32::new(60).unwrap(),
    };
}

/// The two limits of a room. `1 ≤ new_users_per_minute ≤ total_active_users ≤ LIMIT_MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    total_active_users: NonZeroU32,
    new_users_per_minute: NonZeroU32,
}

/// Why two numbers are no limits of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitsError {
    TotalActiveUsersOutOfRange,
    /// Not in `1..=total_active_users`.
    NewUsersPerMinuteOutOfRange,
}

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TotalActiveUsersOutOfRange => {
                write!(f, "total_active_users must be in range [1, {LIMIT_MAX}]")
            }
            Self::NewUsersPerMinuteOutOfRange => {
                f.write_str("new_users_per_minute must be in range [1, total_active_users]")
            }
        }
    }
}

impl std::error::Error for LimitsError {}

impl Limits {
    /// Checks the ranges given at the type.
    pub fn new(total_active_users: u32, new_users_per_minute: u32) -> Result<Self, LimitsError> {
        let total = NonZeroU32::new(total_active_users)
            .filter(|total| total.get() <= LIMIT_MAX)
            .ok_or(LimitsError::TotalActiveUsersOutOfRange)?;
        let rate = NonZeroU32::new(new_users_per_minute)
            .filter(|rate| *rate <= total)
            .ok_or(LimitsError::NewUsersPerMinuteOutOfRange)?;
        Ok(Self {
            total_active_users: total,
            new_users_per_minute: rate,
        })
    }

    /// Most sessions alive at any instant.
    pub const fn total_active_users(self) -> u32 {
        self.total_active_users.get()
    }

    /// Most admissions in any 60 seconds.
    pub const fn new_users_per_minute(self) -> u32 {
        self.new_users_per_minute.get()
    }
}

/// How long a session lives after its last request, or after admission where renewal is off. 1 second to a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionDuration(NonZeroU32);

impl SessionDuration {
    /// The field's unit; `None` outside 1 minute to a day.
    pub fn from_minutes(minutes: u32) -> Option<Self> {
        Self::from_seconds(minutes.checked_mul(60)?)
    }

    /// `None` outside 1 to [`SESSION_DURATION_SECONDS_MAX`].
    pub fn from_seconds(seconds: u32) -> Option<Self> {
        NonZeroU32::new(seconds)
            .filter(|seconds| seconds.get() <= SESSION_DURATION_SECONDS_MAX)
            .map(Self)
    }

    pub const fn as_seconds(self) -> u32 {
        self.0.get()
    }
}

impl Default for SessionDuration {
    /// Five minutes, the field's default.
    fn default() -> Self {
        Self(const { NonZeroU32::new(300).unwrap() })
    }
}

/// Everything the core needs to know about one room outside events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub limits: Limits,
    pub session_duration: SessionDuration,
    pub session_renewal: SessionRenewal,
    pub queueing_method: QueueingMethod,
    pub queue_all: QueueAll,
    pub operation: Operation,
    pub admission_pacing: AdmissionPacing,
    pub refresh_interval: RefreshInterval,
    /// At most [`QUEUE_PLACE_GRACE_SECONDS_MAX`]; the core clamps.
    pub queue_place_grace_seconds: u32,
    /// Waiters with a place at one time; see [`WAITERS_MAX_DEFAULT`] for what happens when full.
    pub waiters_max: u32,
}

impl Settings {
    /// These limits, and the field's default for everything else.
    pub fn with_limits(limits: Limits) -> Self {
        Self {
            limits,
            session_duration: SessionDuration::default(),
            session_renewal: SessionRenewal::default(),
            queueing_method: QueueingMethod::default(),
            queue_all: QueueAll::default(),
            operation: Operation::default(),
            admission_pacing: AdmissionPacing::default(),
            refresh_interval: RefreshInterval::default(),
            queue_place_grace_seconds: QUEUE_PLACE_GRACE_SECONDS_DEFAULT,
            waiters_max: WAITERS_MAX_DEFAULT,
        }
    }
}
