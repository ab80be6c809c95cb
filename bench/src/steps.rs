//! Finds the instructions that a call executes, by single-stepping.

use std::arch::asm;
use std::ffi::c_void;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::{Result, bail, ensure};

use crate::subjects::Subject;
use crate::traps;

/// The greatest number of instructions of one call.
const MOST: usize = 4096;

static STEPS: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
static LEN: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_step(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands the handler a context.
    let pc = unsafe { traps::program_counter(context) };
    let at = LEN.fetch_add(1, Ordering::Relaxed);
    if let Some(step) = STEPS.get(at) {
        step.store(pc, Ordering::Relaxed);
    }
}

/// Calls `subject` once with the CPU's trap flag set.
#[inline(never)]
fn step(subject: Subject) -> u64 {
    // SAFETY: sets the trap flag; every instruction from here on raises SIGTRAP, which `on_step`
    // handles.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    let result = (subject.call)(3, 5);
    // SAFETY: clears the trap flag.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
    result
}

/// Returns the addresses of the instructions that a call of `subject` executes, from its first instruction to its return,
/// including those of called functions. The function is `len` bytes long.
///
/// # Errors
/// The call executes too many instructions, or none of them was seen.
pub fn executed(subject: Subject, len: u64) -> Result<Vec<u64>> {
    // A call before, so that initialisation at the first call is not counted.
    black_box((subject.call)(3, 5));
    LEN.store(0, Ordering::Relaxed);
    black_box(traps::with(on_step, || step(black_box(subject))));
    let count = LEN.load(Ordering::Relaxed);
    ensure!(count <= MOST, "a call executes more than {MOST} instructions");
    let steps: Vec<_> = STEPS[..count].iter().map(|step| step.load(Ordering::Relaxed)).collect();
    let entry = subject.entry();
    // The steps before and after belong to the caller.
    let first = steps.iter().position(|address| *address == entry);
    let last = steps.iter().rposition(|address| (entry..entry + len).contains(address));
    let (Some(first), Some(last)) = (first, last) else { bail!("a call was not seen") };
    Ok(steps[first..=last].to_vec())
}
