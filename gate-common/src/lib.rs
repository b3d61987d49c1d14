//! What the kernel program and user space share byte for byte, and the kernel's whole decision as pure code.
//!
//! No I/O, no clock, no allocation: the same functions run in the kernel and, over [`model`], on the host. Nothing here may
//! panic, divide 128 bits wide or index without a mask: such code does not link for the kernel.
#![cfg_attr(not(any(test, feature = "model")), no_std)]

pub mod config;
pub mod gcra;
pub mod judge;
#[cfg(any(test, feature = "model"))]
pub mod model;
pub mod reason;
pub mod sketch;
pub mod source;
pub mod tables;
pub mod walk;
pub mod word;
