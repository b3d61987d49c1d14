//! What the operator sees of the kernel part: plain data for JSON, and the same as text.

use std::fmt::Write as _;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::source_rate::SourceRateCounts;

/// Sources named in a status.
pub(super) const TOP_SOURCES_MAX: usize = 20;
/// Tracked sources looked at for a status; a larger table is marked as cut short.
pub(super) const SCAN_ENTRIES_MAX: u32 = 65_536;

/// The kernel part of one gate, now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelStatus {
    /// `off`, `monitor` or `enforce`.
    pub mode: String,
    /// Whether the program is in the kernel. Without it only requests are limited, not connections.
    pub loaded: bool,
    pub interfaces: Vec<InterfaceStatus>,
    pub maps: Vec<MapStatus>,
    /// Packets by reason, those that occurred.
    pub reasons: Vec<ReasonStatus>,
    /// Packets the kernel dropped since the mode became what it is; in `monitor`, those it would have dropped.
    pub over_packets: u64,
    /// Sources without a session that were refused most.
    pub top_sources: Vec<TopSource>,
    /// The same rate on requests of open connections.
    pub requests: SourceRateCounts,
    pub admitted: AdmittedStatus,
    /// Times a source went over its rate, as far as they were told.
    pub events: u64,
    /// What went wrong, at start or since.
    pub faults: Vec<String>,
}

/// One interface named in the settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceStatus {
    pub name: String,
    pub state: InterfaceState,
}

/// Whether the program guards an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterfaceState {
    /// In the driver.
    Native,
    /// Behind the driver.
    Generic,
    /// It could not be attached; the faults say why.
    NotAttached,
    /// The interface went away after the start.
    Gone,
    /// The program was taken off the interface.
    Detached,
}

impl InterfaceState {
    /// Every state.
    pub const ALL: [Self; 5] = [
        Self::Native,
        Self::Generic,
        Self::NotAttached,
        Self::Gone,
        Self::Detached,
    ];

    /// The word used in status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::NotAttached => "not_attached",
            Self::Gone => "gone",
            Self::Detached => "detached",
        }
    }
}

/// How full a map is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapStatus {
    pub name: String,
    pub entries: u32,
    pub entries_max: u32,
    /// There are more entries than were counted.
    pub at_least: bool,
}

/// Packets under one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonStatus {
    pub reason: String,
    pub packets: u64,
    /// Whether `enforce` drops them.
    pub refused: bool,
}

/// A source refused often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopSource {
    /// For IPv6 the first address of its /64.
    pub source: IpAddr,
    pub connections_refused: u64,
    pub over_rate_now: bool,
}

/// What became of the sources the gate told the kernel about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmittedStatus {
    /// Not entered because the map was full.
    pub full: u64,
    /// Not entered because the operator denies them.
    pub denied: u64,
    /// Messages lost because too many waited.
    pub lost: u64,
    pub expired: u64,
}

impl KernelStatus {
    /// For people, a few lines.
    pub fn as_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _written = self.write_text(&mut text).is_ok();
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        let program = if self.loaded { "loaded" } else { "not loaded" };
        writeln!(text, "mode       {}, program {program}", self.mode)?;
        for interface in &self.interfaces {
            writeln!(
                text,
                "interface  {} {}",
                interface.name,
                interface.state.as_str()
            )?;
        }
        for map in &self.maps {
            let more = if map.at_least { " or more" } else { "" };
            writeln!(
                text,
                "map        {} {}{more} of {} entries",
                map.name, map.entries, map.entries_max
            )?;
        }
        for reason in &self.reasons {
            let fate = match (reason.refused, self.mode.as_str()) {
                (true, "enforce") => ", dropped",
                (true, _) => ", would be dropped",
                (false, _) => "",
            };
            writeln!(
                text,
                "packets    {} {}{fate}",
                reason.packets, reason.reason
            )?;
        }
        writeln!(
            text,
            "requests   {} over the rate, {} refused",
            self.requests.over, self.requests.refused
        )?;
        for top in &self.top_sources {
            let now = if top.over_rate_now {
                ", over its rate now"
            } else {
                ""
            };
            writeln!(
                text,
                "source     {} {} connections over the rate{now}",
                top.source, top.connections_refused
            )?;
        }
        for fault in &self.faults {
            writeln!(text, "fault      {fault}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_says_what_matters() {
        let status = KernelStatus {
            mode: "monitor".to_owned(),
            loaded: true,
            interfaces: vec![InterfaceStatus {
                name: "eth0".to_owned(),
                state: InterfaceState::Native,
            }],
            reasons: vec![ReasonStatus {
                reason: "over_rate".to_owned(),
                packets: 7,
                refused: true,
            }],
            top_sources: vec![TopSource {
                source: IpAddr::from([192, 0, 2, 1]),
                connections_refused: 7,
                over_rate_now: true,
            }],
            ..KernelStatus::default()
        };
        let text = status.as_text();
        for line in [
            "mode       monitor, program loaded",
            "interface  eth0 native",
            "packets    7 over_rate, would be dropped",
            "source     192.0.2.1 7 connections over the rate, over its rate now",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line:?} in {text}"
            );
        }
    }

    #[test]
    fn json_reads_back() {
        let status = KernelStatus {
            mode: "off".to_owned(),
            ..KernelStatus::default()
        };
        let json = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<KernelStatus>(&json).unwrap(), status);
    }
}
