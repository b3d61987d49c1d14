//! The kernel part: loads the XDP program, owns its maps, and limits sources in user space by the same rule.
//!
//! It never decides an admission. Off, refused, absent or wiped, HTTP behaves the same, except that nothing is dropped.

mod admitted;
mod attach;
mod capabilities;
mod control;
mod error;
mod guard;
mod object;
mod parameters;
mod rtnl;
pub mod settings;
mod source_rate;
mod status;
mod worker;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::{fs, thread};

use aya::maps::{MapData, RingBuf};
use parking_lot::{Mutex, RwLock};

pub use control::{ControlError, Detached, GateStatus, detach, status};
pub use error::{KernelError, Severity};
pub use object::{OBJECT, PROGRAM};
pub use settings::KernelSettings;
pub use source_rate::{SourceCharge, SourceRate, SourceRateCounts};
pub use status::{
    AdmittedStatus, InterfaceState, InterfaceStatus, KernelStatus, MapStatus, ReasonStatus,
    TopSource,
};

use self::admitted::{Expiries, Told};
use self::guard::{follows_host, guarded, listener_key};
use self::object::LISTENERS_MAX;
use self::parameters::{key_bytes, parameters, source_key};
use self::settings::KernelMode;
use self::worker::{Attached, Bell, Counts, Guarding, InKernel, Message, Worker};
use crate::clock::MonotonicNs;

/// Messages about admitted sources that may wait for the kernel part's thread. Beyond it they are lost and counted: such a source
/// is a stranger to the kernel until its next request tells it again.
const MESSAGES_MAX: usize = 65_536;

/// The kernel part of this gate. Cheap to copy; every copy is the same one.
#[derive(Clone, Debug)]
pub struct Kernel {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    settings: RwLock<KernelSettings>,
    source_rate: SourceRate,
    counts: Arc<Counts>,
    seed: [u64; 2],
    processors: u64,
    in_kernel: Option<Arc<InKernel>>,
    told: Option<Told>,
    bell: Option<Arc<Bell>>,
    line: Mutex<Line>,
    /// The same sender as in [`Line`], for the request path.
    sender: Option<RwLock<Option<SyncSender<Message>>>>,
}

/// The thread.
#[derive(Debug, Default)]
struct Line {
    thread: Option<JoinHandle<()>>,
}

/// A change of settings that only a restart brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeedsRestart {
    Interfaces,
    MapSizes,
    Generic,
    /// From or to `off`: nothing is loaded, or everything would have to go.
    Mode,
}

impl NeedsRestart {
    /// The key in the `[kernel]` section.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interfaces => "interfaces",
            Self::MapSizes => "map sizes",
            Self::Generic => "generic",
            Self::Mode => "mode from or to off",
        }
    }
}

/// What is loaded before the thread starts.
struct Pieces {
    in_kernel: Arc<InKernel>,
    events: RingBuf<MapData>,
}

impl Kernel {
    /// The kernel part switched off: charges nothing, drops nothing, costs nothing.
    pub fn off() -> Self {
        let settings = KernelSettings {
            mode: KernelMode::Off,
            ..KernelSettings::default()
        };
        Self::without_thread(settings, Arc::default(), None)
    }

    /// Loads and attaches as the settings say, and guards the listeners.
    ///
    /// The handle works whatever happens; what went wrong is in the list. Settings without interfaces load nothing and limit
    /// requests only. Gives up the capabilities that were needed, so call it before other threads exist and after everything else
    /// that needs `CAP_BPF`, `CAP_NET_ADMIN`, `CAP_PERFMON` or `CAP_SYS_ADMIN`.
    pub fn start(settings: &KernelSettings, listeners: &[SocketAddr]) -> (Self, Vec<KernelError>) {
        let mut faults = Vec::new();
        if settings.mode == KernelMode::Off {
            return (
                Self::without_thread(settings.clone(), Arc::default(), None),
                faults,
            );
        }
        let seed = fresh_seed();
        let processors = processors();
        let pieces = if settings.interfaces.is_empty() {
            None
        } else {
            match load(settings, seed, processors, &mut faults) {
                Ok(pieces) => Some(pieces),
                Err(fault) => {
                    faults.push(fault);
                    None
                }
            }
        };
        let kernel = Self::with_thread(settings, listeners, seed, pieces, &mut faults);
        for fault in &faults {
            kernel.shared.counts.fault(with_sources(fault));
        }
        (kernel, faults)
    }

