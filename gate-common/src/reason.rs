//! Why a packet was passed or dropped. Every packet is counted under exactly one reason.

use crate::config::Mode;

/// Declares the reasons once: the enum, the list of all, and the words used in status.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $name:ident = $index:literal, $word:literal;)*) => {
        /// Why a packet was passed or dropped. The number is the counter's index in the kernel's map.
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[doc = $doc])* $name = $index,)*
        }

        impl Reason {
            /// Every reason, in the order of the counters.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The word used in status and metrics.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

reasons! {
    /// The mode is off or the program has no configuration yet.
    Off = 0, "off";
    /// Neither IPv4 nor IPv6.
    NotIp = 1, "not_ip";
    /// More than two VLAN tags.
    VlanTooDeep = 2, "vlan_too_deep";
    /// A header ends beyond the packet.
    Truncated = 3, "truncated";
    /// The IP version or header length contradicts itself.
    BadHeader = 4, "bad_header";
    /// More than four IPv6 extension headers.
    ExtensionsTooMany = 5, "extensions_too_many";
    /// A fragment after the first: it carries no ports.
    LaterFragment = 6, "later_fragment";
    /// Not TCP.
    NotTcp = 7, "not_tcp";
    /// Not for a guarded listener.
    NotGuarded = 8, "not_guarded";
    /// For a guarded listener, but it opens no connection.
    NotOpening = 9, "not_opening";
    /// The source has a session.
    Admitted = 10, "admitted";
    /// The source has a session and exceeds even the rate of those.
    AdmittedOver = 11, "admitted_over_rate";
    /// The source is a trusted proxy.
    TrustedProxy = 12, "trusted_proxy";
    /// The operator refuses the source.
    Denied = 13, "denied";
    /// The source has hardly been seen lately and is not tracked.
    Light = 14, "light";
    /// The source was seen often enough that it is tracked from now on.
    Learned = 15, "learned";
    /// The source would be tracked, but this processor learned as many as it may in one second.
    FloodUnlearned = 16, "flood_unlearned";
    /// A tracked source within its rate.
    Within = 17, "within_rate";
    /// A tracked source over its rate.
    Over = 18, "over_rate";
    /// A map the program needs gave no room or no entry.
    MapFailed = 19, "map_failed";
}

/// Number of reasons, and so of counters.
pub const REASONS: usize = Reason::ALL.len();

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Pass,
    Drop,
}

impl Reason {
    /// What a packet of this reason deserves where the mode is [`Mode::Enforce`].
    pub const fn enforced(self) -> Action {
        match self {
            Self::AdmittedOver | Self::Denied | Self::Over => Action::Drop,
            Self::Off
            | Self::NotIp
            | Self::VlanTooDeep
            | Self::Truncated
            | Self::BadHeader
            | Self::ExtensionsTooMany
            | Self::LaterFragment
            | Self::NotTcp
            | Self::NotGuarded
            | Self::NotOpening
            | Self::Admitted
            | Self::TrustedProxy
            | Self::Light
            | Self::Learned
            | Self::FloodUnlearned
            | Self::Within
            | Self::MapFailed => Action::Pass,
        }
    }

    /// What happens to a packet of this reason.
    #[inline(always)]
    pub const fn action(self, mode: Mode) -> Action {
        match mode {
            Mode::Off | Mode::Monitor => Action::Pass,
            Mode::Enforce => self.enforced(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_dense() {
        for (index, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
        }
    }

    #[test]
    fn only_enforce_drops() {
        for reason in Reason::ALL {
            assert_eq!(reason.action(Mode::Off), Action::Pass);
            assert_eq!(reason.action(Mode::Monitor), Action::Pass);
        }
        let dropped = Reason::ALL
            .iter()
            .filter(|reason| reason.action(Mode::Enforce) == Action::Drop)
            .count();
        assert_eq!(dropped, 3);
    }
}
