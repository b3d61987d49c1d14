//! Scenarios that come with the gate.

const ALL: [(&str, &str); 6] = [
    (
        "uneven-workers",
        include_str!("scenarios/uneven-workers.toml"),
    ),
    (
        "spike-from-low",
        include_str!("scenarios/spike-from-low.toml"),
    ),
    ("anywhere-128", include_str!("scenarios/anywhere-128.toml")),
    ("flash-sale", include_str!("scenarios/flash-sale.toml")),
    (
        "follow-the-sun",
        include_str!("scenarios/follow-the-sun.toml"),
    ),
    (
        "counter-outage",
        include_str!("scenarios/counter-outage.toml"),
    ),
];

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// The text of one.
pub fn text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}
