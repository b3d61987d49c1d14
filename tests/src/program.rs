//! The kernel program in the kernel without an interface, fed one frame at a time (`BPF_PROG_TEST_RUN`).

use std::net::IpAddr;

use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{Array, HashMap, Map, MapData, PerCpuArray, RingBuf};
use aya::programs::{TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use gate_common::config::{CONFIG_WORDS, Mode, Parameters, PrefixLookup};
use gate_common::gcra::Rate;
use gate_common::reason::{Action, REASONS, Reason};
use gate_common::source::{Address, ListenerKey, SourceKey};
use gate_common::tables::{Admitted, PrefixClass};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Longer than any test: within it, nothing of a rate comes back.
pub const HOUR_NS: u64 = 3_600_000_000_000;
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;

/// Parameters under which time does not matter: a burst of 12 tracked connections, 40 for sources with a session, promotion at 4.
pub fn timeless() -> Parameters {
    Parameters {
        mode: Mode::Enforce,
        source: Rate {
            interval_ns: HOUR_NS,
            limit_ns: 12 * HOUR_NS,
        },
        admitted: Rate {
            interval_ns: HOUR_NS,
            limit_ns: 40 * HOUR_NS,
        },
        promote_threshold: 4,
        window_ns: HOUR_NS,
        learn_per_second_max: 1_000_000,
        events: Rate {
            interval_ns: HOUR_NS,
            limit_ns: 3 * HOUR_NS,
        },
        seed: [0x0123_4567_89ab_cdef, 0x0f1e_2d3c_4b5a_6978],
        prefixes: PrefixLookup::Do,
    }
}

/// An address as the maps hold it.
///
/// # Panics
/// Where it is none.
#[track_caller]
pub fn address(text: &str) -> Address {
    match text.parse().expect("an address") {
        IpAddr::V4(v4) => Address::from_ipv4(v4.octets()),
        IpAddr::V6(v6) => Address::from_ipv6(v6.octets()),
    }
}

/// What one frame came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub reason: Reason,
    pub action: Action,
}

/// The loaded program, its maps, and the counters as last read.
pub struct Program {
    ebpf: Ebpf,
    counters: [u64; REASONS],
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").finish_non_exhaustive()
    }
}

impl Program {
    /// Loads it with these parameters and pins this thread to one processor, since half of the state is per processor.
    ///
    /// # Panics
    /// Where the kernel does not take it.
    #[track_caller]
    pub fn load(parameters: &Parameters) -> Self {
        Self::load_sized(parameters, 1024, 1024)
    }

    /// The same with maps of these sizes.
    ///
    /// # Panics
    /// Where the kernel does not take it.
    #[track_caller]
    pub fn load_sized(parameters: &Parameters, admitted_max: u32, sources_max: u32) -> Self {
        let mut only = CpuSet::new();
        only.set(0);
        sched_setaffinity(None, &only).expect("pinned to processor 0");
        let object = gate::kernel::OBJECT.expect("the kernel object");
        let mut ebpf = EbpfLoader::new()
            .btf(None)
            .map_max_entries("ADMITTED", admitted_max)
            .map_max_entries("SOURCES", sources_max)
            .load(object)
            .expect("maps");
        xdp(&mut ebpf, gate::kernel::PROGRAM)
            .load()
            .unwrap_or_else(|error| panic!("the verifier: {error}"));
        let mut program = Self {
            ebpf,
            counters: [0; REASONS],
        };
        program.set(parameters);
        program
    }

    fn map(&mut self, name: &str) -> &mut Map {
        self.ebpf.map_mut(name).expect("a map of this name")
    }

    /// Sets the parameters while the program is loaded.
    pub fn set(&mut self, parameters: &Parameters) {
        let mut config: Array<&mut MapData, [u64; CONFIG_WORDS]> =
            self.map("CONFIG").try_into().expect("its layout");
        config.set(0, parameters.words(), 0).expect("parameters");
    }

    pub fn guard(&mut self, ip: &str, port: u16) {
        let mut listeners: HashMap<&mut MapData, [u64; 3], u32> =
            self.map("LISTENERS").try_into().expect("its layout");
        let key = ListenerKey::new(address(ip), port);
        listeners.insert(key.words(), 1, 0).expect("a listener");
    }

