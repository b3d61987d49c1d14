//! Every development command of the project.
fn main() {}
