//! The tables in ordinary collections, so that the decision runs on the host. For tests.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::vec::Vec;

use crate::config::{Config, Parameters};
use crate::sketch::Local;
use crate::source::{Address, ListenerKey, SourceKey};
use crate::tables::{Admitted, Event, PrefixClass, Tables, Tracked};

/// Tables of one processor.
#[derive(Debug)]
pub struct Model {
    pub config: Option<Config>,
    pub now_ns: Cell<u64>,
    pub listeners: HashSet<ListenerKey>,
    pub admitted: HashMap<SourceKey, Admitted>,
    /// Prefixes as sixteen bytes and a length of 0 to 128.
    pub prefixes: Vec<([u8; 16], u8, PrefixClass)>,
    pub tracked: HashMap<SourceKey, Tracked>,
    pub tracked_max: usize,
    pub local: Local,
    pub events: Vec<Event>,
}

impl Model {
    /// Empty tables with these parameters at time `now_ns`.
    pub fn new(parameters: &Parameters, now_ns: u64) -> Self {
        Self {
            config: Some(Config::new(parameters)),
            now_ns: Cell::new(now_ns),
            listeners: HashSet::new(),
            admitted: HashMap::new(),
            prefixes: Vec::new(),
            tracked: HashMap::new(),
            tracked_max: usize::MAX,
            local: Local::new(),
            events: Vec::new(),
        }
    }
}

impl Tables for Model {
    fn config(&self) -> Option<&Config> {
        self.config.as_ref()
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn is_guarded(&self, listener: &ListenerKey) -> bool {
        self.listeners.contains(listener)
    }

    fn admitted(&self, source: &SourceKey) -> Option<&Admitted> {
        self.admitted.get(source)
    }

    fn prefix(&self, address: Address) -> Option<PrefixClass> {
        let bits = u128::from_be_bytes(address.octets());
        self.prefixes
            .iter()
            .filter(|(prefix, length, _)| {
                let difference = bits ^ u128::from_be_bytes(*prefix);
                *length == 0 || difference >> (128 - u32::from(*length)) == 0
            })
            .max_by_key(|(_, length, _)| *length)
            .map(|(_, _, class)| *class)
    }

    fn tracked(&self, source: &SourceKey) -> Option<&Tracked> {
        self.tracked.get(source)
    }

    fn with_local<R>(&mut self, run: impl FnOnce(&mut Local) -> R) -> Option<R> {
        Some(run(&mut self.local))
    }

    fn learn(&mut self, source: &SourceKey, tracked: Tracked) -> bool {
        if self.tracked.len() >= self.tracked_max {
            return false;
        }
        self.tracked.insert(*source, tracked);
        true
    }

    fn tell(&mut self, event: Event) {
        self.events.push(event);
    }
}
