//! The functions of this kernel that consumers may trace: the provider `fbt`.

use sdt_core::patch::Patcher;
use sdt_framework::{FunctionText, Registers};
use spin::Once;

use crate::dtrace::DTRACE;
use crate::stack::Origin;
use crate::text::{self, KernelText};
use crate::{counters, traps};

/// The maximum number of sites.
const SITES: usize = 8192;

/// The size of the header of a note, and of the name `GNU`.
const NOTE: usize = 16;

unsafe extern "C" {
    static kernel_untraced_end: u8;
    static kernel_build_id_start: u8;
    static kernel_build_id_end: u8;
}

/// The traceable text of this kernel, which follows the text that must not be traced.
#[derive(Debug)]
struct Text;

// SAFETY: the text that `is_traceable` accepts is mapped for ever, and is patched only through `KernelText`. The link script
// places before it the code that a CPU executes from a breakpoint to the end of `function_hit`, and the code that runs before
// CPUs have trap handlers. The trap vectors leave `FREE_STACK` bytes below the interrupted stack pointer unused. Trap handlers
// run with interrupts off, and both synchronisations wait for an interrupt on each CPU.
unsafe impl FunctionText for Text {
    fn build_id(&self) -> &[u8] {
        let (start, end) = (&raw const kernel_build_id_start, &raw const kernel_build_id_end);
        // SAFETY: the link script's edges of the note, which is mapped and never changes.
        let note = unsafe { core::slice::from_raw_parts(start, end.addr() - start.addr()) };
        note.get(NOTE..).unwrap_or_default()
    }

    fn is_traceable(&self, address: u64, length: usize) -> bool {
        let end = address.checked_add(length as u64 - 1);
        (&raw const kernel_untraced_end as u64) <= address && end.is_some_and(text::holds)
    }

    fn free_stack(&self) -> u64 {
        traps::FREE_STACK
    }

    fn handlers(&self) -> &[u64] {
        static HANDLERS: Once<[u64; 2]> = Once::new();
        let resolver = counters::resume_address as *const () as u64;
        HANDLERS.call_once(|| [traps::handler(), resolver])
    }

    fn patcher(&self) -> &'static dyn Patcher {
        &KernelText
    }
}

/// Registers the provider `fbt` for the functions of this kernel.
pub(crate) fn init() {
    DTRACE
        .register_functions(&Text, SITES)
        .expect("the file has a build ID, and this happens once");
}

/// Handles a breakpoint at `pc`, in a function whose frame pointer is `frame`. Returns `false` if no consumer traces a function
/// at `pc`. Interrupts off, probe context.
///
/// # Safety
/// The same as for `Dtrace::function_hit`.
pub(crate) unsafe fn hit(pc: u64, frame: u64, registers: &mut Registers) -> bool {
    // SAFETY: the caller's contract.
    let is_ours = Origin::interrupted(pc, frame).of(|| unsafe { DTRACE.function_hit(registers) });
    if is_ours {
        counters::breakpoint();
    }
    is_ours
}
