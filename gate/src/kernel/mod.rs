//! The kernel part: loads the XDP program, owns its maps, and limits sources in user space by the same rule.
//!
//! It never decides an admission. Off, refused, absent or wiped, HTTP behaves the same, except that nothing is dropped.

pub mod settings;

pub use settings::KernelSettings;
