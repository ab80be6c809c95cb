//! The list of breakpoint handlers: `dtrace_invop_add` and its kin
//! (`sys/cddl/dev/dtrace/amd64/dtrace_subr.c`).

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

/// `int (*)(uintptr_t addr, struct trapframe *frame, uintptr_t third)`. Probe context. Returns 0 for
/// an address that is not the handler's.
pub(crate) type Handler =
    unsafe extern "C" fn(address: usize, frame: *mut c_void, third: usize) -> c_int;

/// Handlers there can be. FreeBSD's list is unbounded; nothing this bench loads comes near.
const MAX_HANDLERS: usize = 32;

/// `dtrace_invop_hdlr`: FreeBSD prepends, so the last slot in use is asked first.
static HANDLERS: [AtomicPtr<c_void>; MAX_HANDLERS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_HANDLERS];

/// Adds a handler.
///
/// # Panics
/// When there are too many.
pub(crate) fn add(handler: Handler) {
    let free = HANDLERS.iter().find(|slot| {
        slot.compare_exchange(
            core::ptr::null_mut(),
            handler as *mut c_void,
            Ordering::AcqRel,
            Ordering::Relaxed,
        )
        .is_ok()
    });
    assert!(free.is_some(), "more than {MAX_HANDLERS} breakpoint handlers");
}

/// Removes a handler.
///
/// # Panics
/// When it is not there, as FreeBSD does.
pub(crate) fn remove(handler: Handler) {
    let found = HANDLERS.iter().rev().find(|slot| {
        slot.compare_exchange(
            handler as *mut c_void,
            core::ptr::null_mut(),
            Ordering::AcqRel,
            Ordering::Relaxed,
        )
        .is_ok()
    });
    assert!(found.is_some(), "attempt to remove non-existent invop handler");
}

/// Asks the handlers, the youngest first, until one claims the breakpoint; 0 when none does.
/// Interrupts off, probe context.
///
/// # Safety
/// `frame` is the live trap frame of a breakpoint at `address`, `third` what the architecture
/// defines.
pub(crate) unsafe fn dispatch(address: u64, frame: *mut c_void, third: u64) -> c_int {
    for slot in HANDLERS.iter().rev() {
        let handler = slot.load(Ordering::Acquire);
        if handler.is_null() {
            continue;
        }
        // SAFETY: only `add` stores here, and it stores handlers.
        let handler = unsafe { core::mem::transmute::<*mut c_void, Handler>(handler) };
        // SAFETY: the caller passes a live trap frame; a module keeps its handler loaded until it has removed it.
        let answer = unsafe { handler(address as usize, frame, third as usize) };
        if answer != 0 {
            return answer;
        }
    }
    0
}
