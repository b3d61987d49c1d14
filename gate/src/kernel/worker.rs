//! The kernel part's own thread: writes admitted sources into the map and takes them out on time, reads events, watches interfaces
//! and local addresses, answers `gate kernel`.
//!
//! Nothing on the path of a request waits for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{io, thread};

use aya::maps::{MapData, RingBuf};
use gate_common::reason::{Action, Reason};
use gate_common::tables::{EVENT_WORDS, PrefixClass};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Shared;
use super::admitted::{Change, Expiries};
use super::attach::{AttachMode, Attachment};
use super::control::{self, Question};
use super::error::KernelError;
use super::guard::{guarded, listener_key};
use super::object::{Entered, LISTENERS_MAX, Loaded, Maps, Refused};
use super::parameters::ip_of;
use super::rtnl;
use super::settings::{InterfaceName, KernelSettings};
use super::status::{
    AdmittedStatus, InterfaceState, InterfaceStatus, MapStatus, ReasonStatus, SCAN_ENTRIES_MAX,
    TOP_SOURCES_MAX, TopSource,
};
use crate::clock::MonotonicNs;

/// How often interfaces and local addresses are looked at.
const WATCH_NS: u64 = 1_000_000_000;
/// Least time between two rounds, so that busy visitors are entered in batches.
const ROUND_MILLIS_MIN: u64 = 10;
/// Sources taken out in one round; the rest follows in the next. They count for nothing from their expiry on either way.
const EXPELLED_PER_ROUND_MAX: usize = 4096;
/// Messages handled in one round.
const MESSAGES_PER_ROUND_MAX: usize = 8192;
/// Faults kept for the status; the oldest go first.
const FAULTS_MAX: usize = 16;

/// What the request path tells.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Admitted {
        source: [u8; 16],
        expires_ns: u64,
    },
    /// The operator's prefixes have changed: those now denied have to go.
    Purge,
}

/// What is in the kernel, shared by the thread and whoever asks for the status.
#[derive(Debug)]
pub(super) struct InKernel {
    pub(super) maps: Mutex<Maps>,
    pub(super) prefixes: Mutex<BTreeMap<([u8; 16], u8), PrefixClass>>,
    pub(super) attached: Mutex<Attached>,
    pub(super) admitted_entries: AtomicU64,
}

/// The interfaces, and what holds the program on them.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) loaded: Loaded,
    pub(super) interfaces: Vec<(InterfaceName, Guarding)>,
}

#[derive(Debug)]
pub(super) enum Guarding {
    Attached(Attachment),
    Not(InterfaceState),
}

impl InKernel {
    /// Detaches from every interface; the program and its maps stay until the last owner goes.
    pub(super) fn detach(&self) {
        for (_, guarding) in &mut self.attached.lock().interfaces {
            if matches!(guarding, Guarding::Attached(_)) {
                *guarding = Guarding::Not(InterfaceState::Detached);
            }
        }
    }

    /// Brings the map of prefixes to what the settings say.
    pub(super) fn set_prefixes(&self, settings: &KernelSettings) -> Result<(), KernelError> {
        let mut wanted = BTreeMap::new();
        for prefix in &settings.deny {
            wanted.insert(prefix.as_mapped(), PrefixClass::Denied);
        }
        for prefix in &settings.trusted_proxies {
            wanted.insert(prefix.as_mapped(), PrefixClass::TrustedProxy);
        }
        let mut present = self.prefixes.lock();
        let mut maps = self.maps.lock();
        for (prefix, class) in &wanted {
            if present.get(prefix) != Some(class) {
                maps.set_prefix(*prefix, *class)?;
            }
        }
        for prefix in present
            .keys()
            .filter(|prefix| !wanted.contains_key(*prefix))
        {
            maps.remove_prefix(*prefix)?;
        }
        *present = wanted;
        Ok(())
    }

