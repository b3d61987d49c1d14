//! The limits and methods of one room, as the core uses them. Values are valid by construction; `config` says what is wrong
//! with a file.

use std::num::NonZeroU32;

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
