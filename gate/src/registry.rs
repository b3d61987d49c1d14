//! The rooms of a running gate: which there are, how each answers, and the one lock around each.
//!
//! A registry is made from a configuration and never changes. A reload makes another one that shares the rooms of equal
//! names, so that nobody inside or in line notices. Locks are held for one decision or one snapshot and never across an
//! await.

use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::admin::RoomReport;
use crate::clock::Clock;
use crate::cluster::ledger::Predecessor;
use crate::cluster::settings::ClusterSettings;
use crate::cluster::{Cluster, ClusterError, RoomToShare, Visit};
use crate::config::{Config, ForwardCookie, PageSettings, RoomConfig};
use crate::page::PageAssets;
use crate::room::{Decision, Millis, Room, Snapshot, Ticket, VisitorId};
use crate::route::{RoomIndex, Table};
use crate::state::Loaded;
use crate::ticket::Scope;

/// Every room, in the order of the configuration.
#[derive(Debug)]
pub struct Registry {
    rooms: Vec<OpenRoom>,
    routes: Table,
    room_cookies: RoomCookies,
    page_assets: Option<PageAssets>,
}

/// Names of the rooms' cookies.
#[derive(Clone, Debug, Default)]
struct RoomCookies {
    /// Sorted.
    names: Vec<Box<[u8]>>,
}

/// The cookies that the origin of one request does not see: those of all rooms, whichever the request is for, but the one that
/// its own room shows.
#[derive(Clone, Copy, Debug)]
pub struct HiddenCookies<'a> {
    rooms: &'a RoomCookies,
    shown: Option<&'a [u8]>,
}

impl RoomCookies {
    fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut names: Vec<Box<[u8]>> = names.map(|name| name.as_bytes().into()).collect();
        names.sort_unstable();
        names.dedup();
        Self { names }
    }

    fn contains(&self, name: &[u8]) -> bool {
        self.names
            .binary_search_by(|known| (**known).cmp(name))
            .is_ok()
    }
}

impl HiddenCookies<'_> {
    pub fn contains(self, name: &[u8]) -> bool {
        self.shown != Some(name) && self.rooms.contains(name)
    }

    /// Those of these names.
    #[cfg(test)]
    pub(crate) fn of_names(names: &[&'static str]) -> HiddenCookies<'static> {
        HiddenCookies {
            rooms: Box::leak(Box::new(RoomCookies::of(names.iter().copied()))),
            shown: None,
        }
    }
}

/// A room's configuration cannot be run.
#[derive(Debug)]
pub struct RegistryError {
    room: String,
    problem: &'static str,
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "room {}: {}", self.room, self.problem)
    }
}

impl std::error::Error for RegistryError {}

/// One room that takes requests.
#[derive(Debug)]
pub struct OpenRoom {
    config: RoomConfig,
    scope: Scope,
    room: Arc<Mutex<Room>>,
    /// Set once where other gates share the room: who they are, and its number among the shared.
    shared: OnceLock<(Arc<Cluster>, usize)>,
}

/// Whether a request may take a place in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// It stands for a visitor who would wait.
    ForAPlace,
    /// It is a sub-resource or a guess of the browser: nobody waits for it.
    ForNow,
}

impl Registry {
    /// Opens the rooms of `config`, going on from `state` where it knows them.
    ///
    /// # Errors
    /// The names of a room and its cookie are too long together to seal a ticket for them.
    pub fn open(
        config: &Config,
        state: &Loaded,
        seed: u64,
        now: Millis,
    ) -> Result<Self, RegistryError> {
        Self::build(config, |index, room| {
            let seed = seed.wrapping_add(index as u64);
            Arc::new(Mutex::new(match state.rooms.get(&room.name) {
                Some(saved) => Room::restore(room.plan.clone(), seed, now, saved),
                None => Room::new(room.plan.clone(), seed, now),
            }))
        })
    }

