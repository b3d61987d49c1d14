//! What rooms must satisfy together: names, routes and cookies that do not collide.

use std::collections::HashMap;

use crate::route::{Host, Route};

use super::cookie::COOKIE_NAME_DEFAULT;
use super::fields::Report;
use super::room::{RoomConfig, RoomRead};

/// Reports every collision and gives each room that chose no cookie name one of its own where it needs one.
pub(super) fn check(report: &Report, rooms: &mut [RoomRead]) {
    check_names(report, rooms);
    check_routes(report, rooms);
    settle_cookie_names(report, rooms);
}

fn check_names(report: &Report, rooms: &[RoomRead]) {
    let mut first = HashMap::new();
    for room in rooms {
        let Some(name) = &room.name else { continue };
        let owner = first
            .entry(name.value.as_str())
            .or_insert_with(|| room.at.key());
        if *owner != room.at.key() {
            report.add(&name.at, format!("must be unique: {owner} has this name"));
        }
    }
}

fn check_routes(report: &Report, rooms: &[RoomRead]) {
    let mut first: HashMap<&Route, &str> = HashMap::new();
    for room in rooms {
        for route in &room.routes {
            if let Some(owner) = first.get(&route.value) {
                let whose = if *owner == room.at.key() {
                    "this room".to_owned()
                } else {
                    (*owner).to_owned()
                };
                report.add(
                    &route.at,
                    format!(
                        "host and path must be unique over all rooms: {whose} already covers {}{}",
                        route.value.host, route.value.path
                    ),
                );
            } else {
                first.insert(&route.value, room.at.key());
            }
        }
    }
}

/// Two rooms that a browser may visit at one host must not share a cookie. Chosen names that collide are a fault. Rooms that
/// chose none share the default among different hosts; from the second on one host, the room's name is appended, in the order
/// of the file, so that a room added at the end renames nobody's cookie.
fn settle_cookie_names(report: &Report, rooms: &mut [RoomRead]) {
    let mut settled: HashMap<String, Vec<usize>> = HashMap::new();
    let (chosen, default): (Vec<_>, Vec<_>) =
        (0..rooms.len()).partition(|index| rooms[*index].cookie_chosen.is_some());
    for index in chosen.into_iter().chain(default) {
        let Some(config) = rooms[index].config.as_ref() else {
            continue;
        };
        let name = config.cookie.name().to_owned();
        let rival = rival(&settled, rooms, index, &name);
        let name = match (rival, rooms[index].cookie_chosen.as_ref()) {
            (None, _) => name,
            (Some(rival), Some(at)) => {
                report.add(
                    at,
                    format!(
                        "two rooms on one host must not share a cookie: {} also uses {name}",
                        rooms[rival].at.key()
                    ),
                );
                name
            }
            (Some(_), None) => {
                let own = format!("{COOKIE_NAME_DEFAULT}_{}", config.name);
                if let Some(rival) = self::rival(&settled, rooms, index, &own) {
                    report.add(
                        &rooms[index].at,
                        format!(
                            "needs a cookie_suffix of its own: {} already uses {own}",
                            rooms[rival].at.key()
                        ),
                    );
                }
                if let Some(config) = rooms[index].config.as_mut() {
                    config.cookie.rename(own.clone());
                }
                own
            }
        };
        settled.entry(name).or_default().push(index);
    }
}

/// A room that uses the cookie name already and shares a host with this one.
fn rival(
    settled: &HashMap<String, Vec<usize>>,
    rooms: &[RoomRead],
    index: usize,
    name: &str,
) -> Option<usize> {
    let config = rooms[index].config.as_ref()?;
    settled.get(name)?.iter().copied().find(|other| {
        rooms[*other]
            .config
            .as_ref()
            .is_some_and(|other| share_a_host(config, other))
    })
}

fn share_a_host(one: &RoomConfig, other: &RoomConfig) -> bool {
    one.routes.iter().any(|route| {
        other
            .routes
            .iter()
            .any(|others| Host::overlaps(&route.host, &others.host))
    })
}
