//! Which addresses the kernel guards. Pure.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use gate_common::source::ListenerKey;

use super::parameters::address;

/// The addresses and ports behind the listeners, in order.
///
/// A listener on all addresses guards those this host has: a packet that is only forwarded is not ours to judge. An IPv6 one on all
/// addresses takes IPv4 as well, as Linux does by default.
pub(super) fn guarded(listeners: &[SocketAddr], local: &[IpAddr]) -> BTreeSet<(IpAddr, u16)> {
    let mut guarded = BTreeSet::new();
    for listener in listeners {
        let port = listener.port();
        match listener.ip() {
            IpAddr::V4(v4) if v4.is_unspecified() => {
                guarded.extend(local.iter().filter(|ip| ip.is_ipv4()).map(|ip| (*ip, port)));
            }
            IpAddr::V6(v6) if v6.is_unspecified() => {
                guarded.extend(local.iter().map(|ip| (*ip, port)));
            }
            ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => {
                guarded.insert((ip.to_canonical(), port));
            }
        }
    }
    guarded
}

/// Whether the guarded addresses change with those of the host.
pub(super) fn follows_host(listeners: &[SocketAddr]) -> bool {
    listeners
        .iter()
        .any(|listener| listener.ip().is_unspecified())
}

/// The map's key.
pub(super) fn listener_key((ip, port): (IpAddr, u16)) -> ListenerKey {
    ListenerKey::new(address(ip), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_on_all_addresses_guard_those_of_the_host() {
        let local = ["127.0.0.1", "192.0.2.1", "::1", "2001:db8::1"].map(|ip| ip.parse().unwrap());
        let guarded = |listener: &str| {
            let found = guarded(&[listener.parse().unwrap()], &local);
            found
                .into_iter()
                .map(|(ip, _)| ip.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(guarded("192.0.2.9:80"), ["192.0.2.9"]);
        assert_eq!(guarded("[::ffff:192.0.2.9]:80"), ["192.0.2.9"]);
        assert_eq!(guarded("0.0.0.0:80"), ["127.0.0.1", "192.0.2.1"]);
        assert_eq!(
            guarded("[::]:80"),
            ["127.0.0.1", "192.0.2.1", "::1", "2001:db8::1"]
        );
    }
}
