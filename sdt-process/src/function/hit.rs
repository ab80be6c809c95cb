//! Passes a hit from the breakpoint handler to the framework, and returns to the interrupted code.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use sdt_framework::{Dtrace, Host as _};

use super::handlers::Handler;
use super::{breakpoint, frame, images, jumps};
use crate::slots::{self, Slots};
use crate::{hit, stack};

/// The framework to which functions are registered.
static DTRACE: AtomicPtr<Dtrace<Slots>> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// Whether this thread serves consumers. Neither allocated nor dropped, so signal handlers can use it.
    static SERVES: Cell<bool> = const { Cell::new(false) };
}

/// Notes that this thread serves consumers: its hits are neither recorded nor counted, as the program does not call these functions.
pub(crate) fn note_server() {
    SERVES.set(true);
}

/// Passes hits to this framework from now on.
pub(super) fn set_framework(dtrace: &'static Dtrace<Slots>) {
    DTRACE.store(ptr::from_ref(dtrace).cast_mut(), Ordering::Release);
}

fn framework() -> Option<&'static Dtrace<Slots>> {
    // SAFETY: the pointer is null, or `set_framework` stored a `&'static` reference in it.
    unsafe { DTRACE.load(Ordering::Acquire).as_ref() }
}

/// Handles a breakpoint at a function. Returns `false`, and does nothing, if the breakpoint is not one of a function.
///
/// # Safety
/// The kernel passed `context` to a handler of SIGTRAP that has not returned, for a breakpoint at this address.
pub(super) unsafe fn handle(address: usize, context: *mut c_void) -> bool {
    let Some(dtrace) = framework() else { return false };
    let _handler = Handler::begin();
    // SAFETY: the kernel passed a valid context, which is this handler's until it returns.
    let context = unsafe { &mut *context.cast::<frame::Context>() };
    if !dtrace.is_function_site(address as u64) {
        // A jump overwrites this instruction, or has overwritten it.
        if let Some(copy) = jumps::continuation(address) {
            frame::set_counter(context, copy);
            return true;
        }
        // The breakpoint was removed after this thread had hit it: the instruction is there again.
        // SAFETY: the address is in the text of a traced object, which stays mapped.
        let is_breakpoint = || unsafe { breakpoint::is_at(address) };
        let is_stale = images::text_at(address).is_some() && !is_breakpoint();
        if is_stale {
            frame::set_registers(context, &frame::registers(context));
        }
        return is_stale;
    }
    if SERVES.get() {
        let mut registers = frame::registers(context);
        // SAFETY: the registers are those of the interrupted code, which continues with them.
        unsafe { dtrace.function_emulate(&mut registers) };
        frame::set_registers(context, &registers);
        return true;
    }
    // A hit while another hit is recorded is in a function that the recording calls. Its instruction is emulated, and
    // nothing is recorded.
    let is_nested = hit::records();
    // SAFETY: the kernel passed `context`, and a site of a function is at the boundary of that function.
    if unsafe { frame::divert(context, is_nested, record) } {
        hit::set_records(true);
        return true;
    }
    let mut registers = frame::registers(context);
    // SAFETY: the registers are those of the interrupted code, which continues with them.
    unsafe { dtrace.function_skip(&mut registers) };
    frame::set_registers(context, &registers);
    true
}

/// Records a hit, and emulates the instruction in the copy of the signal's frame. The thunk calls this on the thread's own stack.
///
/// # Safety
/// `context` is the copy that `frame::divert` made, and `is_nested` its argument.
pub(super) unsafe extern "C" fn record(context: *mut frame::Context, is_nested: bool) {
    // SAFETY: only this thread uses the copy on its stack.
    let context = unsafe { &mut *context };
    let mut registers = frame::registers(context);
    if let Some(dtrace) = framework() {
        let _handler = Handler::begin();
        let room = if is_nested { None } else { slots::room() };
        // If another thread removed the site meanwhile, the registers stay unchanged: the code continues at the
        // original instruction.
        match room {
            Some(room) => {
                let _note = stack::Note::at_function(frame::boundary(&registers), room);
                // SAFETY: the registers are those of the interrupted code, which continues with them.
                dtrace.host().without_interrupts(|| unsafe { dtrace.function_hit(&mut registers) });
            }
            // SAFETY: the registers are those of the interrupted code, which continues with them.
            None => _ = unsafe { dtrace.function_skip(&mut registers) },
        }
    }
    frame::set_registers(context, &registers);
    hit::set_records(is_nested);
}

/// Records the hit of a site that jumps. The thunk calls this on the thread's own stack.
///
/// # Safety
/// `saved` are the registers that the thunk has saved.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe extern "C" fn record_jump(saved: *const super::thunk::Saved) {
    let Some(dtrace) = framework().filter(|_| !SERVES.get()) else { return };
    if hit::set_records(true) {
        // A function that the recording calls.
        return dtrace.count_stray();
    }
    match slots::room() {
        Some(room) => {
            // SAFETY: by the contract of this function.
            let registers = unsafe { &*saved }.registers();
            let _note = stack::Note::at_function(frame::boundary(&registers), room);
            // The table of sites is searched while the thread holds a slot, so `Host::sync` waits for the end.
            dtrace.host().without_interrupts(|| dtrace.function_record(&registers));
        }
        None => dtrace.count_stray(),
    }
    hit::set_records(false);
}