    pub(super) fn interface_states(&self) -> Vec<InterfaceStatus> {
        let attached = self.attached.lock();
        attached
            .interfaces
            .iter()
            .map(|(name, guarding)| InterfaceStatus {
                name: name.to_string(),
                state: match guarding {
                    Guarding::Attached(attachment) => match attachment.mode {
                        AttachMode::Native => InterfaceState::Native,
                        AttachMode::Generic => InterfaceState::Generic,
                    },
                    Guarding::Not(state) => *state,
                },
            })
            .collect()
    }

    pub(super) fn reasons(&self) -> Result<Vec<ReasonStatus>, KernelError> {
        let counters = self.maps.lock().counters()?;
        Ok(Reason::ALL
            .iter()
            .zip(counters)
            .filter(|(_, packets)| *packets > 0)
            .map(|(reason, packets)| ReasonStatus {
                reason: reason.as_str().to_owned(),
                packets,
                refused: reason.enforced() == Action::Drop,
            })
            .collect())
    }

    pub(super) fn maps_and_top(
        &self,
        settings: &KernelSettings,
    ) -> (Vec<MapStatus>, Vec<TopSource>) {
        let maps = self.maps.lock();
        let scan = maps.scan_sources(SCAN_ENTRIES_MAX);
        let status = |name: &str, entries: u32, entries_max: u32| MapStatus {
            name: name.to_owned(),
            entries,
            entries_max,
            at_least: false,
        };
        let listeners_max = u32::try_from(LISTENERS_MAX).unwrap_or(u32::MAX);
        let prefixes_max = u32::try_from(super::settings::PREFIXES_MAX).unwrap_or(u32::MAX);
        let admitted = self.admitted_entries.load(Ordering::Relaxed);
        let mut fill = vec![
            status("LISTENERS", maps.listeners(), listeners_max),
            status("PREFIXES", maps.prefixes(), prefixes_max),
            status(
                "ADMITTED",
                u32::try_from(admitted).unwrap_or(u32::MAX),
                settings.map_sizes.admitted_entries_max(),
            ),
        ];
        fill.push(MapStatus {
            at_least: scan.cut_short,
            ..status(
                "SOURCES",
                scan.entries,
                settings.map_sizes.source_entries_max(),
            )
        });
        (fill, top(scan.refused))
    }
}

fn top(mut refused: Vec<Refused>) -> Vec<TopSource> {
    refused.sort_by(|a, b| {
        b.connections
            .cmp(&a.connections)
            .then(a.source.cmp(&b.source))
    });
    refused.truncate(TOP_SOURCES_MAX);
    refused
        .into_iter()
        .map(|refused| TopSource {
            source: ip_of(refused.source),
            connections_refused: refused.connections,
            over_rate_now: refused.over_now,
        })
        .collect()
}

/// Counts and faults, written by the thread and the request path.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) full: AtomicU64,
    pub(super) denied: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) expired: AtomicU64,
    pub(super) events: AtomicU64,
    faults: Mutex<VecDeque<String>>,
}

impl Counts {
    pub(super) fn admitted(&self) -> AdmittedStatus {
        AdmittedStatus {
            full: self.full.load(Ordering::Relaxed),
            denied: self.denied.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            expired: self.expired.load(Ordering::Relaxed),
        }
    }

    pub(super) fn faults(&self) -> Vec<String> {
        self.faults.lock().iter().cloned().collect()
    }

    /// Notes a fault for the status; one that is there already is not noted twice.
    pub(super) fn fault(&self, text: String) {
        let mut faults = self.faults.lock();
        if faults.contains(&text) {
            return;
        }
        if faults.len() == FAULTS_MAX {
            faults.pop_front();
        }
        faults.push_back(text);
    }
}

/// How the request path wakes the thread: once, until it has woken.
#[derive(Debug)]
pub(super) struct Bell {
    rung: AtomicBool,
    descriptor: OwnedFd,
}

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        Ok(Self {
            rung: AtomicBool::new(false),
            descriptor: rustix::event::eventfd(0, flags)?,
        })
    }

    pub(super) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // It only fails where 2^64 rings wait.
            let _rung = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes()).is_ok();
        }
    }

    fn quiet(&self) {
        let mut count = [0; 8];
        let _rings = rustix::io::read(&self.descriptor, &mut count).is_ok();
        self.rung.store(false, Ordering::Release);
    }
}

