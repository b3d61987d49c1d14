//! Sealed cookies: what a visitor carries, unreadable and unalterable. Opens and seals; never decides who enters.
//!
//! AES-256-GCM. Text on the wire is unpadded base64url of
//! `version 1 | key id 4 | salt 16 | counter 6 | payload 35 | tag 16` bytes, 104 characters.
//!
//! A nonce is never used twice under one key: each [`TicketBox`] draws a random 128-bit salt when it is made, derives a key
//! of its own from the ring's key and that salt (HKDF-SHA-256), and counts its nonces up from 0. Processes, threads and
//! hosts that share a key ring therefore never share a GCM key.
//!
//! Room, cookie name and, where the room binds tickets, the client's properties are authenticated with the ticket: a cookie
//! of another room or client does not open.

mod keys;
mod seal;

pub use keys::{KEYS_MAX, KeyError, Keyring};
pub use seal::{Binding, SEALED_LEN, Scope, SealedTicket, TicketBox};
