//! The kernel object and its maps, loaded. Knows byte layouts and sizes, no policy.

use std::error::Error;
use std::{fmt, io};

use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{Array, HashMap, MapData, MapError, PerCpuArray, RingBuf};
use aya::programs::Xdp;
use aya::{Ebpf, EbpfLoader};
use gate_common::config::{CONFIG_WORDS, Parameters};
use gate_common::reason::{REASONS, Reason};
use gate_common::source::ListenerKey;
use gate_common::tables::{ADMITTED_WORDS, Admitted, PrefixClass, TRACKED_WORDS};

use super::capabilities;
use super::error::KernelError;
use super::settings::MapSizes;

/// The kernel object this gate was built with.
#[cfg(kernel_object)]
pub const OBJECT: Option<&[u8]> = Some(aya::include_bytes_aligned!(concat!(
    env!("OUT_DIR"),
    "/gate-ebpf"
)));
/// The kernel object this gate was built with: none.
#[cfg(not(kernel_object))]
pub const OBJECT: Option<&[u8]> = None;

/// The program that guards. Its name is what `bpftool` and `ip link` show.
pub const PROGRAM: &str = "gate_xdp";
/// Guarded addresses and ports.
pub(super) const LISTENERS_MAX: usize = 1024;
/// Insert only what is not there.
const BPF_NOEXIST: u64 = 1;
/// Write only what is there.
const BPF_EXIST: u64 = 2;

/// The loaded program, not attached to anything. Everything goes away with this value.
#[derive(Debug)]
pub(super) struct Loaded {
    ebpf: Ebpf,
    pub(super) program_id: u32,
}

impl Loaded {
    /// The program, for attaching.
    pub(super) fn program(&mut self) -> Result<&mut Xdp, KernelError> {
        program_of(&mut self.ebpf)
    }
}

fn program_of(ebpf: &mut Ebpf) -> Result<&mut Xdp, KernelError> {
    ebpf.program_mut(PROGRAM)
        .and_then(|program| program.try_into().ok())
        .ok_or(KernelError::ObjectMismatch {
            map: PROGRAM,
            source: None,
        })
}

/// The maps. All methods are system calls on descriptors that need no capability once open.
pub(super) struct Maps {
    config: Array<MapData, [u64; CONFIG_WORDS]>,
    listeners: HashMap<MapData, [u64; 3], u32>,
    admitted: HashMap<MapData, [u8; 16], [u64; ADMITTED_WORDS]>,
    prefixes: LpmTrie<MapData, [u8; 16], u32>,
    sources: HashMap<MapData, [u8; 16], [u64; TRACKED_WORDS]>,
    stats: PerCpuArray<MapData, u64>,
}

impl fmt::Debug for Maps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maps").finish_non_exhaustive()
    }
}

/// Loads the object into the kernel: maps of the configured sizes, the program verified, nothing attached.
pub(super) fn load(sizes: MapSizes) -> Result<(Loaded, Maps, RingBuf<MapData>), KernelError> {
    let object = OBJECT.ok_or(KernelError::NoObject)?;
    let mut ebpf = EbpfLoader::new()
        .btf(None)
        .map_max_entries("ADMITTED", sizes.admitted_entries_max())
        .map_max_entries("SOURCES", sizes.source_entries_max())
        .load(object)
        .map_err(refused)?;
    let program = program_of(&mut ebpf)?;
    program.load().map_err(refused)?;
    let program_id = program.info().map_err(refused)?.id();
    let maps = Maps {
        config: map(&mut ebpf, "CONFIG")?,
        listeners: map(&mut ebpf, "LISTENERS")?,
        admitted: map(&mut ebpf, "ADMITTED")?,
        prefixes: map(&mut ebpf, "PREFIXES")?,
        sources: map(&mut ebpf, "SOURCES")?,
        stats: map(&mut ebpf, "STATS")?,
    };
    let counters = usize::try_from(maps.stats.len()).unwrap_or(0);
    if counters != REASONS {
        return Err(KernelError::ObjectMismatch {
            map: "STATS",
            source: None,
        });
    }
    let events = map(&mut ebpf, "EVENTS")?;
    Ok((Loaded { ebpf, program_id }, maps, events))
}

fn map<M: TryFrom<aya::maps::Map, Error = MapError>>(
    ebpf: &mut Ebpf,
    name: &'static str,
) -> Result<M, KernelError> {
    let map = ebpf.take_map(name).ok_or(KernelError::ObjectMismatch {
        map: name,
        source: None,
    })?;
    M::try_from(map).map_err(|source| KernelError::ObjectMismatch {
        map: name,
        source: Some(source.into()),
    })
}

/// Why the kernel did not take it: privileges, or anything else.
fn refused(error: impl Error + Send + Sync + 'static) -> KernelError {
    match os_error(&error) {
        Some(code) if code == libc::EPERM || code == libc::EACCES && !is_verifier(&error) => {
            let missing = capabilities::missing();
            let source = io::Error::from_raw_os_error(code);
            if missing.is_empty() {
                KernelError::NotPermitted { source }
            } else {
                KernelError::MissingCapabilities { missing, source }
            }
        }
        _ => KernelError::Load {
            source: error.into(),
        },
    }
}

