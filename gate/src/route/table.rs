//! All routes of all rooms, in the order in which they are searched.

use super::host::{Host, compare, name_of};
use super::path::PathReading;
use super::{PathCase, Route, RoutePath};

/// Which room: its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoomIndex(pub usize);

/// Finds rooms. Built once per configuration.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// By host name.
    named: Vec<(String, Paths)>,
    any: Paths,
    /// Every route, for requests that name no host: which of its hosts an origin serves then is not known here.
    all: Paths,
}

/// The routes of one host.
#[derive(Clone, Debug, Default)]
struct Paths {
    sensitive: Sorted,
    /// Paths in lower case.
    insensitive: Sorted,
}

#[derive(Clone, Debug, Default)]
struct Sorted {
    entries: Vec<(RoutePath, RoomIndex)>,
    /// Segments of the longest route: no prefix deeper than this needs to be looked up.
    depth_max: usize,
}

/// A route that covers a path, and how much of it.
#[derive(Clone, Copy, Debug)]
struct Match {
    room: RoomIndex,
    path_bytes: usize,
}

impl Table {
    /// From each room's routes, in the order of the rooms. Of two rooms with the same route the first keeps it.
    pub fn new<'r>(rooms: impl IntoIterator<Item = (&'r [Route], PathCase)>) -> Self {
        let mut table = Self::default();
        for (index, (routes, case)) in rooms.into_iter().enumerate() {
            for route in routes {
                table.add(route, case, RoomIndex(index));
            }
        }
        table
    }

    fn add(&mut self, route: &Route, case: PathCase, room: RoomIndex) {
        self.all.add(&route.path, case, room);
        let paths = match &route.host {
            Host::Any => &mut self.any,
            Host::Name(name) => {
                let place = self.named.binary_search_by(|(own, _)| own.cmp(name));
                let place = place.unwrap_or_else(|place| {
                    self.named.insert(place, (name.clone(), Paths::default()));
                    place
                });
                &mut self.named[place].1
            }
        };
        paths.add(&route.path, case, room);
    }

    /// The room of a request for `path` (as sent, query allowed) at `authority` (a `Host` header or the authority of an
    /// absolute-form target; empty or absent where the request names no host).
    pub fn find(&self, authority: Option<&[u8]>, path: &[u8]) -> Option<RoomIndex> {
        let host = name_of(authority.unwrap_or_default());
        let own = if host.is_empty() {
            Some(&self.all)
        } else {
            self.named
                .binary_search_by(|(name, _)| compare(name, host))
                .ok()
                .map(|place| &self.named[place].1)
        };
        if own.is_none() && self.any.is_empty() {
            return None;
        }
        let reading = PathReading::of(path);
        let resolved = self.find_reading(own, &reading.resolved);
        let unresolved = reading
            .unresolved
            .and_then(|path| self.find_reading(own, &path));
        longer(resolved, unresolved).map(|found| found.room)
    }

    /// [`Self::find`] for a request as `http` has it: an absolute-form target's authority goes before the `Host` header.
    pub fn find_target(&self, target: &http::Uri, host_header: Option<&[u8]>) -> Option<RoomIndex> {
        let authority = target.authority().map(|authority| authority.as_str());
        self.find(
            authority.map(str::as_bytes).or(host_header),
            target.path().as_bytes(),
        )
    }

    fn find_reading(&self, own: Option<&Paths>, path: &[u8]) -> Option<Match> {
        let named = own.and_then(|paths| paths.find(path));
        longer(named, self.any.find(path))
    }
}

/// The more specific of two matches; the first where they are equal.
fn longer(first: Option<Match>, second: Option<Match>) -> Option<Match> {
    match (first, second) {
        (Some(first), Some(second)) if second.path_bytes > first.path_bytes => Some(second),
        (None, second) => second,
        (first, _) => first,
    }
}

impl Paths {
    fn is_empty(&self) -> bool {
        self.sensitive.entries.is_empty() && self.insensitive.entries.is_empty()
    }

    fn add(&mut self, path: &RoutePath, case: PathCase, room: RoomIndex) {
        match case {
            PathCase::Sensitive => self.sensitive.add(path.clone(), room),
            PathCase::Insensitive => self.insensitive.add(path.to_ascii_lowercase(), room),
        }
    }

