//! The configuration: a TOML file or flags in, values that are valid as a whole out, or every fault at once. Opens nothing but
//! the files that the configuration itself names, and starts nothing.

mod assets;
mod cluster;
mod cookie;
mod cross;
mod error;
mod event;
mod fields;
mod kernel;
mod limits;
mod origin;
mod page;
mod quick;
mod room;
mod rule;
mod settings;
mod tree;

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::cluster::settings::ClusterSettings;
use crate::kernel::KernelSettings;
use crate::kernel::settings::Prefix;
use crate::page::PageAssets;
use crate::route;
use crate::rules::{CrawlerSettings, Lists};

pub use assets::{PAGE_ASSETS_BYTES_MAX, PAGE_ASSETS_FILES_MAX, PAGE_ASSETS_PATH_DEFAULT};
pub use cookie::{COOKIE_NAME_DEFAULT, CookieSettings, SameSite, Scheme, Secure};
pub use error::{ConfigError, Fault};
pub use event::EventConfig;
pub use limits::ProxyLimits;
pub use origin::{Origin, OriginError};
pub use page::PageSettings;
pub use quick::QuickArgs;
pub use room::{Bound, CorsPolicy, ForwardCookie, RevokeCommand, RoomConfig, TicketBinding};
pub use rule::{LIST_ENTRIES_MAX, LISTS_MAX, RULES_MAX};

use fields::{Found, OneOrMany, Report, Section};
use tree::Table;

/// Longest configuration file. A longer one is refused.
pub const FILE_BYTES_MAX: usize = 33_554_432;
/// Longest custom page, the field's limit. A longer one is refused.
pub const PAGE_BYTES_MAX: usize = 1_048_576;
/// Most rooms. More are refused.
pub const ROOMS_MAX: usize = 10_000;
/// Most events of a room. More are refused.
pub const EVENTS_MAX: usize = 1_000;
/// Most additional routes of a room. More are refused.
pub const ADDITIONAL_ROUTES_MAX: usize = 1_000;
/// Most listeners. More are refused.
pub const LISTENERS_MAX: usize = 64;
/// Longest name of a room or event.
pub const ROOM_NAME_BYTES_MAX: usize = 100;

/// Everything a gate is told, valid as a whole.
#[derive(Clone, Debug)]
pub struct Config {
    /// At least one.
    pub listen: Vec<SocketAddr>,
    /// Where requests outside every room go, and those of rooms without an origin of their own.
    pub origin: Origin,
    /// Keeps sessions and the line over a restart; `None` forgets them.
    pub state_file: Option<PathBuf>,
    /// Keeps the keys that seal tickets; `None` keeps them in memory, and a restart makes every visitor a new user.
    pub key_file: Option<PathBuf>,
    /// The admin endpoint; `None` has none.
    pub admin: Option<SocketAddr>,
    /// Whose word on the client (`X-Forwarded-*`) is taken.
    pub trusted_proxies: Vec<Prefix>,
    pub limits: ProxyLimits,
    pub kernel: KernelSettings,
    /// Files of custom pages, answered outside every room; `None` where there are none.
    pub page_assets: Option<PageAssets>,
    /// Verified search crawlers, who pass every room; `None` where nobody does.
    pub crawlers: Option<CrawlerSettings>,
    /// The gates this one shares its rooms with; `None` where it is alone.
    pub cluster: Option<ClusterSettings>,
    /// In the order of the file; at least one.
    pub rooms: Vec<RoomConfig>,
}

