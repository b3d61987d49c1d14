//! What the kernel program and user space share byte for byte. No I/O, no clock, no allocation.
#![no_std]
