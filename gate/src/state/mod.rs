//! The state file: what a restart remembers. Knows files; what is in a room's bytes is `room`'s own business.
//!
//! The file holds every room's snapshot and ends with a SHA-256 of all before it. It is replaced as a whole, so that a crash at
//! any moment leaves the old file or the new one. A file that cannot be read back is kept aside under another name, never
//! overwritten.

mod file;
mod saver;

pub use file::{Loaded, StateError, StateFile};
pub use saver::{Saver, Source};
