//! Multiprocessing: the number of CPUs, and functions that run work on all CPUs.

#[cfg(target_arch = "x86_64")]
mod pause;

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use sdt_core::patch::Rendezvous;

use crate::arch::{self, cpu};
#[cfg(target_arch = "x86_64")]
pub(crate) use pause::{pause_others, resume_others};

type Work<'a> = &'a (dyn Fn(usize) + Sync);

/// The number of online CPUs. Their numbers begin at 0.
static ONLINE: AtomicUsize = AtomicUsize::new(1);
/// Whether a rendezvous is in progress.
static BUSY: AtomicBool = AtomicBool::new(false);
/// The work of the rendezvous: a `*const Work` while a rendezvous is in progress.
static WORK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
/// For each CPU, whether it has not done the work of the rendezvous yet.
static PENDING: [AtomicBool; cpu::MAX_CPUS] = [const { AtomicBool::new(false) }; cpu::MAX_CPUS];

/// The state of [`synchronise`].
static SYNCHRONISED: Rendezvous<{ cpu::MAX_CPUS }> = Rendezvous::new();

/// Returns the number of online CPUs.
pub(crate) fn online() -> usize {
    ONLINE.load(Ordering::Acquire)
}

/// Sets the number of online CPUs. All of them take part in a rendezvous afterwards.
pub(crate) fn set_online(cpus: usize) {
    ONLINE.store(cpus, Ordering::Release);
}

/// Runs `work` on every CPU, this one included, with interrupts off, and returns when all are done.
/// `work` gets the CPU's number.
pub(crate) fn rendezvous(work: Work<'_>) {
    begin(&work);
    let enabled = cpu::interrupts_off();
    work(cpu::current());
    end();
    cpu::restore_interrupts(enabled);
}

/// Starts a rendezvous: makes all other CPUs do `work`. `work` must live until [`end`] returns.
fn begin(work: &Work<'_>) {
    while BUSY.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        // The other rendezvous waits for this CPU, too. Interrupts may be off, so this CPU must join it here.
        join_rendezvous();
        core::hint::spin_loop();
    }
    WORK.store((&raw const *work).cast_mut().cast(), Ordering::Relaxed);
    let own = cpu::current();
    for pending in PENDING.iter().take(online()).enumerate().filter(|&(cpu, _)| cpu != own) {
        pending.1.store(true, Ordering::Release);
    }
    if online() > 1 {
        arch::send_rendezvous();
    }
}

/// Waits until all other CPUs have done their work.
fn end() {
    while PENDING.iter().take(online()).any(|pending| pending.load(Ordering::Acquire)) {
        core::hint::spin_loop();
    }
    BUSY.store(false, Ordering::Release);
}

/// Returns when every CPU has left probe context since the call, and executes the current text. Interrupts on or off.
pub(crate) fn synchronise() {
    let interrupt = || {
        if online() > 1 {
            arch::send_rendezvous();
        }
    };
    // There is no scheduler, so this thread stays on its CPU.
    SYNCHRONISED.request(cpu::current(), online(), interrupt, || {
        join_rendezvous();
        core::hint::spin_loop();
    });
}

/// Does this CPU's part of a rendezvous and of [`synchronise`], if any is pending. Called by the interrupt handler, and by loops
/// that wait for another CPU and may run with interrupts off. Not in probe context.
pub(crate) fn join_rendezvous() {
    let enabled = cpu::interrupts_off();
    let own = cpu::current();
    SYNCHRONISED.acknowledge(own);
    if PENDING[own].load(Ordering::Acquire) {
        let work = WORK.load(Ordering::Relaxed).cast_const().cast::<Work<'_>>();
        // SAFETY: `begin` stored the pointer before it set `PENDING` of this CPU, and the work lives until `PENDING` has been
        // cleared.
        unsafe { (*work)(own) };
        PENDING[own].store(false, Ordering::Release);
    }
    cpu::restore_interrupts(enabled);
}

/// The work of [`with_others`] for the other CPUs: a `*const Work` while [`with_others`] runs.
static TASK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
/// For each CPU, whether it has not done this work yet.
static TASK_PENDING: [AtomicBool; cpu::MAX_CPUS] =
    [const { AtomicBool::new(false) }; cpu::MAX_CPUS];

/// Runs `work` on all other CPUs as a thread, with interrupts on, and `own` on this CPU, the first.
/// Returns when all are done. `work` gets the CPU's number.
pub(crate) fn with_others<R>(work: Work<'_>, own: impl FnOnce() -> R) -> R {
    assert_eq!(cpu::current(), 0, "only the first CPU gives others work");
    let others = || TASK_PENDING.iter().take(online()).skip(1);
    TASK.store((&raw const work).cast_mut().cast(), Ordering::Relaxed);
    others().for_each(|pending| pending.store(true, Ordering::Release));
    if online() > 1 {
        arch::wake_others();
    }
    let result = own();
    while others().any(|pending| pending.load(Ordering::Acquire)) {
        core::hint::spin_loop();
    }
    result
}

/// Returns whether [`take_part`] has something to do on this CPU.
pub(crate) fn is_wanted() -> bool {
    TASK_PENDING[cpu::current()].load(Ordering::Acquire)
}

/// Does this CPU's part of [`with_others`], if it is pending; returns whether it was. Interrupts on.
pub(crate) fn take_part() -> bool {
    if !is_wanted() {
        return false;
    }
    let work = TASK.load(Ordering::Relaxed).cast_const().cast::<Work<'_>>();
    let own = cpu::current();
    // SAFETY: `with_others` stored the pointer before it set `TASK_PENDING` of this CPU, and the work lives until `TASK_PENDING`
    // has been cleared.
    unsafe { (*work)(own) };
    TASK_PENDING[own].store(false, Ordering::Release);
    true
}

/// Waits until `cpus` CPUs have called this function with the same `arrived`. Separates the stages of one rendezvous; each stage
/// needs its own counter `arrived`, initially 0.
pub(crate) fn barrier(arrived: &AtomicUsize, cpus: usize) {
    arrived.fetch_add(1, Ordering::AcqRel);
    while arrived.load(Ordering::Acquire) < cpus {
        core::hint::spin_loop();
    }
}
