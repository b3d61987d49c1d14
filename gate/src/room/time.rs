//! Room time: what the core is told the time is. No clock is read here.

/// Milliseconds since the Unix epoch, as the edge's clock shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(u64);

impl Millis {
    /// The earliest time there is.
    pub const ZERO: Self = Self(0);

    /// From milliseconds since the Unix epoch.
    pub const fn new(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1000
    }

    /// This time plus a span, at most the largest time there is.
    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// This time minus a span, at least [`Millis::ZERO`].
    #[must_use]
    pub const fn minus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_sub(millis))
    }

    /// Milliseconds from `earlier` to this time; 0 where `earlier` is later.
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