    fn without_thread(
        settings: KernelSettings,
        counts: Arc<Counts>,
        in_kernel: Option<Arc<InKernel>>,
    ) -> Self {
        let seed = fresh_seed();
        Self {
            shared: Arc::new(Shared {
                source_rate: SourceRate::new(&settings, seed),
                settings: RwLock::new(settings),
                counts,
                seed,
                processors: 1,
                in_kernel,
                told: None,
                bell: None,
                line: Mutex::default(),
                sender: None,
            }),
        }
    }

    fn with_thread(
        settings: &KernelSettings,
        listeners: &[SocketAddr],
        seed: [u64; 2],
        pieces: Option<Pieces>,
        faults: &mut Vec<KernelError>,
    ) -> Self {
        let counts = Arc::new(Counts::default());
        let bell = match Bell::new() {
            Ok(bell) => Arc::new(bell),
            Err(source) => {
                faults.push(KernelError::Thread { source });
                return Self::without_thread(settings.clone(), counts, None);
            }
        };
        let control = control::listen()
            .map_err(|source| faults.push(KernelError::Control { source }))
            .ok();
        let (in_kernel, events) = match pieces {
            Some(pieces) => (Some(pieces.in_kernel), Some(pieces.events)),
            None => (None, None),
        };
        let guarded = match &in_kernel {
            Some(in_kernel) => guard(in_kernel, listeners, faults),
            None => std::collections::BTreeSet::new(),
        };
        if let Some(in_kernel) = &in_kernel {
            let parameters = parameters(settings, processors(), seed);
            give_up_capabilities(in_kernel, &parameters, faults);
        }
        let (sender, messages) = sync_channel(MESSAGES_MAX);
        let shared = Arc::new(Shared {
            source_rate: SourceRate::new(settings, seed),
            settings: RwLock::new(settings.clone()),
            counts: Arc::clone(&counts),
            seed,
            processors: processors(),
            told: in_kernel.is_some().then(|| Told::new(seed)),
            in_kernel: in_kernel.clone(),
            bell: Some(Arc::clone(&bell)),
            line: Mutex::default(),
            sender: Some(RwLock::new(Some(sender))),
        });
        let worker = Worker {
            shared: Arc::downgrade(&shared),
            in_kernel,
            events,
            control,
            messages,
            bell,
            counts,
            expiries: Expiries::new(settings.map_sizes.admitted_entries_max() as usize),
            listeners: listeners.to_vec(),
            guarded,
            follows_host: follows_host(listeners),
            watch_next_ns: 0,
        };
        let started = thread::Builder::new()
            .name("gate-kernel".to_owned())
            .spawn(|| worker.run());
        match started {
            Ok(thread) => shared.line.lock().thread = Some(thread),
            Err(source) => faults.push(KernelError::Thread { source }),
        }
        Self { shared }
    }

