//! The command. Parses, builds, runs and turns the result into an exit code; everything else is the library's.

fn main() {}
