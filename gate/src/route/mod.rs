//! Which room covers a request: host and path to a room. Looks at nothing else, changes nothing, and never sees a ticket.
//!
//! A route covers its path and everything below it, as the field's "implied wildcard": `/shop` covers `/shop`, `/shop/` and
//! `/shop/cart`, and not `/shopping`, which is another page. Where several routes cover a request the longest path wins, and
//! between equal paths the one that names the host.

mod host;
mod path;
mod table;

pub use host::{Host, HostError, name_of as host_name_of};
pub use path::{PATH_BYTES_MAX, PathError, PathReading, RoutePath};
pub use table::{RoomIndex, Table};

/// One host and path that a room covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    pub host: Host,
    pub path: RoutePath,
}

/// Whether letters of a room's paths match regardless of case (`path_case_insensitive`). ASCII letters only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathCase {
    /// `/Sale` and `/sale` are two pages, the field's rule.
    #[default]
    Sensitive,
    Insensitive,
}