    /// A registry for a new configuration. Rooms that this one has under the same name go on with their visitors; those
    /// that are in it no more are closed with the last request that holds it.
    ///
    /// # Errors
    /// As [`Self::open`]; nothing has changed then.
    pub fn reload(&self, config: &Config, seed: u64, now: Millis) -> Result<Self, RegistryError> {
        let next = Self::build(config, |index, room| {
            let known = self.rooms.iter().find(|open| open.config.name == room.name);
            match known {
                Some(open) => Arc::clone(&open.room),
                None => {
                    let seed = seed.wrapping_add(index as u64);
                    Arc::new(Mutex::new(Room::new(room.plan.clone(), seed, now)))
                }
            }
        })?;
        for (index, open) in next.rooms.iter().enumerate() {
            if let Some(before) = self
                .rooms
                .iter()
                .find(|o| o.config.name == open.config.name)
                && let Some(shared) = before.shared.get()
            {
                // It has just been made and is set nowhere else.
                _ = open.shared.set(shared.clone());
            } else if self.is_shared() {
                return Err(RegistryError {
                    room: next.rooms[index].config.name.clone(),
                    problem: "is new: to share it with other gates takes a restart",
                });
            }
        }
        for open in &next.rooms {
            let mut room = open.room.lock();
            if *room.plan() != open.config.plan {
                room.reconfigure(now, open.config.plan.clone());
            }
        }
        Ok(next)
    }

    /// Shares every room with other gates from now on. `state` is what the rooms went on from.
    ///
    /// # Errors
    /// A file named in the settings cannot be read, or no thread can be started.
    pub fn share(
        &self,
        settings: &ClusterSettings,
        state: &Loaded,
        clock: Clock,
    ) -> Result<Arc<Cluster>, ClusterError> {
        let rooms = self.rooms.iter().map(|open| RoomToShare {
            name: open.config.name.clone(),
            room: Arc::clone(&open.room),
            strategy: open.config.slot_strategy,
            predecessor: if state.rooms.contains_key(&open.config.name) {
                Predecessor::Remembered
            } else {
                Predecessor::Forgotten
            },
        });
        let cluster = Arc::new(Cluster::start(settings, rooms.collect(), clock)?);
        for (number, open) in self.rooms.iter().enumerate() {
            // Nobody else sets it.
            _ = open.shared.set((Arc::clone(&cluster), number));
        }
        Ok(cluster)
    }

    fn is_shared(&self) -> bool {
        self.rooms.iter().any(|open| open.shared.get().is_some())
    }

    /// The index of the room that covers a request target, if any.
    pub fn find(&self, target: &http::Uri, host_header: Option<&[u8]>) -> Option<usize> {
        if self.is_asset(target.path().as_bytes()) {
            return None;
        }
        let RoomIndex(index) = self.routes.find_target(target, host_header)?;
        Some(index)
    }

    /// The files of custom pages, which no room covers.
    pub fn page_assets(&self) -> Option<&PageAssets> {
        self.page_assets.as_ref()
    }

    fn is_asset(&self, path: &[u8]) -> bool {
        self.page_assets
            .as_ref()
            .is_some_and(|assets| assets.covers(path))
    }

    /// [`Self::find`] for a target in origin form without its query.
    pub fn find_path(&self, host_header: &[u8], path: &[u8]) -> Option<usize> {
        if self.is_asset(path) {
            return None;
        }
        let RoomIndex(index) = self.routes.find(Some(host_header), path)?;
        Some(index)
    }

    /// What the origin of a request does not see, which is for this room or for none.
    pub fn hidden_cookies<'a>(&'a self, room: Option<&'a OpenRoom>) -> HiddenCookies<'a> {
        let shows = |room: &&OpenRoom| room.config.forward_cookie == ForwardCookie::Forwarded;
        HiddenCookies {
            rooms: &self.room_cookies,
            shown: room
                .filter(shows)
                .map(|room| room.config.cookie.name().as_bytes()),
        }
    }

