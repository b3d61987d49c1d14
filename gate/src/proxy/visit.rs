//! Who comes: the client behind the sender, and the ticket among its cookies. Opens tickets; decides nothing.

use std::net::IpAddr;

use http::header::{COOKIE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, Version};

use super::check;
use super::forward::{Peer, Sender};
use super::gate::{Core, Local};
use crate::config::{Bound, Scheme};
use crate::kernel::settings::source_network;
use crate::registry::OpenRoom;
use crate::room::Ticket;
use crate::rules::{Facts, Transport};
use crate::ticket::{Binding, SEALED_LEN};

/// Cookies of the room's name that are tried. A browser sends one, or a few from different paths; the first that opens counts.
pub(super) const COOKIES_TRIED_MAX: usize = 8;
/// Addresses of one `X-Forwarded-For` that are looked at, from the right.
const FORWARDED_ADDRESSES_MAX: usize = 32;

/// A request as the room sees it.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) ticket: Option<Ticket>,
    /// What the tickets of this client are bound to.
    pub(super) binding: Binding,
    pub(super) scheme: Scheme,
}

impl Visit {
    pub(super) fn of(
        core: &Core,
        local: &Local,
        room: &OpenRoom,
        sender: &Sender,
        headers: &HeaderMap,
    ) -> Self {
        let binding = binding(local, room, sender, headers);
        let name = room.config().cookie.name();
        let mut tickets = core.tickets.borrow_mut();
        let ticket = cookies(headers, name)
            .take(COOKIES_TRIED_MAX)
            .find_map(|value| tickets.open(room.scope(), binding, value));
        Self {
            ticket,
            binding,
            scheme: scheme(sender, headers),
        }
    }
}

/// Values of the cookies called `name`.
fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let fields = headers.get_all(COOKIE).iter();
    fields.flat_map(move |field| cookies_in(field.as_bytes(), name))
}

/// The same in one field.
pub(super) fn cookies_in<'a>(field: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    field.split(|&byte| byte == b';').filter_map(move |cookie| {
        let cookie = cookie.trim_ascii();
        let value = cookie.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        // Nothing longer or shorter can open.
        (value.len() == SEALED_LEN).then_some(value)
    })
}

/// How the request reached us, or the trusted proxy before us.
fn scheme(sender: &Sender, headers: &HeaderMap) -> Scheme {
    let said = headers
        .get("x-forwarded-proto")
        .filter(|_| sender.peer == Peer::TrustedProxy);
    match said {
        Some(value) if value.as_bytes().eq_ignore_ascii_case(b"https") => Scheme::Https,
        Some(_) | None => Scheme::Http,
    }
}

/// The client's address: the sender's, or the last one in `X-Forwarded-For` that no trusted proxy stands for.
pub(super) fn client_address(local: &Local, sender: &Sender, headers: &HeaderMap) -> IpAddr {
    if sender.peer == Peer::Client {
        return sender.address;
    }
    let fields = headers.get_all("x-forwarded-for").into_iter().rev();
    let addresses = fields
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.rsplit(','))
        .take(FORWARDED_ADDRESSES_MAX);
    let mut client = sender.address;
    for text in addresses {
        // What cannot be read was not written by a proxy of ours; whoever stands to its right is all that is known.
        let Ok(address) = text.trim().parse::<IpAddr>() else {
            break;
        };
        client = address.to_canonical();
        if !local.is_trusted(client) {
            break;
        }
    }
    client
}

/// What a rule looks at.
pub(super) fn facts<'r>(local: &Local, sender: &Sender, parts: &'r Parts) -> Facts<'r> {
    Facts {
        client: client_address(local, sender, &parts.headers),
        transport: match scheme(sender, &parts.headers) {
            Scheme::Http => Transport::Plain,
            Scheme::Https => Transport::Tls,
        },
        method: parts.method.as_str(),
        version: if parts.version == Version::HTTP_10 {
            "HTTP/1.0"
        } else {
            "HTTP/1.1"
        },
        host: check::host(parts),
        path: parts.uri.path().as_bytes(),
        query: parts.uri.query().unwrap_or_default().as_bytes(),
        headers: &parts.headers,
    }
}

fn binding(local: &Local, room: &OpenRoom, sender: &Sender, headers: &HeaderMap) -> Binding {
    let bound = room.config().ticket_binding;
    if bound.client_address == Bound::No && bound.user_agent == Bound::No {
        return Binding::NONE;
    }
    let address = match bound.client_address {
        Bound::Yes => {
            let network = source_network(client_address(local, sender, headers));
            network.to_string()
        }
        Bound::No => String::new(),
    };
    let agent = match bound.user_agent {
        Bound::Yes => headers.get(USER_AGENT).map_or(&b""[..], |v| v.as_bytes()),
        Bound::No => b"",
    };
    Binding::of(&[address.as_bytes(), agent])
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn finds_only_cookies_of_that_name_and_length() {
        let good = "A".repeat(SEALED_LEN);
        let other = "B".repeat(SEALED_LEN);
        let mut headers = HeaderMap::new();
        for field in [
            format!("a=1; room={good}; room=short; xroom={good}"),
            format!("room_2={good}; room={other}"),
        ] {
            headers.append(COOKIE, HeaderValue::from_str(&field).unwrap());
        }
        let found: Vec<&[u8]> = cookies(&headers, "room").collect();
        assert_eq!(found, [good.as_bytes(), other.as_bytes()]);
    }
}