    fn find(&self, path: &[u8]) -> Option<Match> {
        let exact = self.sensitive.find(path);
        if self.insensitive.entries.is_empty() {
            return exact;
        }
        longer(exact, self.insensitive.find(&path.to_ascii_lowercase()))
    }
}

impl Sorted {
    fn add(&mut self, path: RoutePath, room: RoomIndex) {
        let place = self.entries.binary_search_by(|(own, _)| own.cmp(&path));
        if let Err(place) = place {
            self.depth_max = self.depth_max.max(path.depth());
            self.entries.insert(place, (path, room));
        }
    }

    /// Looks up the path's leading segments, the longest first.
    fn find(&self, path: &[u8]) -> Option<Match> {
        if self.entries.is_empty() {
            return None;
        }
        let mut end = depth_end(path, self.depth_max);
        loop {
            let prefix = &path[..end];
            let place = self
                .entries
                .binary_search_by(|(own, _)| own.as_bytes().cmp(prefix));
            if let Ok(place) = place {
                return Some(Match {
                    room: self.entries[place].1,
                    path_bytes: end,
                });
            }
            if end == 0 {
                return None;
            }
            end = prefix
                .iter()
                .rposition(|byte| *byte == b'/')
                .unwrap_or_default();
        }
    }
}

/// Where the first `depth` segments of a path end.
fn depth_end(path: &[u8], depth: usize) -> usize {
    path.iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/')
        .nth(depth)
        .map_or(path.len(), |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn route(host: &str, path: &str) -> Route {
        Route {
            host: Host::parse(host).unwrap(),
            path: RoutePath::parse(path).unwrap(),
        }
    }

    fn table(rooms: &[&[(&str, &str)]]) -> Table {
        let rooms: Vec<Vec<Route>> = rooms
            .iter()
            .map(|routes| routes.iter().map(|(h, p)| route(h, p)).collect())
            .collect();
        Table::new(
            rooms
                .iter()
                .map(|routes| (routes.as_slice(), PathCase::Sensitive)),
        )
    }

    fn find(table: &Table, host: &str, path: &str) -> Option<usize> {
        table
            .find(Some(host.as_bytes()), path.as_bytes())
            .map(|room| room.0)
    }

    #[test]
    fn a_path_covers_what_is_below_it() {
        let table = table(&[&[("shop.example.com", "/sale")]]);
        for path in ["/sale", "/sale/", "/sale/a/b", "/sale?x", "/sale;x"] {
            assert_eq!(find(&table, "shop.example.com", path), Some(0), "{path}");
        }
        for path in ["/", "/sales", "/sale.html", "/SALE", "/a/sale"] {
            assert_eq!(find(&table, "shop.example.com", path), None, "{path}");
        }
        assert_eq!(find(&table, "example.com", "/sale"), None);
    }

    #[test]
    fn the_most_specific_room_wins() {
        let table = table(&[
            &[("*", "/")],
            &[("a.example", "/")],
            &[("a.example", "/shop"), ("b.example", "/store")],
            &[("a.example", "/shop/checkout")],
            &[("*", "/shop/checkout/pay")],
        ]);
        for (host, path, room) in [
            ("c.example", "/", 0),
            ("c.example", "/shop", 0),
            ("a.example", "/x", 1),
            ("a.example", "/shop/x", 2),
            ("b.example", "/store", 2),
            ("b.example", "/shop", 0),
            ("a.example", "/shop/checkout", 3),
            ("a.example", "/shop/checkout/paying", 3),
            ("a.example", "/shop/checkout/pay", 4),
            ("c.example", "/shop/checkout/pay/1", 4),
        ] {
            assert_eq!(find(&table, host, path), Some(room), "{host}{path}");
        }
    }

    #[test]
    fn hosts_match_however_they_are_written() {
        let table = table(&[&[("shop.example.com", "/")]]);
        for host in [
            "SHOP.example.com",
            "shop.example.com.",
            "shop.example.com:8080",
            "Shop.Example.Com.:443",
            "me@shop.example.com",
        ] {
            assert_eq!(find(&table, host, "/"), Some(0), "{host}");
        }
        for host in ["shop.example.co", "xshop.example.com", "shop.example.comx"] {
            assert_eq!(find(&table, host, "/"), None, "{host}");
        }
    }

    #[test]
    fn a_request_without_host_is_covered_by_any_hosts_room() {
        let table = table(&[&[("a.example", "/")], &[("b.example", "/pay")]]);
        assert_eq!(table.find(None, b"/x"), Some(RoomIndex(0)));
        assert_eq!(table.find(Some(b""), b"/pay"), Some(RoomIndex(1)));
        assert_eq!(table.find(Some(b":80"), b"/pay"), Some(RoomIndex(1)));
    }

    #[test]
    fn an_absolute_target_names_the_host() {
        let table = table(&[&[("a.example", "/shop")]]);
        let target: http::Uri = "http://A.example:80/shop/x?y".parse().unwrap();
        let found = table.find_target(&target, Some(b"b.example"));
        assert_eq!(found, Some(RoomIndex(0)));
        let target: http::Uri = "/shop".parse().unwrap();
        let found = table.find_target(&target, Some(b"a.example"));
        assert_eq!(found, Some(RoomIndex(0)));
        assert_eq!(table.find_target(&target, Some(b"b.example")), None);
    }

    #[test]
    fn case_is_ignored_where_the_room_says_so() {
        let any = [route("*", "/Black-Friday")];
        let exact = [route("*", "/black-friday/VIP")];
        let table = Table::new([
            (any.as_slice(), PathCase::Insensitive),
            (exact.as_slice(), PathCase::Sensitive),
        ]);
        assert_eq!(find(&table, "x", "/BLACK-friday/a"), Some(0));
        assert_eq!(find(&table, "x", "/black-friday/VIP"), Some(1));
        assert_eq!(find(&table, "x", "/black-friday/vip"), Some(0));
    }

    #[test]
    fn neither_reading_of_dot_dot_slips_past() {
        let table = table(&[&[("*", "/shop")]]);
        assert_eq!(find(&table, "x", "/x/../shop"), Some(0));
        assert_eq!(find(&table, "x", "/shop/../x"), Some(0));
        assert_eq!(find(&table, "x", "/shop/%252e%252e/x"), Some(0));
        assert_eq!(find(&table, "x", "/x/../y"), None);
    }

    /// One way to write a segment or the slash in front of it differently.
    fn disguise(path: &str, choices: &[u8]) -> String {
        let mut out = String::new();
        for (index, character) in path.chars().enumerate() {
            let choice = choices[index % choices.len()];
            let code = u32::from(character);
            match (character, choice % 8) {
                ('/', 0) => out.push_str("//"),
                ('/', 1) => out.push_str("/./"),
                ('/', 2) => out.push_str("/zz/../"),
                ('/', 3) => out.push_str("/zz/%2e%2E/"),
                ('/', 4) if index > 0 => out.push_str("%2F"),
                ('/', 5) if index > 0 => out.push_str(";p=1/"),
                ('/', 6) if index > 0 => out.push('\\'),
                ('/', _) => out.push('/'),
                (_, 0) => out.push_str(&format!("%{code:02x}")),
                (_, 1) => out.push_str(&format!("%{code:02X}")),
                (_, 2) => out.push_str(&format!("%25{code:02x}")),
                (_, _) => out.push(character),
            }
        }
        out
    }

    proptest! {
        #[test]
        fn disguised_paths_map_to_the_same_room(
            path in "(/[abc]{1,3}){1,5}/?",
            choices in prop::collection::vec(any::<u8>(), 1..40),
        ) {
            let table = table(&[
                &[("*", "/a")],
                &[("*", "/b/c"), ("*", "/a/b")],
                &[("*", "/abc/a/b")],
                &[("*", "/ab")],
            ]);
            let disguised = disguise(&path, &choices);
            prop_assert_eq!(find(&table, "x", &path), find(&table, "x", &disguised), "{}", disguised);
        }

        #[test]
        fn no_request_panics(host in prop::collection::vec(any::<u8>(), 0..40), path in prop::collection::vec(any::<u8>(), 0..80)) {
            let table = table(&[&[("a.example", "/a")], &[("*", "/b")]]);
            table.find(Some(&host), &path);
        }
    }
}