    /// Tells the kernel that the visitor at this address holds a session for so long from now on. Call it for every admitted
    /// request: it costs a few nanoseconds where there is no news, and never waits.
    ///
    /// The entry ends with the latest session of its source, to the second, and not before; a session revoked earlier leaves it.
    pub fn admitted(&self, now: MonotonicNs, ip: IpAddr, lifetime_seconds: u32) {
        let Some(told) = &self.shared.told else {
            return;
        };
        let source = source_key(ip);
        let expires_ns = now.plus_seconds(u64::from(lifetime_seconds)).as_u64();
        let Some(news) = told.note(source, expires_ns) else {
            return;
        };
        let message = Message::Admitted {
            source: key_bytes(source),
            expires_ns,
        };
        if !self.shared.send(message) {
            told.take_back(news);
            self.shared
                .counts
                .lost
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// The rate of requests without a ticket; see [`SourceRate::charge`].
    pub fn source_rate(&self) -> &SourceRate {
        &self.shared.source_rate
    }

    /// Takes over rates, bursts, prefixes and a mode other than off, for the very next packet. Returns what only a restart brings
    /// about; the rest is taken over all the same.
    pub fn set_parameters(
        &self,
        settings: &KernelSettings,
    ) -> Result<Vec<NeedsRestart>, KernelError> {
        let mut restart = Vec::new();
        let mut current = self.shared.settings.write();
        let mut next = settings.clone();
        if (current.mode == KernelMode::Off) != (next.mode == KernelMode::Off) {
            restart.push(NeedsRestart::Mode);
            if current.mode == KernelMode::Off {
                next.mode = KernelMode::Off;
            }
        }
        if current.interfaces != next.interfaces {
            restart.push(NeedsRestart::Interfaces);
            next.interfaces.clone_from(&current.interfaces);
        }
        if current.map_sizes != next.map_sizes {
            restart.push(NeedsRestart::MapSizes);
            next.map_sizes = current.map_sizes;
        }
        if current.generic != next.generic {
            restart.push(NeedsRestart::Generic);
            next.generic = current.generic;
        }
        if let Some(in_kernel) = &self.shared.in_kernel {
            in_kernel.set_prefixes(&next)?;
            let parameters = parameters(&next, self.shared.processors, self.shared.seed);
            in_kernel.maps.lock().set_parameters(&parameters)?;
        }
        self.shared.source_rate.set(&next);
        *current = next;
        drop(current);
        // Sources that are denied no longer may come back: let them be told anew.
        if let Some(told) = &self.shared.told {
            told.clear();
        }
        let _purging = self.shared.send(Message::Purge);
        Ok(restart)
    }

    /// What is going on. Reads up to 65,536 entries from the kernel, which takes tens of milliseconds: not on the request path.
    pub fn status(&self) -> KernelStatus {
        self.shared.status()
    }

    /// Packets by reason: the cheap part of [`Kernel::status`]. Empty where nothing is loaded.
    pub fn reasons(&self) -> Vec<ReasonStatus> {
        match &self.shared.in_kernel {
            Some(in_kernel) => in_kernel.reasons().unwrap_or_default(),
            None => Vec::new(),
        }
    }

    /// Detaches and ends the thread. The last thing a stopping gate does: until then its sources stay limited, and at no time is
    /// anything dropped that would not be dropped now.
    pub fn stop(&self) {
        if let Some(sender) = &self.shared.sender {
            *sender.write() = None;
        }
        if let Some(bell) = &self.shared.bell {
            bell.ring();
        }
        let thread = self.shared.line.lock().thread.take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            log::error!("the kernel part's thread has failed");
        }
        if let Some(in_kernel) = &self.shared.in_kernel {
            in_kernel.detach();
        }
    }
}

impl Shared {
    /// `false` where the message is lost.
    fn send(&self, message: Message) -> bool {
        let Some(sender) = &self.sender else {
            return false;
        };
        let sent = match &*sender.read() {
            Some(sender) => sender.try_send(message).is_ok(),
            None => false,
        };
        if sent && let Some(bell) = &self.bell {
            bell.ring();
        }
        sent
    }

