//! What concerns every room (`[settings]`): verified search crawlers.

use std::path::Path;

use crate::rules::{AddressRange, CrawlerSettings, parse_ranges};

use super::Surroundings;
use super::fields::{OneOrMany, Section};

/// Longest file of published ranges. A longer one is refused.
const RANGES_FILE_BYTES_MAX: usize = 16_777_216;
/// Most files of ranges, domains and DNS servers, each. More are refused.
const ENTRIES_MAX: usize = 100;

/// Who passes as a crawler; `None` where nobody does.
pub(super) fn read(mut section: Section<'_>, around: &Surroundings<'_>) -> Option<CrawlerSettings> {
    let report = section.report();
    let bypass = section.boolean("search_engine_crawler_bypass");
    let files = section.strings("crawler_ranges_files", OneOrMany::Many, |path| {
        let text = around.read_text(Path::new(path), RANGES_FILE_BYTES_MAX)?;
        parse_ranges(&text).map_err(|error| error.to_string())
    });
    let domains =
        section.strings(
            "crawler_domains",
            OneOrMany::Many,
            |text| match crate::route::Host::parse(text) {
                Ok(crate::route::Host::Name(name)) if name.contains('.') => Ok(name),
                Ok(_) => Err("must be a domain, such as googlebot.com".to_owned()),
                Err(error) => Err(error.to_string()),
            },
        );
    let servers = section.strings("crawler_dns_servers", OneOrMany::Many, |text| {
        text.parse()
            .map_err(|_| "must be IP:PORT, such as 127.0.0.1:53".to_owned())
    });
    let files = files.unwrap_or_default();
    let domains = domains.unwrap_or_default();
    let servers = servers.unwrap_or_default();
    for (key, count) in [
        ("crawler_ranges_files", files.len()),
        ("crawler_domains", domains.len()),
        ("crawler_dns_servers", servers.len()),
    ] {
        if count > ENTRIES_MAX {
            let problem = format!("must be at most {ENTRIES_MAX}");
            report.add(&section.at_value(key), problem);
        }
    }
    let is_on = bypass.as_ref().is_some_and(|found| found.value);
    if let Some(bypass) = &bypass
        && is_on
        && !section.has("crawler_ranges_files")
        && !section.has("crawler_domains")
    {
        report.add(
            &bypass.at,
            "nobody can be verified without crawler_ranges_files or crawler_domains",
        );
    }
    section.finish();
    let ranges = files.into_iter().flat_map(|found| found.value);
    is_on.then(|| CrawlerSettings {
        ranges: ranges.collect::<Vec<AddressRange>>().into_iter().collect(),
        domains: domains.into_iter().map(|found| found.value).collect(),
        dns_servers: servers.into_iter().map(|found| found.value).collect(),
    })
}
