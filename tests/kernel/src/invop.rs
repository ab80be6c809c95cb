//! The list of breakpoint handlers: `dtrace_invop_add` and `dtrace_invop_remove` (`sys/cddl/dev/dtrace/amd64/dtrace_subr.c`).

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

/// A breakpoint handler, `int (*)(uintptr_t addr, struct trapframe *frame, uintptr_t third)`. Returns 0 if it does not claim the
/// breakpoint at `addr`. Probe context.
pub(crate) type Handler =
    unsafe extern "C" fn(address: usize, frame: *mut c_void, third: usize) -> c_int;

/// The maximum number of handlers. FreeBSD has no limit; the test modules need far fewer.
const MAX_HANDLERS: usize = 32;

/// The handlers (`dtrace_invop_hdlr`). FreeBSD prepends to its list, so [`dispatch`] calls the last handler first.
static HANDLERS: [AtomicPtr<c_void>; MAX_HANDLERS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_HANDLERS];

/// Adds a handler.
///
/// # Panics
/// If there are [`MAX_HANDLERS`] handlers already.
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
/// If the handler is not in the list, as on FreeBSD.
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

/// Calls the handlers, the last one first, until one claims the breakpoint, and returns its result; 0 if none does. Interrupts
/// off, probe context.
///
/// # Safety
/// `frame` is the trap frame of the current breakpoint at `address`. `third` is the third argument of handlers on this
/// architecture.
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