/// What the thread works on.
pub(super) struct Worker {
    pub(super) shared: Weak<Shared>,
    pub(super) in_kernel: Option<Arc<InKernel>>,
    pub(super) events: Option<RingBuf<MapData>>,
    pub(super) control: Option<UnixListener>,
    pub(super) messages: Receiver<Message>,
    pub(super) bell: Arc<Bell>,
    pub(super) counts: Arc<Counts>,
    pub(super) expiries: Expiries,
    pub(super) listeners: Vec<SocketAddr>,
    pub(super) guarded: BTreeSet<(IpAddr, u16)>,
    pub(super) follows_host: bool,
    pub(super) watch_next_ns: u64,
}

impl Worker {
    /// Works until every handle is gone or one of them says stop.
    pub(super) fn run(mut self) {
        loop {
            self.wait();
            self.bell.quiet();
            if !self.take_messages() {
                break;
            }
            self.expel_due();
            self.read_events();
            self.watch();
            self.answer();
            thread::sleep(Duration::from_millis(ROUND_MILLIS_MIN));
        }
        // Last of all, as a stopping gate wants it.
        if let Some(in_kernel) = &self.in_kernel {
            in_kernel.detach();
        }
    }

    /// Until the bell rings, an event or a question comes, or something is due.
    fn wait(&self) {
        let now_ns = MonotonicNs::now().as_u64();
        let next_ns = self
            .expiries
            .next_ns()
            .unwrap_or(u64::MAX)
            .min(self.watch_next_ns);
        let wait_ns = next_ns.saturating_sub(now_ns).min(WATCH_NS);
        let timeout = Timespec {
            tv_sec: i64::try_from(wait_ns / 1_000_000_000).unwrap_or(1),
            tv_nsec: i64::try_from(wait_ns % 1_000_000_000).unwrap_or(0),
        };
        let mut descriptors = vec![PollFd::new(&self.bell.descriptor, PollFlags::IN)];
        descriptors.extend(
            self.control
                .as_ref()
                .map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)),
        );
        descriptors.extend(
            self.events
                .as_ref()
                .map(|ring| PollFd::from_borrowed_fd(ring.as_fd(), PollFlags::IN)),
        );
        // Interrupted or not: the round looks at everything anyway.
        let _ready = poll(&mut descriptors, Some(&timeout)).is_ok();
    }

    /// `false` where nobody can send any more.
    fn take_messages(&mut self) -> bool {
        for _ in 0..MESSAGES_PER_ROUND_MAX {
            match self.messages.try_recv() {
                Ok(Message::Admitted { source, expires_ns }) => self.admit(source, expires_ns),
                Ok(Message::Purge) => self.purge(),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        // More wait: come back at once.
        self.bell.ring();
        true
    }

    fn admit(&mut self, source: [u8; 16], expires_ns: u64) {
        let Some(in_kernel) = &self.in_kernel else {
            return;
        };
        let mut maps = in_kernel.maps.lock();
        if !in_kernel.prefixes.lock().is_empty()
            && maps.standing(&source) == Some(PrefixClass::Denied)
        {
            self.counts.denied.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let entered = match self.expiries.admit(source, expires_ns) {
            Change::Enter => maps.admit(&source, expires_ns),
            Change::Extend => maps.extend(&source, expires_ns),
            Change::Nothing => Entered::Yes,
            Change::Full => {
                self.counts.full.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        if entered == Entered::No {
            self.expiries.forget(&source);
            self.counts.full.fetch_add(1, Ordering::Relaxed);
        }
        in_kernel
            .admitted_entries
            .store(self.expiries.len() as u64, Ordering::Relaxed);
    }

    /// Takes out the sources the operator denies by now.
    fn purge(&mut self) {
        let Some(in_kernel) = &self.in_kernel else {
            return;
        };
        let mut maps = in_kernel.maps.lock();
        for source in self.expiries.sources() {
            if maps.standing(&source) == Some(PrefixClass::Denied) {
                maps.expel(&source);
                self.expiries.forget(&source);
                self.counts.denied.fetch_add(1, Ordering::Relaxed);
            }
        }
        in_kernel
            .admitted_entries
            .store(self.expiries.len() as u64, Ordering::Relaxed);
    }

    fn expel_due(&mut self) {
        let Some(in_kernel) = &self.in_kernel else {
            return;
        };
        let now_ns = MonotonicNs::now().as_u64();
        let due = self.expiries.take_due(now_ns, EXPELLED_PER_ROUND_MAX);
        if due.is_empty() {
            return;
        }
        let mut maps = in_kernel.maps.lock();
        for source in &due {
            maps.expel(source);
        }
        self.counts
            .expired
            .fetch_add(due.len() as u64, Ordering::Relaxed);
        in_kernel
            .admitted_entries
            .store(self.expiries.len() as u64, Ordering::Relaxed);
    }

    fn read_events(&mut self) {
        let Some(events) = &mut self.events else {
            return;
        };
        while let Some(event) = events.next() {
            self.counts.events.fetch_add(1, Ordering::Relaxed);
            let Some(source) = source_of(&event) else {
                continue;
            };
            log::info!("source {source} has gone over its rate of new connections");
        }
    }

    fn watch(&mut self) {
        let now_ns = MonotonicNs::now().as_u64();
        if now_ns < self.watch_next_ns {
            return;
        }
        self.watch_next_ns = now_ns.saturating_add(WATCH_NS);
        let Some(in_kernel) = self.in_kernel.clone() else {
            return;
        };
        self.watch_interfaces(&in_kernel);
        if self.follows_host {
            self.follow_host(&in_kernel);
        }
    }

    fn watch_interfaces(&self, in_kernel: &InKernel) {
        let Ok(found) = rtnl::interfaces() else {
            return;
        };
        let mut attached = in_kernel.attached.lock();
        let program_id = attached.loaded.program_id;
        for (name, guarding) in &mut attached.interfaces {
            let Guarding::Attached(attachment) = &*guarding else {
                continue;
            };
            let now = found
                .iter()
                .find(|interface| interface.index == attachment.index);
            let (state, text) = match now {
                None => (InterfaceState::Gone, "is gone; it is not guarded any more"),
                Some(interface) if interface.programs.iter().any(|p| p.id == program_id) => {
                    continue;
                }
                Some(_) => (
                    InterfaceState::Detached,
                    "has lost the program; it is not guarded any more",
                ),
            };
            let text = format!("interface {name} {text}");
            log::warn!("{text}");
            self.counts.fault(text);
            *guarding = Guarding::Not(state);
        }
    }

    /// Guards the addresses the host has now.
    fn follow_host(&mut self, in_kernel: &InKernel) {
        let Ok(local) = rtnl::local_addresses() else {
            return;
        };
        let wanted = guarded(&self.listeners, &local);
        if wanted == self.guarded {
            return;
        }
        let mut maps = in_kernel.maps.lock();
        for gone in self.guarded.difference(&wanted) {
            if let Err(error) = maps.unguard(listener_key(*gone)) {
                self.counts.fault(error.to_string());
            }
        }
        for new in wanted.difference(&self.guarded) {
            if let Err(error) = maps.guard(listener_key(*new)) {
                self.counts.fault(error.to_string());
            }
        }
        self.guarded = wanted;
    }

    fn answer(&self) {
        let Some(control) = &self.control else {
            return;
        };
        let answered = control::serve_one(control, |question| {
            let Some(shared) = self.shared.upgrade() else {
                return String::new();
            };
            match question {
                Question::Status => {}
                Question::Detach => {
                    if let Some(in_kernel) = &self.in_kernel {
                        in_kernel.detach();
                    }
                    log::warn!("detached from every interface, as asked by `gate kernel detach`");
                }
            }
            serde_json::to_string(&shared.status()).unwrap_or_default()
        });
        match answered {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                log::debug!("`gate kernel` was not answered: {error}");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// The source an event speaks of.
fn source_of(event: &[u8]) -> Option<IpAddr> {
    (event.len() >= 8 * EVENT_WORDS).then_some(())?;
    event.first_chunk::<16>().copied().map(ip_of)
}