/// The verifier says `EACCES` as well when it does not like the program, but then it says why.
fn is_verifier(error: &(dyn Error + 'static)) -> bool {
    error.to_string().contains("Verifier output")
}

/// The system's error number somewhere in the chain.
pub(super) fn os_error(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut current = Some(error);
    while let Some(error) = current {
        if let Some(code) = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return Some(code);
        }
        current = error.source();
    }
    None
}

fn failed(map: &'static str) -> impl FnOnce(MapError) -> KernelError {
    move |source| KernelError::Map {
        map,
        source: source.into(),
    }
}

/// Whether a source could be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    Yes,
    /// The map is full or the kernel has no memory: the source stays a stranger to the kernel.
    No,
}

/// A tracked source over its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) source: [u8; 16],
    pub(super) connections: u64,
    pub(super) over_now: bool,
}

/// What was found in the table of strangers.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) entries: u32,
    /// There were more entries than were looked at.
    pub(super) cut_short: bool,
    pub(super) refused: Vec<Refused>,
}

impl Maps {
    /// Sets the parameters; the next packet is judged by them.
    pub(super) fn set_parameters(&mut self, parameters: &Parameters) -> Result<(), KernelError> {
        self.config
            .set(0, parameters.words(), 0)
            .map_err(failed("CONFIG"))
    }

    pub(super) fn guard(&mut self, listener: ListenerKey) -> Result<(), KernelError> {
        self.listeners
            .insert(listener.words(), 1, 0)
            .map_err(failed("LISTENERS"))
    }

    pub(super) fn unguard(&mut self, listener: ListenerKey) -> Result<(), KernelError> {
        self.listeners
            .remove(&listener.words())
            .map_err(failed("LISTENERS"))
    }

    pub(super) fn set_prefix(
        &mut self,
        (octets, length): ([u8; 16], u8),
        class: PrefixClass,
    ) -> Result<(), KernelError> {
        self.prefixes
            .insert(&Key::new(u32::from(length), octets), class as u32, 0)
            .map_err(failed("PREFIXES"))
    }

    pub(super) fn remove_prefix(
        &mut self,
        (octets, length): ([u8; 16], u8),
    ) -> Result<(), KernelError> {
        self.prefixes
            .remove(&Key::new(u32::from(length), octets))
            .map_err(failed("PREFIXES"))
    }

    /// What the prefixes say about a source.
    pub(super) fn standing(&self, source: &[u8; 16]) -> Option<PrefixClass> {
        let word = self.prefixes.get(&Key::new(128, *source), 0).ok()?;
        PrefixClass::from_word(word)
    }

    /// Enters a source with a session.
    pub(super) fn admit(&mut self, source: &[u8; 16], expires_ns: u64) -> Entered {
        match self
            .admitted
            .insert(source, Admitted::words(expires_ns), BPF_NOEXIST)
        {
            Ok(()) => Entered::Yes,
            Err(_) => Entered::No,
        }
    }

    /// Gives an entered source a later expiry. What it has used up of its rate stays, but for what happens in between.
    pub(super) fn extend(&mut self, source: &[u8; 16], expires_ns: u64) -> Entered {
        let Ok(mut words) = self.admitted.get(source, 0) else {
            return self.admit(source, expires_ns);
        };
        words[0] = expires_ns;
        match self.admitted.insert(source, words, BPF_EXIST) {
            Ok(()) => Entered::Yes,
            Err(_) => Entered::No,
        }
    }

    /// Removes a source; not being there is fine.
    pub(super) fn expel(&mut self, source: &[u8; 16]) {
        let _gone = self.admitted.remove(source).is_ok();
    }

    /// Packets by reason since the program was loaded, all processors together.
    pub(super) fn counters(&self) -> Result<[u64; REASONS], KernelError> {
        let mut sums = [0; REASONS];
        for (reason, sum) in Reason::ALL.iter().zip(&mut sums) {
            let values = self
                .stats
                .get(&(*reason as u32), 0)
                .map_err(failed("STATS"))?;
            *sum = values
                .iter()
                .fold(0_u64, |sum, value| sum.wrapping_add(*value));
        }
        Ok(sums)
    }

    pub(super) fn listeners(&self) -> u32 {
        let count = self.listeners.keys().take(LISTENERS_MAX).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    pub(super) fn prefixes(&self) -> u32 {
        let count = self.prefixes.keys().filter(Result::is_ok).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Looks at no more than `entries_max` tracked sources, two system calls each.
    pub(super) fn scan_sources(&self, entries_max: u32) -> Scan {
        let mut scan = Scan::default();
        for entry in self.sources.iter() {
            // An entry evicted meanwhile is no entry.
            let Ok((source, [_, connections, over])) = entry else {
                continue;
            };
            if scan.entries == entries_max {
                scan.cut_short = true;
                break;
            }
            scan.entries += 1;
            if connections > 0 {
                scan.refused.push(Refused {
                    source,
                    connections,
                    over_now: over != 0,
                });
            }
        }
        scan
    }
}

/// Whether an open map takes writes from a thread without capabilities: kernels before 5.19 refuse.
pub(super) fn writable_without_capabilities(maps: &mut Maps, parameters: &Parameters) -> bool {
    std::thread::scope(|scope| {
        scope
            .spawn(|| capabilities::give_up().is_ok() && maps.set_parameters(parameters).is_ok())
            .join()
            .unwrap_or(false)
    })
}
