//! The kernel's maps. Sizes given here are the largest defaults; user space sets the configured ones before it loads.

use aya_ebpf::bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST};
use aya_ebpf::btf_maps::lpm_trie::Key;
use aya_ebpf::btf_maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray, RingBuf};
use aya_ebpf::helpers::generated::bpf_ktime_get_coarse_ns;
use aya_ebpf::macros::btf_map;
use gate_common::config::Config;
use gate_common::reason::{REASONS, Reason};
use gate_common::sketch::Local;
use gate_common::source::{Address, ListenerKey, SourceKey};
use gate_common::tables::{Admitted, Event, PrefixClass, Tables, Tracked};

const EVENTS_BYTES: usize = 256 * 1024;
/// Elements of these maps are freed after a grace period rather than reused under a reader.
const NO_PREALLOC: usize = BPF_F_NO_PREALLOC as usize;

#[btf_map]
static CONFIG: Array<Config, 1> = Array::new();
#[btf_map]
static LISTENERS: HashMap<ListenerKey, u32, 1024> = HashMap::new();
#[btf_map]
static ADMITTED: HashMap<SourceKey, Admitted, 262_144, NO_PREALLOC> = HashMap::new();
#[btf_map]
static PREFIXES: LpmTrie<Address, u32, 4096> = LpmTrie::new();
#[btf_map]
static SOURCES: LruHashMap<SourceKey, Tracked, 65_536> = LruHashMap::new();
#[btf_map]
static LOCAL: PerCpuArray<Local, 1> = PerCpuArray::new();
#[btf_map]
static STATS: PerCpuArray<u64, REASONS> = PerCpuArray::new();
#[btf_map]
static EVENTS: RingBuf<Event, EVENTS_BYTES> = RingBuf::new();

/// Counts one packet of this processor.
#[inline(always)]
pub(crate) fn count(reason: Reason) {
    if let Some(counter) = STATS.get_ptr_mut(reason as u32) {
        // SAFETY: the pointer is to this processor's own slot, and XDP programs do not interrupt one another there.
        unsafe { *counter = (*counter).wrapping_add(1) };
    }
}

/// The maps as the decision uses them.
pub(crate) struct KernelTables;

impl Tables for KernelTables {
    #[inline(always)]
    fn config(&self) -> Option<&Config> {
        CONFIG.get(0)
    }

    #[inline(always)]
    fn now_ns(&self) -> u64 {
        // SAFETY: the helper takes no arguments and only reads the clock.
        unsafe { bpf_ktime_get_coarse_ns() }
    }

    #[inline(always)]
    fn is_guarded(&self, listener: &ListenerKey) -> bool {
        LISTENERS.get_ptr(listener).is_some()
    }

    #[inline(always)]
    fn admitted(&self, source: &SourceKey) -> Option<&Admitted> {
        // SAFETY: all fields are atomic, and an element of this map is not reused while the program runs.
        unsafe { ADMITTED.get(source) }
    }

    #[inline(always)]
    fn prefix(&self, address: Address) -> Option<PrefixClass> {
        let class = PREFIXES.get(&Key::new(128, address))?;
        PrefixClass::from_word(*class)
    }

    #[inline(always)]
    fn tracked(&self, source: &SourceKey) -> Option<&Tracked> {
        // SAFETY: all fields are atomic. The element may be evicted and reused for another source meanwhile; that source is
        // then charged one connection of this one.
        unsafe { SOURCES.get(source) }
    }

    #[inline(always)]
    fn with_local<R>(&mut self, run: impl FnOnce(&mut Local) -> R) -> Option<R> {
        let local = LOCAL.get_ptr_mut(0)?;
        // SAFETY: the pointer is to this processor's own slot, XDP programs do not interrupt one another there, and `run` is
        // not given the tables, so it cannot ask for a second reference.
        Some(run(unsafe { &mut *local }))
    }

    #[inline(always)]
    fn learn(&mut self, source: &SourceKey, tracked: Tracked) -> bool {
        SOURCES
            .insert(source, tracked, u64::from(BPF_NOEXIST))
            .is_ok()
    }

    #[inline(always)]
    fn tell(&mut self, event: Event) {
        if let Some(mut entry) = EVENTS.reserve(0) {
            entry.write(event);
            entry.submit(0);
        }
    }
}
