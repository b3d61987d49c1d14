//! The XDP program. On the host this builds to an empty program, so that workspace-wide commands work.
fn main() {}