    pub fn admit(&mut self, ip: &str, expires_ns: u64) {
        let mut admitted: HashMap<&mut MapData, [u8; 16], [u64; 4]> =
            self.map("ADMITTED").try_into().expect("its layout");
        let key = SourceKey::of(address(ip)).address().octets();
        admitted
            .insert(key, Admitted::words(expires_ns), 0)
            .expect("an admitted source");
    }

    pub fn prefix(&mut self, ip: &str, length: u32, class: PrefixClass) {
        let mut prefixes: LpmTrie<&mut MapData, [u8; 16], u32> =
            self.map("PREFIXES").try_into().expect("its layout");
        let key = Key::new(length, address(ip).octets());
        prefixes.insert(&key, class as u32, 0).expect("a prefix");
    }

    /// Tracked sources.
    pub fn tracked(&mut self) -> Vec<[u8; 16]> {
        let sources: HashMap<&mut MapData, [u8; 16], [u64; 3]> =
            self.map("SOURCES").try_into().expect("its layout");
        sources.keys().map(|key| key.expect("a key")).collect()
    }

    /// The events told. Can be asked for once.
    ///
    /// # Panics
    /// The second time.
    pub fn events(&mut self) -> RingBuf<MapData> {
        let map = self.ebpf.take_map("EVENTS").expect("not taken before");
        map.try_into().expect("its layout")
    }

    /// Packets by reason, all processors together.
    pub fn counters(&mut self) -> [u64; REASONS] {
        let stats: PerCpuArray<&mut MapData, u64> =
            self.map("STATS").try_into().expect("its layout");
        let mut sums = [0; REASONS];
        for (index, sum) in (0..).zip(&mut sums) {
            *sum = stats.get(&index, 0).expect("a counter").iter().sum();
        }
        sums
    }

    /// Runs the program on one frame: what it did, which counter it raised. The frame must come back as it was.
    ///
    /// # Panics
    /// Where it raised not exactly one counter, or changed the frame.
    #[track_caller]
    pub fn judge(&mut self, frame: &[u8]) -> Outcome {
        let mut back = vec![0; frame.len() + 64];
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.data_out = Some(&mut back);
        let result = xdp(&mut self.ebpf, gate::kernel::PROGRAM)
            .test_run(options)
            .expect("a test run");
        let size = usize::try_from(result.data_size_out).expect("a size");
        assert_eq!(&back[..size], frame, "the frame was changed");
        let action = match result.return_value {
            XDP_PASS => Action::Pass,
            XDP_DROP => Action::Drop,
            other => panic!("XDP action {other}"),
        };
        let before = std::mem::replace(&mut self.counters, [0; REASONS]);
        self.counters = self.counters();
        let raised: Vec<Reason> = Reason::ALL
            .iter()
            .copied()
            .filter(|reason| self.counters[*reason as usize] != before[*reason as usize])
            .collect();
        let [reason] = raised[..] else {
            panic!("counters raised by one packet: {raised:?}");
        };
        let (now, then) = (self.counters[reason as usize], before[reason as usize]);
        assert_eq!(now, then + 1, "one packet counted more than once");
        Outcome { reason, action }
    }

    /// Runs the program on one frame many times over, counters and all.
    pub fn repeat(&mut self, frame: &[u8], times: u32) {
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.repeat = times;
        xdp(&mut self.ebpf, gate::kernel::PROGRAM)
            .test_run(options)
            .expect("a test run");
    }

    /// As [`Program::judge`], after frames that were not judged one by one.
    #[track_caller]
    pub fn judge_after(&mut self, frame: &[u8]) -> Outcome {
        self.counters = self.counters();
        self.judge(frame)
    }

    /// Instructions the verifier had to look at.
    pub fn verified_instructions(&mut self) -> u32 {
        xdp(&mut self.ebpf, gate::kernel::PROGRAM)
            .info()
            .expect("its information")
            .verified_instruction_count()
            .expect("a kernel that counts them")
    }
}

fn xdp<'a>(ebpf: &'a mut Ebpf, name: &str) -> &'a mut Xdp {
    let program = ebpf.program_mut(name).expect("the program");
    program.try_into().expect("an XDP program")
}