impl Config {
    /// Reads and checks a file. This is `gate check`.
    ///
    /// # Errors
    /// The file cannot be read, or everything that is wrong with it.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let bytes = read_limited(file, FILE_BYTES_MAX).map_err(|source| ConfigError::Read {
            file: file.to_owned(),
            source,
        })?;
        let not_text = |problem: String| ConfigError::NotText {
            file: file.to_owned(),
            problem,
        };
        if bytes.len() > FILE_BYTES_MAX {
            return Err(not_text(format!("longer than {FILE_BYTES_MAX} bytes")));
        }
        let text = String::from_utf8(bytes)
            .map_err(|error| not_text(format!("not UTF-8: {}", error.utf8_error())))?;
        Self::parse(&text, file)
    }

    /// Checks a file's text. `file` names it in errors, and files it names are found beside it.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let invalid = |faults| ConfigError::Invalid {
            file: file.to_owned(),
            faults,
        };
        let table = tree::parse(text).map_err(invalid)?;
        let around = Surroundings::beside(file);
        validate(&table, Report::of_text(text), &around).map_err(invalid)
    }

    /// Checks the quick form: one room on every path of every host.
    ///
    /// # Errors
    /// Everything that is wrong with the flags.
    pub fn from_quick(arguments: &QuickArgs) -> Result<Self, ConfigError> {
        quick::config(arguments)
    }

    /// Finds the room of a request; its index is the room's place in [`Config::rooms`].
    pub fn routes(&self) -> route::Table {
        route::Table::new(
            self.rooms
                .iter()
                .map(|room| (room.routes.as_slice(), room.path_case)),
        )
    }
}

/// What lies around the text: where files are that it names.
#[derive(Debug)]
pub(crate) struct Surroundings<'f> {
    directory: Option<&'f Path>,
}

impl<'f> Surroundings<'f> {
    fn beside(file: &'f Path) -> Self {
        Self {
            directory: file.parent(),
        }
    }

    fn working_directory() -> Self {
        Self { directory: None }
    }

    /// A path of the configuration, relative ones from the file's directory.
    fn resolve(&self, path: &Path) -> PathBuf {
        self.directory
            .map_or_else(|| path.to_owned(), |directory| directory.join(path))
    }

    /// A text file that the configuration names.
    fn read_text(&self, path: &Path, bytes_max: usize) -> Result<String, String> {
        let path = self.resolve(path);
        let bytes = read_limited(&path, bytes_max)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        if bytes.len() > bytes_max {
            return Err(format!(
                "{} is longer than {bytes_max} bytes",
                path.display()
            ));
        }
        String::from_utf8(bytes).map_err(|_| format!("{} is no UTF-8 text", path.display()))
    }
}

