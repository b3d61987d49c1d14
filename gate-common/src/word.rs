//! One word of a map's value, which other processors and user space may write at any time.

/// Reads and writes are whole; nothing orders them against other words.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Word(Cell);

#[cfg(not(target_arch = "bpf"))]
type Cell = core::sync::atomic::AtomicU64;
/// The kernel's instruction set has plain loads and stores only, which are whole for an aligned word.
#[cfg(target_arch = "bpf")]
type Cell = core::cell::UnsafeCell<u64>;

const _: () = assert!(size_of::<Word>() == 8 && align_of::<Word>() == 8);

// SAFETY: all access goes through `get` and `set`, each one aligned load or store of the whole word.
#[cfg(target_arch = "bpf")]
unsafe impl Sync for Word {}

impl Word {
    #[inline(always)]
    pub const fn new(value: u64) -> Self {
        Self(Cell::new(value))
    }

    #[cfg(not(target_arch = "bpf"))]
    pub fn get(&self) -> u64 {
        self.0.load(core::sync::atomic::Ordering::Relaxed)
    }

    #[cfg(not(target_arch = "bpf"))]
    pub fn set(&self, value: u64) {
        self.0.store(value, core::sync::atomic::Ordering::Relaxed);
    }

    #[cfg(target_arch = "bpf")]
    #[inline(always)]
    pub fn get(&self) -> u64 {
        // SAFETY: the cell's pointer is valid and aligned, and a volatile load is one load of the whole word.
        unsafe { self.0.get().read_volatile() }
    }

    #[cfg(target_arch = "bpf")]
    #[inline(always)]
    pub fn set(&self, value: u64) {
        // SAFETY: as for `get`; nobody holds a reference into the cell.
        unsafe { self.0.get().write_volatile(value) };
    }
}