    pub fn rooms(&self) -> &[OpenRoom] {
        &self.rooms
    }

    /// Every room as it stands, by name.
    pub fn snapshots(&self, now: Millis) -> Vec<(String, Snapshot)> {
        self.rooms
            .iter()
            .map(|open| (open.config.name.clone(), open.room.lock().snapshot(now)))
            .collect()
    }

    /// What the operator is shown of every room.
    pub fn reports(&self, now: Millis) -> Vec<RoomReport> {
        self.rooms
            .iter()
            .map(|open| {
                let status = open.room.lock().status(now);
                let event = status
                    .event_index
                    .and_then(|index| open.config.events.get(index));
                RoomReport {
                    name: open.config.name.clone(),
                    event_id: event.map_or_else(String::new, |event| event.name.clone()),
                    status,
                    health: open
                        .shared
                        .get()
                        .and_then(|(cluster, number)| cluster.health(*number, now)),
                }
            })
            .collect()
    }

    fn build(
        config: &Config,
        mut room: impl FnMut(usize, &RoomConfig) -> Arc<Mutex<Room>>,
    ) -> Result<Self, RegistryError> {
        let mut rooms = Vec::with_capacity(config.rooms.len());
        for (index, room_config) in config.rooms.iter().enumerate() {
            let scope =
                Scope::new(&room_config.name, room_config.cookie.name()).ok_or_else(|| {
                    RegistryError {
                        room: room_config.name.clone(),
                        problem: "its name and cookie_name are longer than 500 bytes together",
                    }
                })?;
            rooms.push(OpenRoom {
                room: room(index, room_config),
                config: room_config.clone(),
                scope,
                shared: OnceLock::new(),
            });
        }
        Ok(Self {
            rooms,
            routes: config.routes(),
            room_cookies: RoomCookies::of(config.rooms.iter().map(|room| room.cookie.name())),
            page_assets: config.page_assets.clone(),
        })
    }
}

impl OpenRoom {
    pub fn config(&self) -> &RoomConfig {
        &self.config
    }

    /// What this room's tickets are sealed for.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// How visitors are answered while the event of this index, or none, is in effect.
    pub fn page(&self, event_index: Option<usize>) -> &PageSettings {
        event_index
            .and_then(|index| self.config.events.get(index))
            .map_or(&self.config.page, |event| &event.page)
    }

    /// Decides a request. Waits for the network only where other gates share the room and the visitor is new.
    pub async fn decide(&self, clock: &Clock, ticket: Option<Ticket>, asks: Asks) -> Decision {
        if let Some((cluster, number)) = self.shared.get() {
            let visit = match asks {
                Asks::ForAPlace => Visit::CheckIn,
                Asks::ForNow => Visit::Observe,
            };
            if let Some(decision) = cluster.decide(*number, clock, ticket, visit).await {
                return decision;
            }
        }
        let now = clock.now();
        let mut room = self.room.lock();
        match asks {
            Asks::ForAPlace => room.check_in(now, ticket),
            Asks::ForNow => room.observe(now, ticket),
        }
    }

    /// Decides a page load of a visitor with a ticket. `None` where other gates share the room, who may have to be asked.
    pub fn decide_alone(&self, now: Millis, ticket: Ticket) -> Option<Decision> {
        if self.shared.get().is_some() {
            return None;
        }
        Some(self.room.lock().check_in(now, Some(ticket)))
    }

    /// Whether the room holds nobody back now: it is suspended, or `passthrough` is in effect.
    pub fn lets_all_pass(&self, now: Millis) -> bool {
        self.room.lock().lets_all_pass(now)
    }

    /// The visitor gives its place or session back.
    pub fn leave(&self, now: Millis, ticket: Ticket) -> bool {
        self.room.lock().leave(now, ticket)
    }

    /// The origin ends the visitor's session.
    pub fn revoke(&self, now: Millis, visitor: VisitorId) -> bool {
        self.room.lock().revoke(now, visitor)
    }
}
