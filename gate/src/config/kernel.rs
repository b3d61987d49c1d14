//! The `[kernel]` section: reads it into the kernel part's own settings.

use crate::kernel::settings::{
    BURST_MAX, GenericAttach, InterfaceName, KernelMode, KernelSettings, MAP_ENTRIES_MAX,
    MAP_ENTRIES_MIN, MapSizes, Prefix, RATE_PER_MINUTE_MAX, SettingsError, SourceRateLimit,
};

use super::fields::{At, OneOrMany, Section, WordCase};

pub(super) fn read(mut section: Section<'_>, trusted_proxies: Vec<Prefix>) -> KernelSettings {
    let report = section.report();
    let mut settings = KernelSettings {
        trusted_proxies,
        ..KernelSettings::default()
    };
    let mode = section.word(
        "mode",
        WordCase::Exact,
        &[KernelMode::Off, KernelMode::Monitor, KernelMode::Enforce].map(|m| (m.as_str(), m)),
    );
    if let Some(mode) = mode {
        settings.mode = mode.value;
    }
    let generic = section.word(
        "generic",
        WordCase::Exact,
        &[
            ("allowed", GenericAttach::Allowed),
            ("refused", GenericAttach::Refused),
        ],
    );
    if let Some(generic) = generic {
        settings.generic = generic.value;
    }
    let interfaces = section.strings("interfaces", OneOrMany::Many, |text| {
        text.parse::<InterfaceName>().map_err(|e| e.to_string())
    });
    settings.interfaces = values(interfaces);
    let deny = section.strings("deny", OneOrMany::Many, |text| {
        text.parse::<Prefix>().map_err(|e| e.to_string())
    });
    settings.deny = values(deny);
    settings.source_rate = read_rate(
        &mut section,
        "source_rate_per_minute",
        "source_burst",
        settings.source_rate,
    );
    settings.admitted_rate = read_rate(
        &mut section,
        "admitted_rate_per_minute",
        "admitted_burst",
        settings.admitted_rate,
    );
    let mut entries = |key, default| {
        section
            .small_integer(key, MAP_ENTRIES_MIN..=MAP_ENTRIES_MAX)
            .map_or(default, |found| found.value)
    };
    let sizes = MapSizes::new(
        entries(
            "admitted_entries_max",
            settings.map_sizes.admitted_entries_max(),
        ),
        entries(
            "source_entries_max",
            settings.map_sizes.source_entries_max(),
        ),
    );
    if let Ok(sizes) = sizes {
        settings.map_sizes = sizes;
    }
    if let Err(error) = settings.check() {
        report.add(&place_of(&section, error), error.to_string());
    }
    section.finish();
    settings
}

fn values<T>(found: Option<Vec<super::fields::Found<T>>>) -> Vec<T> {
    let found = found.unwrap_or_default();
    found.into_iter().map(|found| found.value).collect()
}

fn read_rate(
    section: &mut Section<'_>,
    rate_key: &'static str,
    burst_key: &'static str,
    default: SourceRateLimit,
) -> SourceRateLimit {
    let rate = section.small_integer(rate_key, 1..=RATE_PER_MINUTE_MAX);
    let burst = section.small_integer(burst_key, 1..=BURST_MAX);
    SourceRateLimit::new(
        rate.map_or(default.per_minute(), |found| found.value),
        burst.map_or(default.burst(), |found| found.value),
    )
    .unwrap_or(default)
}

/// The key that a fault of the settings as a whole is about.
fn place_of(section: &Section<'_>, error: SettingsError) -> At {
    match error {
        SettingsError::InterfacesTooMany | SettingsError::InterfaceName => {
            section.at_value("interfaces")
        }
        SettingsError::SourceBurstTooSmall => section.at_value("source_burst"),
        SettingsError::AdmittedRateBelowSourceRate => section.at_value("admitted_rate_per_minute"),
        SettingsError::PrefixesTooMany => section.at_value("deny"),
        SettingsError::Mode
        | SettingsError::RateOutOfRange
        | SettingsError::BurstOutOfRange
        | SettingsError::PrefixSyntax
        | SettingsError::PrefixLength
        | SettingsError::PrefixHostBits
        | SettingsError::MapEntriesOutOfRange => section.at(),
    }
}
