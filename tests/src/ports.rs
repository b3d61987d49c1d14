//! Free TCP ports on the loopback address.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range from which the kernel takes ports for outgoing connections, so that none of those can be in the way.
const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

/// A port that nobody listens on, different at each call in this process.
///
/// # Panics
/// Where every port is taken.
pub fn free() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test binaries that run side by side begin in different places.
    let begin = u16::try_from(std::process::id().wrapping_mul(211) % u32::from(COUNT)).unwrap_or(0);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (begin + step) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port");
}

#[cfg(test)]
mod tests {
    #[test]
    fn ports_differ() {
        assert_ne!(super::free(), super::free());
    }
}