    fn status(&self) -> KernelStatus {
        let settings = self.settings.read().clone();
        let mut status = KernelStatus {
            mode: settings.mode.as_str().to_owned(),
            loaded: self.in_kernel.is_some(),
            requests: self.source_rate.counts(),
            admitted: self.counts.admitted(),
            events: self
                .counts
                .events
                .load(std::sync::atomic::Ordering::Relaxed),
            faults: self.counts.faults(),
            ..KernelStatus::default()
        };
        let Some(in_kernel) = &self.in_kernel else {
            status.interfaces = settings
                .interfaces
                .iter()
                .map(|name| InterfaceStatus {
                    name: name.to_string(),
                    state: InterfaceState::NotAttached,
                })
                .collect();
            return status;
        };
        status.interfaces = in_kernel.interface_states();
        match in_kernel.reasons() {
            Ok(reasons) => status.reasons = reasons,
            Err(error) => status.faults.push(error.to_string()),
        }
        status.over_packets = status
            .reasons
            .iter()
            .filter(|reason| reason.refused)
            .map(|reason| reason.packets)
            .sum();
        (status.maps, status.top_sources) = in_kernel.maps_and_top(&settings);
        status
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The thread ends when its sender is gone; the bell makes that now rather than in a second.
        self.sender = None;
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

/// Loads, configures, and attaches wherever it works.
fn load(
    settings: &KernelSettings,
    seed: [u64; 2],
    processors: u64,
    faults: &mut Vec<KernelError>,
) -> Result<Pieces, KernelError> {
    let (loaded, mut maps, events) = object::load(settings.map_sizes)?;
    maps.set_parameters(&parameters(settings, processors, seed))?;
    let in_kernel = InKernel {
        maps: Mutex::new(maps),
        prefixes: Mutex::new(BTreeMap::new()),
        attached: Mutex::new(Attached {
            loaded,
            interfaces: Vec::new(),
        }),
        admitted_entries: AtomicU64::new(0),
    };
    in_kernel.set_prefixes(settings)?;
    {
        let mut attached = in_kernel.attached.lock();
        for name in &settings.interfaces {
            let result = attach::attach(attached.loaded.program()?, name, settings.generic);
            let guarding = match result {
                Ok(attachment) => Guarding::Attached(attachment),
                Err(fault) => {
                    faults.push(fault);
                    Guarding::Not(InterfaceState::NotAttached)
                }
            };
            attached.interfaces.push((name.clone(), guarding));
        }
    }
    Ok(Pieces {
        in_kernel: Arc::new(in_kernel),
        events,
    })
}

/// Enters the guarded addresses; returns those entered.
fn guard(
    in_kernel: &InKernel,
    listeners: &[SocketAddr],
    faults: &mut Vec<KernelError>,
) -> std::collections::BTreeSet<(IpAddr, u16)> {
    let local = if follows_host(listeners) {
        rtnl::local_addresses().unwrap_or_else(|source| {
            faults.push(KernelError::Interfaces { source });
            Vec::new()
        })
    } else {
        Vec::new()
    };
    let wanted = guarded(listeners, &local);
    if wanted.len() > LISTENERS_MAX {
        faults.push(KernelError::ListenersTooMany { max: LISTENERS_MAX });
    }
    let mut entered = std::collections::BTreeSet::new();
    let mut maps = in_kernel.maps.lock();
    for listener in wanted.into_iter().take(LISTENERS_MAX) {
        match maps.guard(listener_key(listener)) {
            Ok(()) => {
                entered.insert(listener);
            }
            Err(fault) => {
                faults.push(fault);
                break;
            }
        }
    }
    entered
}

/// Gives up what is not needed any more, if the maps can still be written afterwards.
fn give_up_capabilities(
    in_kernel: &InKernel,
    parameters: &gate_common::config::Parameters,
    faults: &mut Vec<KernelError>,
) {
    if !object::writable_without_capabilities(&mut in_kernel.maps.lock(), parameters) {
        let source = std::io::Error::new(
            std::io::ErrorKind::Unsupported,
            "this kernel lets nobody without CAP_BPF write maps (it needs to be 5.19 or later)",
        );
        faults.push(KernelError::GiveUp { source });
        return;
    }
    if let Err(source) = capabilities::give_up() {
        faults.push(KernelError::GiveUp { source });
    }
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        faults.push(KernelError::CapabilitiesKept {
            threads: threads - 1,
        });
    }
}

/// A secret of this process. Where the system has no randomness, the address space's layout has to do.
fn fresh_seed() -> [u64; 2] {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        let place = std::ptr::from_ref(&bytes).addr() as u64;
        return [place, place.rotate_left(32)];
    }
    let (words, _) = bytes.as_chunks::<8>();
    [u64::from_ne_bytes(words[0]), u64::from_ne_bytes(words[1])]
}

/// Processors that may run the program at once.
fn processors() -> u64 {
    aya::util::nr_cpus().map_or(1, |count| count as u64)
}

/// An error with everything behind it, on one line.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
