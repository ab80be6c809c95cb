//! What the framework needs of the kernel it lives in.

pub use lock_api::RawMutex;

use crate::base::context::Contexts;
use crate::kernel::{Kernel, Unknown};

/// A lock of the host's around a value.
pub(crate) type Mutex<H, T> = lock_api::Mutex<<H as Host>::Lock, T>;

/// The lock of hosts that have no better one: who waits spins, and [relaxes](Host::relax) in between.
pub type SpinLock<H> = spin::mutex::SpinMutex<(), Relaxing<H>>;

/// How one waits for a [`SpinLock`]: as the host says.
#[derive(Clone, Copy, Debug)]
pub struct Relaxing<H>(core::marker::PhantomData<fn() -> H>);

impl<H: Host> spin::RelaxStrategy for Relaxing<H> {
    fn relax() {
        H::relax();
    }
}

/// The kernel's side of the framework: CPUs, time, interrupts, locks, and a wait for probe context.
///
/// Probe context is what the framework has [`without_interrupts`](Self::without_interrupts) run while a
/// probe fires. Functions marked "probe context" below run there: they take no lock, allocate nothing,
/// fault nowhere and call nothing that can itself be probed.
///
/// # Safety
/// The per-CPU buffers have one writer each, and memory that probe context reads is used again after
/// [`sync`](Self::sync), so an implementation has to keep this:
/// - While `without_interrupts` runs its function, once, the caller stays on one CPU, is not preempted,
///   and [`cpu`](Self::cpu) returns the same number. No other thread of execution gets that number
///   meanwhile, except one that interrupts the caller (NMI, fault, breakpoint) and returns to it.
/// - What one thread did on a CPU in probe context is visible to the next thread that enters probe
///   context on that CPU.
/// - `sync` returns only after every CPU has been outside probe context at least once since the call
///   was made. What the CPU did in probe context before that is visible to the caller after the
///   return, and what the caller wrote before the call is visible to probe context entered after it.
pub unsafe trait Host: Sync + Sized + 'static {
    /// The framework's locks. Never taken in probe context, nor with interrupts off; held over [`sync`](Self::sync)
    /// and over the ops of providers. [`SpinLock`] will do where a thread that holds one goes on running whoever
    /// waits; where threads are not preempted, or one of higher priority is never, it takes a lock that sleeps, or
    /// a [`relax`](Self::relax) that yields.
    ///
    /// It need not be fair. [`SpinLock`] is not: a thread that enables and disables in a loop may keep others out for
    /// long, on the same CPU above all, if it never yields in between. Where many threads trace, or any program may, it
    /// takes one that gives everybody a turn, like `spin::mutex::TicketMutex<(), Relaxing<Self>>` or the
    /// kernel's own that sleeps; with a ticket lock, who waits next must come to run soon, as nobody overtakes it.
    type Lock: RawMutex + Send + Sync;

    /// Number of the CPU that runs this, from 0. Probe context.
    fn cpu(&self) -> usize;

    /// How many CPUs there can be: [`cpu`](Self::cpu) is always below it. Never changes once the framework has its
    /// memory.
    fn cpus(&self) -> usize;

    /// Nanoseconds since boot, never running backwards on one CPU. Probe context.
    fn timestamp(&self) -> u64;

    /// Runs `f` with interrupts off on this CPU (and with them preemption), and leaves them as they were.
    /// They may be off already. Probe context.
    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R;

    /// Waits until every CPU has been outside probe context (`dtrace_sync`): an interrupt sent to all
    /// other CPUs and answered by them will do, since probe context runs with interrupts off.
    ///
    /// Called by threads with interrupts on, with the framework's lock held: another CPU may be
    /// waiting for that lock, but never with interrupts off.
    fn sync(&self);

    /// The framework has its memory, and from here on tells which CPUs are in probe context. A host that counts answers of
    /// CPUs for [`sync`](Self::sync) does not count one from a CPU in probe context, whoever calls its functions there. Called
    /// once, before the first probe fires, with the framework's lock held.
    ///
    /// # Safety
    /// They are those of the framework that this is the host of.
    unsafe fn contexts(&self, _contexts: Contexts) {}

    /// What programs in D may ask of this kernel. Its functions are called in probe context, unless they say otherwise.
    /// Of a kernel that says nothing here, programs know what the probe brings along and the
    /// [time](Self::timestamp), and no more; a [`Readable`](crate::kernel::Readable) lets them read memory.
    /// [`timestamp`](Kernel::timestamp) of what is returned is not asked.
    fn kernel(&self) -> &(dyn Kernel + Sync) {
        &Unknown
    }

    /// A probe of `profile` was enabled or disabled: each CPU is to call [`tick`](crate::Dtrace::tick) soon, which says when
    /// to call it again. Called with the framework's lock held: what is called here does not call the framework. A host
    /// that calls it at every beat of a timer of its own has nothing to do.
    fn timers_changed(&self) {}

    /// Called again and again by who waits for a [`SpinLock`]. A kernel without time slices lets other threads run
    /// here. Interrupts are on, and no lock of the framework's is held but perhaps that over registration.
    fn relax() {
        core::hint::spin_loop();
    }
}
