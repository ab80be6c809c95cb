//! Several CPUs: how many, and how to have all of them do something.

#[cfg(target_arch = "x86_64")]
mod pause;

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use sdt_core::patch::Rendezvous;

use crate::arch::{self, cpu};
#[cfg(target_arch = "x86_64")]
pub(crate) use pause::{pause_others, resume_others};

type Work<'a> = &'a (dyn Fn(usize) + Sync);

/// CPUs that take part, numbered from 0.
static ONLINE: AtomicUsize = AtomicUsize::new(1);
/// A CPU holds a rendezvous.
static BUSY: AtomicBool = AtomicBool::new(false);
/// The work of the rendezvous: a `*const Work` while one is held.
static WORK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
/// The CPUs that have not done it yet.
static PENDING: [AtomicBool; cpu::MAX_CPUS] = [const { AtomicBool::new(false) }; cpu::MAX_CPUS];

/// All CPUs execute text as it is.
static SYNCHRONISED: Rendezvous<{ cpu::MAX_CPUS }> = Rendezvous::new();

/// CPUs that are up.
pub(crate) fn online() -> usize {
    ONLINE.load(Ordering::Acquire)
}

/// Sets the number of CPUs that are up. From here on all of them take part in rendezvous.
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

/// Makes all other CPUs do `work`, which has to live until [`end`] returns.
fn begin(work: &Work<'_>) {
    while BUSY.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        // Interrupts may be off here, and the CPU that holds it waits for this one, too.
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

/// Returns when every CPU has been outside probe context, and executes text as it is now. Interrupts on or off.
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

/// Does this CPU's part of a rendezvous and of [`synchronise`], if it has one to do. Interrupts off, or on and about to
/// wait; not in probe context.
pub(crate) fn join_rendezvous() {
    let enabled = cpu::interrupts_off();
    let own = cpu::current();
    SYNCHRONISED.acknowledge(own);
    if PENDING[own].load(Ordering::Acquire) {
        let work = WORK.load(Ordering::Relaxed).cast_const().cast::<Work<'_>>();
        // SAFETY: the pointer was stored before this CPU was marked, and what it points to lives until
        // the mark is gone.
        unsafe { (*work)(own) };
        PENDING[own].store(false, Ordering::Release);
    }
    cpu::restore_interrupts(enabled);
}

/// The work of the other CPUs as threads: a `*const Work` while [`with_others`] runs.
static TASK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
/// The CPUs that have not done it yet.
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

/// Does this CPU's part of [`with_others`], if it has one to do, and says so. Interrupts on.
pub(crate) fn take_part() -> bool {
    if !is_wanted() {
        return false;
    }
    let work = TASK.load(Ordering::Relaxed).cast_const().cast::<Work<'_>>();
    let own = cpu::current();
    // SAFETY: the pointer was stored before this CPU was marked, and what it points to lives until the
    // mark is gone.
    unsafe { (*work)(own) };
    TASK_PENDING[own].store(false, Ordering::Release);
    true
}

/// Waits until each of `cpus` CPUs has come here. For the stages of one rendezvous; `arrived` is new
/// for each stage.
pub(crate) fn barrier(arrived: &AtomicUsize, cpus: usize) {
    arrived.fetch_add(1, Ordering::AcqRel);
    while arrived.load(Ordering::Acquire) < cpus {
        core::hint::spin_loop();
    }
}
