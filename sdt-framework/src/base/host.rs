//! The host: the kernel that contains the framework.

pub use lock_api::RawMutex;

use core::ptr::NonNull;

use crate::base::context::Contexts;
use crate::kernel::{Costs, Kernel, Unknown};

/// A value behind a lock of the host.
pub(crate) type Mutex<H, T> = lock_api::Mutex<<H as Host>::Lock, T>;

/// A lock for hosts without a better one: a waiting thread spins and calls [`Host::relax`].
pub type SpinLock<H> = spin::mutex::SpinMutex<(), Relaxing<H>>;

/// The strategy with which a thread waits for a [`SpinLock`]: [`Host::relax`].
#[derive(Clone, Copy, Debug)]
pub struct Relaxing<H>(core::marker::PhantomData<fn() -> H>);

impl<H: Host> spin::RelaxStrategy for Relaxing<H> {
    fn relax() {
        H::relax();
    }
}

/// The kernel's side of the framework: CPUs, time, interrupts, locks, and a wait for probe context.
///
/// Probe context is the code that the framework runs by [`without_interrupts`](Self::without_interrupts) while a probe
/// fires. Functions marked "probe context" below run there: they take no lock, allocate nothing, do not fault, and call
/// nothing that can have a probe.
///
/// # Safety
/// The buffers of each CPU have one writer, and the framework reuses memory that probe context reads after
/// [`sync`](Self::sync). Therefore an implementation must guarantee:
/// - While `without_interrupts` runs its function, once, the caller stays on one CPU, is not preempted,
///   and [`cpu`](Self::cpu) returns the same number. No other thread of execution gets that number
///   meanwhile, except one that interrupts the caller (NMI, fault, breakpoint) and returns to it.
/// - The stores of a thread in probe context on a CPU are visible to the next thread that enters probe context on that CPU.
/// - `sync` returns only after every CPU has been outside probe context at least once since the call was made. All stores of the
///   CPU in probe context before that moment are visible to the caller after the return, and the caller's stores before the call
///   are visible to code that enters probe context afterwards.
pub unsafe trait Host: Sync + Sized + 'static {
    /// The type of the framework's locks. The framework never takes them in probe context or with interrupts off. It holds
    /// them during [`sync`](Self::sync) and the ops of providers. [`SpinLock`] is enough if the thread that holds the lock
    /// continues to run while others wait. If threads are not preempted, or a thread of higher priority is never preempted,
    /// use a lock that sleeps, or a [`relax`](Self::relax) that yields.
    ///
    /// The lock need not be fair. [`SpinLock`] is not: a thread that enables and disables in a loop without yielding can
    /// keep other threads waiting for long, especially on the same CPU. If many threads trace, or any program may, use a
    /// fair lock, such as `spin::mutex::TicketMutex<(), Relaxing<Self>>` or a sleeping lock of the kernel. With a ticket
    /// lock, the next waiting thread must run soon, because no other thread can overtake it.
    type Lock: RawMutex + Send + Sync;

    /// The budget of a hit, in units of about a nanosecond, for the clauses of all consumers: the limit of the time for which
    /// programs keep interrupts off. A clause that needs more is stopped with an illegal operation. A host that must react
    /// faster states fewer units than the default; a clause with a `printf` of a string needs some thousands.
    const BUDGET: u32 = Costs::BUDGET;

    /// Returns the number of the current CPU, from 0. Probe context.
    fn cpu(&self) -> usize;

    /// Returns the largest possible number of CPUs: [`cpu`](Self::cpu) is always below it. It never changes after
    /// [`Dtrace::init`](crate::Dtrace::init).
    fn cpus(&self) -> usize;

    /// Returns the nanoseconds since boot, which never decrease on one CPU. Probe context.
    fn timestamp(&self) -> u64;

    /// Runs `f` with interrupts off on this CPU (and with them preemption), and leaves them as they were.
    /// They may be off already. Probe context.
    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R;

    /// Waits until every CPU has been outside probe context (`dtrace_sync`). It is enough to send an interrupt to all
    /// other CPUs and to wait for their answers, because probe context runs with interrupts off.
    ///
    /// Called by threads with interrupts on, with the framework's lock held: another CPU may be
    /// waiting for that lock, but never with interrupts off.
    fn sync(&self);

    /// Receives the flags that show which CPUs are in probe context. A host that counts the answers of CPUs for
    /// [`sync`](Self::sync) ignores an answer of a CPU in probe context. Called once, by `init`, before the first probe
    /// fires, with the framework's lock held.
    ///
    /// # Safety
    /// The flags are those of the framework of this host.
    unsafe fn contexts(&self, _contexts: Contexts) {}

    /// Returns the interface of D programs to this kernel. Its functions are called in probe context, unless they state
    /// otherwise. By default, programs can read only the arguments of the probe and the [time](Self::timestamp); a
    /// [`Readable`](crate::kernel::Readable) lets them read memory. The framework does not call [`timestamp`](Kernel::timestamp)
    /// of the result.
    fn kernel(&self) -> &(dyn Kernel + Sync) {
        &Unknown
    }

    /// Takes note that the framework does not need the contents of this memory any more, such as the buffers of a consumer that has left.
    /// The memory is part of that of [`init`](crate::Dtrace::init). The host may give its pages back to a system that provides them
    /// again, with any contents, when the framework next uses them. Called with the framework's lock held and interrupts on, so this
    /// does not call the framework. Does nothing by default.
    fn discard(_memory: NonNull<[u8]>) {}

    /// Makes each CPU call [`tick`](crate::Dtrace::tick) soon, because a probe of `profile` was enabled or disabled; `tick`
    /// returns the time of its next call. Called with the framework's lock held, so this does not call the framework. A
    /// host that calls `tick` at each interrupt of a periodic timer has nothing to do.
    fn timers_changed(&self) {}

    /// Starts to sample the threads of this host, for a probe `profile-N` that was enabled: each thread calls
    /// [`sample`](crate::Dtrace::sample) with the number `timer` after every `interval` nanoseconds of its own CPU time. `None`
    /// ends this, because the probe was disabled. Returns whether the host samples threads. If not, which is the default,
    /// [`tick`](crate::Dtrace::tick) fires `profile-N` on each CPU.
    ///
    /// For a host without CPUs of its own, such as a process. Called like [`timers_changed`](Self::timers_changed).
    fn sample_threads(&self, _timer: usize, _interval: Option<u64>) -> bool {
        false
    }

    /// Returns the number of threads that [`sample_threads`](Self::sample_threads) cannot sample. `dtrace` prints a message
    /// if there are any.
    fn unsampled_threads(&self) -> u32 {
        0
    }

    /// Returns the longest time in nanoseconds for which [`sync`](Self::sync) or the patcher kept interrupts off to wait for other
    /// CPUs, for [`Counters::longest_sync`](crate::Counters::longest_sync). By default 0: the host does not measure it.
    fn longest_sync(&self) -> u64 {
        0
    }

    /// Pauses a thread that waits for a [`SpinLock`], which calls this in a loop. A kernel without time slices lets other
    /// threads run here. Interrupts are on. The thread holds no lock of the framework, except possibly that of
    /// registration.
    fn relax() {
        core::hint::spin_loop();
    }
}
