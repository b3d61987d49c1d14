//! The programs and the packet behind them.

use aya_ebpf::bindings::xdp_action;
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use gate_common::judge::judge;
use gate_common::reason::Action;
use gate_common::walk::{OFFSET_MAX, Packet};

use crate::maps::{KernelTables, count};

/// Judges every frame of the interface.
#[xdp(frags)]
pub(crate) fn gate_xdp(context: XdpContext) -> u32 {
    let verdict = judge(&Frame(&context), &mut KernelTables);
    count(verdict.reason);
    match verdict.action {
        Action::Pass => xdp_action::XDP_PASS,
        Action::Drop => xdp_action::XDP_DROP,
    }
}

/// Passes every frame: what an attached program costs before it does anything. For benchmarks.
#[xdp(frags)]
pub(crate) fn gate_xdp_pass(_context: XdpContext) -> u32 {
    xdp_action::XDP_PASS
}

/// The readable first part of a frame.
struct Frame<'a>(&'a XdpContext);

impl Packet for Frame<'_> {
    #[inline(always)]
    fn read<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        // Without an upper bound the verifier loses track of the pointer.
        if offset > OFFSET_MAX {
            return None;
        }
        let start = self.0.data() + offset;
        if start + N > self.0.data_end() {
            return None;
        }
        // SAFETY: `start..start + N` lies between the frame's bounds, as just checked; any bytes are a valid array.
        Some(unsafe { (start as *const [u8; N]).read() })
    }
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// No helper used here is reserved for GPL programs.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 11] = *b"Apache-2.0\0";
