//! The stack trace of a hit, for `stack()`: the return addresses in the chain of frame pointers. The kernel and the modules are
//! compiled with frame pointers.
//!
//! Between the hit and the code that walks the stack, there are frames of the framework, whose number depends on the compiler.
//! Therefore every entry into the kernel, by a module's call or an interrupt, stores its origin while the kernel handles it.

use core::sync::atomic::{AtomicU64, Ordering};

use sdt_core::frames::NEXT_FRAME;
pub(crate) use sdt_core::frames::frame_pointer;

use crate::arch::{MODULE_SPACE, cpu};
use crate::{load, text};

/// The call or interrupt by which a CPU entered this kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The frame pointer at the entry.
    frame: u64,
    /// After an interrupt, the address of the interrupted instruction, whose function owns `frame`. After a call, 0; then `frame`
    /// is the frame of the called function.
    pc: u64,
}

/// The innermost [`Origin`] of a CPU. Only this CPU writes it.
struct Slot {
    frame: AtomicU64,
    pc: AtomicU64,
}

static ORIGINS: [Slot; cpu::MAX_CPUS] =
    [const { Slot { frame: AtomicU64::new(0), pc: AtomicU64::new(0) } }; cpu::MAX_CPUS];

impl Origin {
    /// Returns the origin for a call of a function of this kernel, with the frame of that function.
    pub(crate) fn called(frame: *const core::ffi::c_void) -> Self {
        Self { frame: frame.addr() as u64, pc: 0 }
    }

    /// Returns the origin for an instruction that a trap or a device interrupted.
    pub(crate) const fn interrupted(pc: u64, frame: u64) -> Self {
        Self { frame, pc }
    }

    /// Returns the innermost origin of this CPU.
    fn current() -> Self {
        let slot = &ORIGINS[cpu::current()];
        Self { frame: slot.frame.load(Ordering::Relaxed), pc: slot.pc.load(Ordering::Relaxed) }
    }

    /// Stores this as the origin of this CPU. An interrupt between the two stores restores both values before it returns.
    fn set(self) {
        let slot = &ORIGINS[cpu::current()];
        slot.frame.store(self.frame, Ordering::Relaxed);
        slot.pc.store(self.pc, Ordering::Relaxed);
    }

    /// Runs `work` with this origin, at which stack traces begin. Any context; `work` must stay on the same CPU.
    #[inline(always)]
    pub(crate) fn of<R>(self, work: impl FnOnce() -> R) -> R {
        let outer = Self::current();
        self.set();
        let result = work();
        outer.set();
        result
    }
}

/// Fills `frames` with return addresses, the innermost first, and returns their number. After a call, it skips the first `own`
/// addresses, which belong to the provider. Probe context.
pub(crate) fn walk(own: u32, frames: &mut [u64]) -> usize {
    let Origin { mut frame, pc } = Origin::current();
    let mut skip = if pc == 0 { own } else { 0 };
    let mut count = 0;
    let mut next = Some(pc).filter(|pc| *pc != 0);
    loop {
        let at = match next.take() {
            Some(pc) => pc,
            None => {
                let saved = frame.wrapping_add_signed(NEXT_FRAME as i64);
                let Some(returns) = load::word(saved.wrapping_add(8)) else { break };
                let Some(above) = load::word(saved) else { break };
                // Each frame must be at a higher address than the previous one; otherwise the chain ends after this frame.
                frame = if above > frame { above } else { 0 };
                returns
            }
        };
        if !is_text(at) {
            break;
        }
        if skip > 0 {
            skip -= 1;
            continue;
        }
        let Some(place) = frames.get_mut(count) else { break };
        *place = at;
        count += 1;
    }
    count
}

fn is_text(address: u64) -> bool {
    text::holds(address) || MODULE_SPACE.contains(&address)
}
