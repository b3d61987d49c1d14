//! Samples of the kernel part for the metrics answer. Reads its status, asks the kernel nothing itself.

use gate_common::reason::{Action, Reason};

use crate::kernel::{InterfaceState, KernelStatus};

/// One line of a metric: its labels as written between the braces, and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) labels: String,
    pub(super) value: u64,
}

fn sample(labels: &[(&str, &str)], value: u64) -> Sample {
    let pairs: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    Sample {
        labels: pairs.join(","),
        value,
    }
}

/// Names of interfaces may hold both characters that end a label's value early.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"")
}

/// All reasons, those that never occurred included: a counter that appears only with its first packet hides that packet.
pub(super) fn packets(kernel: &KernelStatus) -> Vec<Sample> {
    if !kernel.loaded {
        return Vec::new();
    }
    let packets = |reason: &str| {
        let counted = kernel.reasons.iter().find(|found| found.reason == reason);
        counted.map_or(0, |found| found.packets)
    };
    Reason::ALL
        .iter()
        .map(|reason| {
            let verdict = match reason.enforced() {
                Action::Pass => "pass",
                Action::Drop => "refuse",
            };
            let word = reason.as_str();
            sample(&[("reason", word), ("verdict", verdict)], packets(word))
        })
        .collect()
}

pub(super) fn map_entries(kernel: &KernelStatus) -> Vec<Sample> {
    let maps = kernel.maps.iter();
    maps.map(|map| sample(&[("map", &map.name)], u64::from(map.entries)))
        .collect()
}

pub(super) fn map_entries_limit(kernel: &KernelStatus) -> Vec<Sample> {
    let maps = kernel.maps.iter();
    maps.map(|map| sample(&[("map", &map.name)], u64::from(map.entries_max)))
        .collect()
}

pub(super) fn interface_mode(kernel: &KernelStatus) -> Vec<Sample> {
    let mut samples = Vec::new();
    for interface in &kernel.interfaces {
        for mode in InterfaceState::ALL {
            let labels = [
                ("interface", interface.name.as_str()),
                ("mode", mode.as_str()),
            ];
            samples.push(sample(&labels, u64::from(mode == interface.state)));
        }
    }
    samples
}

pub(super) fn mode(kernel: &KernelStatus) -> Vec<Sample> {
    ["monitor", "enforce"]
        .iter()
        .map(|mode| sample(&[("mode", mode)], u64::from(*mode == kernel.mode)))
        .collect()
}

/// Sources that hold a session and are strangers to the kernel all the same.
pub(super) fn admitted_unknown(kernel: &KernelStatus) -> Vec<Sample> {
    let admitted = kernel.admitted;
    [
        ("map_full", admitted.full),
        ("denied", admitted.denied),
        ("message_lost", admitted.lost),
    ]
    .iter()
    .map(|(cause, sources)| sample(&[("cause", cause)], *sources))
    .collect()
}

pub(super) fn requests_over(kernel: &KernelStatus) -> Vec<Sample> {
    vec![sample(&[], kernel.requests.over)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{InterfaceStatus, ReasonStatus};

    #[test]
    fn every_reason_has_its_line_and_its_verdict() {
        let kernel = KernelStatus {
            loaded: true,
            reasons: vec![ReasonStatus {
                reason: "over_rate".to_owned(),
                packets: 7,
                refused: true,
            }],
            ..KernelStatus::default()
        };
        let packets = packets(&kernel);
        assert_eq!(packets.len(), Reason::ALL.len());
        assert!(packets.contains(&Sample {
            labels: "reason=\"over_rate\",verdict=\"refuse\"".to_owned(),
            value: 7,
        }));
        assert!(packets.contains(&Sample {
            labels: "reason=\"light\",verdict=\"pass\"".to_owned(),
            value: 0,
        }));
    }

    #[test]
    fn nothing_is_counted_where_nothing_is_loaded() {
        assert_eq!(packets(&KernelStatus::default()), Vec::new());
    }

    #[test]
    fn an_interface_is_in_one_mode_and_its_name_cannot_break_the_line() {
        let kernel = KernelStatus {
            interfaces: vec![InterfaceStatus {
                name: "a\"b\\c".to_owned(),
                state: InterfaceState::Generic,
            }],
            ..KernelStatus::default()
        };
        let modes = interface_mode(&kernel);
        assert_eq!(modes.iter().map(|sample| sample.value).sum::<u64>(), 1);
        let labels = "interface=\"a\\\"b\\\\c\",mode=\"generic\"".to_owned();
        assert!(modes.contains(&Sample { labels, value: 1 }));
    }
}