/// At most one byte more than `bytes_max`, so that the caller sees that there was more.
fn read_limited(file: &Path, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?
        .take(bytes_max as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// From a table to a configuration.
fn validate(
    table: &Table,
    report: Report,
    around: &Surroundings<'_>,
) -> Result<Config, Vec<Fault>> {
    let config = read_root(Section::root(&report, table), around);
    let faults = report.into_faults();
    match config {
        Some(config) if faults.is_empty() => Ok(config),
        Some(_) | None if !faults.is_empty() => Err(faults),
        Some(_) | None => Err(vec![Fault {
            line: None,
            key: String::new(),
            value: None,
            problem: "cannot be used, for a reason that was not found".to_owned(),
        }]),
    }
}

fn read_root(mut section: Section<'_>, around: &Surroundings<'_>) -> Option<Config> {
    let report = section.report();
    section.require("listen", "an address to listen on, as IP:PORT");
    section.require(
        "origin",
        "the web server behind the gate, as http://HOST:PORT",
    );
    let listen = read_listen(&mut section);
    let origin = section.parsed("origin", |text| {
        text.parse::<Origin>().map_err(|error| error.to_string())
    });
    let state_file = read_path(&mut section, "state_file", around);
    let key_file = read_path(&mut section, "key_file", around);
    let admin = section.parsed("admin", parse_address);
    let trusted = section.strings("trusted_proxies", OneOrMany::Many, |text| {
        text.parse::<Prefix>().map_err(|error| error.to_string())
    });
    let trusted: Vec<Prefix> = trusted
        .unwrap_or_default()
        .into_iter()
        .map(|found| found.value)
        .collect();
    let page_assets = assets::read(&mut section, around);
    let limits = section
        .table("limits")
        .map(limits::read)
        .unwrap_or_default();
    let kernel = match section.table("kernel") {
        Some(below) => kernel::read(below, trusted.clone()),
        None => KernelSettings {
            trusted_proxies: trusted.clone(),
            ..KernelSettings::default()
        },
    };
    let cluster = section
        .table("cluster")
        .and_then(|below| cluster::read(below, around));
    let lists = section
        .table("lists")
        .map(rule::read_lists)
        .unwrap_or_default();
    let crawlers = section
        .table("settings")
        .and_then(|below| settings::read(below, around));
    let rooms = read_rooms(
        &mut section,
        origin.as_ref().map(|found| &found.value),
        &lists,
        around,
    );
    if let (Some(admin), Some(listen)) = (&admin, &listen)
        && admin.value.port() != 0
        && listen.contains(&admin.value)
    {
        report.add(&admin.at, "must not be an address of `listen`");
    }
    if cluster.is_some() && key_file.is_none() && state_file.is_none() {
        report.add(
            &section.at_key("key_file"),
            "missing; gates that share rooms need the same keys, in a file each",
        );
    }
    section.finish();
    // Keys that outlive the process belong to sessions that do.
    let key_file = key_file.or_else(|| {
        let mut name = state_file.clone()?.into_os_string();
        name.push(".keys");
        Some(PathBuf::from(name))
    });
    Some(Config {
        listen: listen?,
        origin: origin?.value,
        state_file,
        key_file,
        admin: admin.map(|found| found.value),
        trusted_proxies: trusted,
        limits,
        kernel,
        page_assets,
        crawlers,
        cluster,
        rooms: rooms?,
    })
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "must be IP:PORT, such as 127.0.0.1:8000, 0.0.0.0:80 or [::]:80; names are not resolved"
            .to_owned()
    })
}

fn read_listen(section: &mut Section<'_>) -> Option<Vec<SocketAddr>> {
    let report = section.report();
    let found = section.strings("listen", OneOrMany::Either, parse_address)?;
    let at = section.at_value("listen");
    if found.len() > LISTENERS_MAX {
        report.add(&at, format!("must be at most {LISTENERS_MAX} addresses"));
    }
    for (index, address) in found.iter().enumerate() {
        let twice = found[..index].iter().any(|e| e.value == address.value);
        if twice && address.value.port() != 0 {
            report.add(&address.at, "is listed twice");
        }
    }
    let addresses: Vec<_> = found.into_iter().map(|address| address.value).collect();
    if section.is_empty_array("listen") {
        report.add(&at, "must hold at least one address");
    }
    Some(addresses)
}

fn read_path(
    section: &mut Section<'_>,
    key: &'static str,
    around: &Surroundings<'_>,
) -> Option<PathBuf> {
    let found: Found<PathBuf> = section.parsed(key, |text| {
        if text.is_empty() || text.contains('\0') {
            Err("must be the path of a file".to_owned())
        } else {
            Ok(around.resolve(Path::new(text)))
        }
    })?;
    Some(found.value)
}

fn read_rooms(
    section: &mut Section<'_>,
    origin: Option<&Origin>,
    lists: &Lists,
    around: &Surroundings<'_>,
) -> Option<Vec<RoomConfig>> {
    let report = section.report();
    section.require("rooms", "at least one [[rooms]]");
    let sections = section.tables("rooms");
    let at = section.at_value("rooms");
    if sections.len() > ROOMS_MAX {
        report.add(&at, format!("must be at most {ROOMS_MAX} rooms"));
        return None;
    }
    if section.is_empty_array("rooms") {
        report.add(&at, "must hold at least one room");
    }
    let mut rooms: Vec<_> = sections
        .into_iter()
        .map(|section| room::read(section, origin, lists, around))
        .collect();
    cross::check(report, &mut rooms);
    rooms.into_iter().map(|room| room.config).collect()
}

#[cfg(test)]
mod tests;
