//! The XDP program: glue between the kernel's maps and [`gate_common::judge`]. Decides nothing itself.
//!
//! On the host this builds to an empty program, so that workspace-wide commands work.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod program;

#[cfg(not(target_arch = "bpf"))]
fn main() {}
