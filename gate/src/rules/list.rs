//! The lists that expressions name as `$name` (`[lists]`): each holds addresses or host names, never both. Reads no files.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::route::Host;

use super::address::{AddressRange, AddressSet};

/// Lists by name.
pub type Lists = HashMap<String, List>;

/// One list. Which kind it is follows from its entries.
#[derive(Clone, Debug)]
pub enum List {
    /// Without entries: fits nothing, whatever it is compared with.
    Empty,
    Addresses(Arc<AddressSet>),
    Hosts(Arc<HostSet>),
}

/// One entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListEntry {
    Address(AddressRange),
    Host(HostPattern),
}

/// A host name, or every name below one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    Name(String),
    /// `*.example.com`: any number of labels below it, and not the name itself.
    Below(String),
}

/// Host names, each found in the time of a few hashes.
#[derive(Clone, Debug, Default)]
pub struct HostSet {
    names: HashSet<Box<[u8]>>,
    /// Without `*.`.
    below: HashSet<Box<[u8]>>,
}

/// A list whose entries are of both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedList;

impl std::fmt::Display for MixedList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("holds addresses and host names; a list is of one kind")
    }
}

impl std::error::Error for MixedList {}

impl ListEntry {
    /// Reads an address, prefix or range, `shop.example.com`, or `*.example.com`.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        // Names have letters and no colon; of letters, addresses have those of hexadecimal digits beside a colon.
        let is_addresses = text
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || b":./".contains(&byte))
            && (text.contains(':') || !text.bytes().any(|byte| byte.is_ascii_alphabetic()));
        if is_addresses {
            return text.parse().map(Self::Address);
        }
        let (name, pattern) = match text.strip_prefix("*.") {
            Some(name) => (name, HostPattern::Below as fn(String) -> HostPattern),
            None => (text, HostPattern::Name as fn(String) -> HostPattern),
        };
        match Host::parse(name) {
            Ok(Host::Name(name)) => Ok(Self::Host(pattern(name))),
            Ok(Host::Any) | Err(_) => Err(
                "is neither an address, prefix or range, such as 192.0.2.0/24, nor a host name without scheme, port and \
                 path, such as shop.example.com or *.example.com"
            .to_owned()),
        }
    }
}

impl List {
    /// # Errors
    /// Where entries of both kinds are among them.
    pub fn new(entries: impl IntoIterator<Item = ListEntry>) -> Result<Self, MixedList> {
        let mut ranges = Vec::new();
        let mut hosts = HostSet::default();
        for entry in entries {
            match entry {
                ListEntry::Address(range) => ranges.push(range),
                ListEntry::Host(HostPattern::Name(name)) => {
                    hosts.names.insert(name.into_bytes().into());
                }
                ListEntry::Host(HostPattern::Below(name)) => {
                    hosts.below.insert(name.into_bytes().into());
                }
            }
        }
        match (ranges.is_empty(), hosts.is_empty()) {
            (true, true) => Ok(Self::Empty),
            (false, true) => Ok(Self::Addresses(Arc::new(ranges.into_iter().collect()))),
            (true, false) => Ok(Self::Hosts(Arc::new(hosts))),
            (false, false) => Err(MixedList),
        }
    }
}

impl HostSet {
    /// Whether it holds a host in lower case without port. A final dot changes nothing.
    pub fn contains(&self, host: &[u8]) -> bool {
        let host = host.strip_suffix(b".").unwrap_or(host);
        if self.names.contains(host) {
            return true;
        }
        if self.below.is_empty() {
            return false;
        }
        host.iter()
            .enumerate()
            .filter(|(at, byte)| **byte == b'.' && *at > 0)
            .filter_map(|(at, _)| host.get(at + 1..))
            .any(|parent| self.below.contains(parent))
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.below.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Result<List, MixedList> {
        List::new(texts.iter().map(|text| ListEntry::parse(text).unwrap()))
    }

    #[test]
    fn the_entries_say_of_which_kind_a_list_is() {
        assert!(matches!(list(&[]), Ok(List::Empty)));
        assert!(matches!(
            list(&["192.0.2.0/24", "2001:db8::1", "192.0.2.1..192.0.2.9"]),
            Ok(List::Addresses(_))
        ));
        assert!(matches!(
            list(&["shop.example.com", "*.example.org"]),
            Ok(List::Hosts(_))
        ));
        assert_eq!(
            list(&["shop.example.com", "192.0.2.1"]).unwrap_err(),
            MixedList
        );
    }

    #[test]
    fn hosts_are_names_and_what_is_below_a_name() {
        let Ok(List::Hosts(hosts)) = list(&["Shop.Example.com.", "*.example.org"]) else {
            panic!("no list of hosts");
        };
        for (host, is_in) in [
            ("shop.example.com", true),
            ("shop.example.com.", true),
            ("a.shop.example.com", false),
            ("example.com", false),
            ("example.org", false),
            ("a.example.org", true),
            ("a.b.example.org.", true),
            (".example.org", false),
            ("badexample.org", false),
            ("example.org.evil.net", false),
            ("", false),
            (".", false),
        ] {
            assert_eq!(hosts.contains(host.as_bytes()), is_in, "{host:?}");
        }
    }

    #[test]
    fn refuses_what_is_neither() {
        for text in [
            "",
            "*",
            "*.",
            "*.*.example.com",
            "https://shop.example.com",
            "shop.example.com:443",
            "shop.example.com/path",
            "a..b",
            "192.0.2.0/33",
            "192.0.2",
            "192.0.2.1/24",
            "bücher.example",
        ] {
            assert!(ListEntry::parse(text).is_err(), "{text}");
        }
    }
}
