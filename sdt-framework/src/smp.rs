//! A ready-made host for kernels whose text is patched, on one CPU or several.
//!
//! A kernel implements [`Machine`]. [`Tracing`] combines the framework, its [`Host`] and the [`Patcher`] of the kernel's own
//! text. A kernel that needs other locks, or another way to write text, implements [`Host`] and [`Patcher`] itself.
//!
//! ```
//! use sdt_framework::smp::{Machine, Tracing};
//! use sdt_framework::{Config, Memory};
//! # fn lapic_id() -> usize { 0 }
//! # fn send_ipis() {}
//! # fn nanoseconds() -> u64 { 0 }
//! # fn cli_sti<R>(f: impl FnOnce() -> R) -> R { f() }
//!
//! struct Kernel;
//!
//! // SAFETY: threads stay on their CPU, and every CPU's handler of the interrupt calls `called`.
//! unsafe impl Machine for Kernel {
//!     fn cpu() -> usize { lapic_id() }
//!     fn cpus() -> usize { 1 }
//!     fn timestamp() -> u64 { nanoseconds() }
//!     fn without_interrupts<R>(f: impl FnOnce() -> R) -> R { cli_sti(f) }
//!     fn interrupt_others() { send_ipis(); }
//! }
//!
//! static TRACING: Tracing<Kernel, 16> = Tracing::new(c"kernel");
//!
//! /// The handler of that interrupt.
//! fn on_ipi() {
//!     TRACING.called();
//! }
//!
//! // At boot, once all CPUs are up and have their breakpoint handler.
//! const CONFIG: Config = Config { probes: 64, ecbs: 64, ..Config::DEFAULT };
//! static MEMORY: Memory<{ 1 << 20 }> = Memory::new();
//! let memory = MEMORY.take().expect("the memory is taken once");
//! assert!(Tracing::<Kernel, 16>::memory(&CONFIG, 4) <= memory.len());
//! // SAFETY: vector 3 asks `resume_address`, and a kernel is never unloaded.
//! let dtrace = unsafe { TRACING.start(memory, &CONFIG) }?;
//! // BEGIN, END and ERROR: this program has no probes of its own.
//! assert_eq!(dtrace.for_each_probe(&sdt_framework::Spec::ALL, |_| {}), Ok(3));
//! # Ok::<(), sdt_framework::smp::StartError>(())
//! ```

use core::ffi::CStr;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use sdt_core::attach::{self, AttachError, Attachment};
use sdt_core::ops::FrameworkError;
use sdt_core::patch::{Mode, Patcher, Rendezvous, machine};

use crate::base::context::Contexts;
use crate::base::host::{Host, Relaxing, SpinLock};
use crate::base::sync::{AtomicCount, Count, Ordering, widen};
use crate::control::config::{Config, InitError};
use crate::dtrace::Dtrace;
use crate::kernel::{Costs, Kernel, Unknown};

/// The functions of a kernel from which [`Tracing`] makes a host and a patcher.
///
/// # Safety
/// - [`cpu`](Self::cpu) and [`without_interrupts`](Self::without_interrupts) fulfil the contract of [`Host`]'s functions, and
///   [`possible`](Self::possible) that of [`Host::cpus`].
/// - [`interrupt_others`](Self::interrupt_others) makes every other CPU that is up call [`Tracing::called`] in a handler with
///   interrupts off. A CPU with interrupts off does so as soon as it turns them on.
/// - [`writable`](Self::writable) returns an address at which the same bytes can be written, and [`is_text`](Self::is_text)
///   is true only for text.
pub unsafe trait Machine: Sized + 'static {
    /// The budget of a hit, in units of about a nanosecond: see [`Host::BUDGET`].
    const BUDGET: u32 = Costs::BUDGET;

    /// Returns the number of the current CPU, from 0. Probe context.
    fn cpu() -> usize;

    /// Returns the number of CPUs that are up; their numbers are all below it. A CPU that starts later calls
    /// [`Tracing::called`] after this function counts it and its handlers are installed.
    fn cpus() -> usize;

    /// Returns the largest possible number of CPUs; there is a buffer for each. It never changes.
    fn possible() -> usize {
        Self::cpus()
    }

    /// Returns the nanoseconds since boot, which never decrease on one CPU. A kernel without a clock counts. Probe context.
    fn timestamp() -> u64;

    /// Runs `f` with interrupts off on this CPU, and leaves them as they were. Probe context.
    fn without_interrupts<R>(f: impl FnOnce() -> R) -> R;

    /// Interrupts all other CPUs that are up. Called with interrupts off, which stay off until all CPUs have answered. So it
    /// takes no lock that other threads hold with interrupts on. A CPU that waits for answers of other CPUs with its own
    /// interrupts off, for example to flush TLBs, calls [`Tracing::called`] while it waits; otherwise the two CPUs wait for
    /// each other.
    fn interrupt_others();

    /// Returns the address at which the text at `address` can be written: a writable alias. By default, the text is written
    /// in place: it may be read-only on x86_64, where the store clears CR0.WP, and must be writable elsewhere.
    fn writable(address: usize) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(address)
    }

    /// Returns whether all of these bytes are the kernel's text, or true if the kernel cannot tell: see
    /// [`Patcher::is_text`].
    fn is_text(address: usize, length: usize) -> bool {
        let _ = (address, length);
        true
    }

    /// Returns the interface of D programs to this kernel: see [`Host::kernel`]. A [`Readable`](crate::kernel::Readable) lets
    /// them read memory and print a `&str`; without one, they can read only numbers.
    fn kernel() -> &'static (dyn Kernel + Sync) {
        &Unknown
    }

    /// Makes each CPU call [`Dtrace::tick`] soon, for a kernel whose timer is one-shot: see
    /// [`Host::timers_changed`]. [`Dtrace::tick`] returns the time of its next call. A kernel that calls
    /// `tick` at each interrupt of a periodic timer has nothing to do.
    fn timers_changed() {}

    /// Pauses a thread that waits for a lock of the framework. A kernel without time slices lets other threads run here.
    fn relax() {
        core::hint::spin_loop();
    }
}

/// A framework on a [`Machine`] of at most `CPUS` CPUs, and the kernel's probes. Put it into a `static`.
pub struct Tracing<M: Machine, const CPUS: usize> {
    dtrace: Dtrace<Smp<M, CPUS>>,
    module: &'static CStr,
    attachment: spin::Once<Attachment>,
}

impl<M: Machine, const CPUS: usize> Tracing<M, CPUS> {
    /// Creates a framework that is not started. The kernel's probes are listed with this module name.
    pub const fn new(module: &'static CStr) -> Self {
        Self { dtrace: Dtrace::new(Smp::new()), module, attachment: spin::Once::new() }
    }

    /// Returns the bytes of memory for this configuration and this number of simultaneous consumers, each with
    /// [buffers](Config::buffer) of the configured size and one enabling, on all [possible](Machine::possible) CPUs.
    pub fn memory(config: &Config, consumers: usize) -> usize {
        config.memory::<Smp<M, CPUS>>(M::possible(), consumers)
    }

    /// Hands memory to the framework ([`Dtrace::init`]), registers D's own [probes](Dtrace::register_own), and attaches the
    /// probes of the image ([`attach`](attach::attach)). `SDT_PATCH` has selected at build time how sites are patched. After any
    /// error except [`StartError::Memory`], the framework has its memory, and none of the image's probes.
    ///
    /// Each of the configured consumers gets an equal [share](Dtrace::share_memory) of the memory that is left, at least the configured
    /// buffers, so one that asks for large buffers leaves room for the others. [`Dtrace::share_memory`] sets another share.
    ///
    /// For `profile` and `tick` call [`Dtrace::register_profile`] next, and [`Dtrace::tick`] from the timer's interrupt, on each CPU. A
    /// kernel with a one-shot timer implements [`Machine::timers_changed`], too.
    ///
    /// # Safety
    /// The contract of [`attach`](attach::attach): every CPU has its breakpoint handler, and the image is never unloaded.
    ///
    /// # Errors
    /// See [`StartError`].
    pub unsafe fn start(
        &'static self,
        memory: &'static mut [MaybeUninit<u8>],
        config: &Config,
    ) -> Result<&'static Dtrace<Smp<M, CPUS>>, StartError> {
        self.dtrace.init(memory, config)?;
        // A consumer gets at least the configured buffers, for which a small kernel may have room only once. This fails in probe
        // context only, where `register_own` fails, too.
        if let Ok(left) = self.dtrace.memory_left() {
            let configured = Self::memory(config, 1).saturating_sub(Self::memory(config, 0));
            let _ = self.dtrace.share_memory((left / config.consumers).max(configured));
        }
        self.dtrace.register_own().map_err(StartError::Own)?;
        let attachment = self.attachment.call_once(|| Attachment {
            framework: &self.dtrace,
            patcher: self.dtrace.host(),
            mode: Mode::BUILT,
            module: self.module,
        });
        // SAFETY: the caller guarantees the handlers and that the image stays, as `attach` requires.
        unsafe { attach::attach(attachment) }?;
        Ok(&self.dtrace)
    }

    /// Returns the framework.
    pub const fn dtrace(&self) -> &Dtrace<Smp<M, CPUS>> {
        &self.dtrace
    }

    /// Acknowledges a request of another CPU to leave probe context and to execute the present text. Called by the handler of
    /// [`Machine::interrupt_others`] with interrupts off. Costs three loads without a request. Does nothing in probe context:
    /// the CPU acknowledges after it has left it.
    pub fn called(&self) {
        self.dtrace.host().called();
    }
}

impl<M: Machine, const CPUS: usize> fmt::Debug for Tracing<M, CPUS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracing").field("module", &self.module).finish_non_exhaustive()
    }
}

/// The largest number of stores between two synchronisations of all CPUs.
const STORES: usize = 128;

/// A [`Machine`] as [`Host`] and [`Patcher`].
///
/// Each store to text is repeated after the next rendezvous, because of QEMU: see [`machine`]. On real machines this has no
/// effect.
#[derive(Debug)]
pub struct Smp<M: Machine, const CPUS: usize> {
    rendezvous: Rendezvous<CPUS>,
    /// The flags of CPUs in probe context, after `init`.
    contexts: spin::Once<Contexts>,
    /// The addresses and lengths of the stores since the last rendezvous.
    stored: spin::mutex::SpinMutex<heapless::Vec<(usize, usize), STORES>, Relaxing<Self>>,
    /// The longest synchronisation of all CPUs, in nanoseconds.
    longest: AtomicCount,
    machine: PhantomData<fn() -> M>,
}

impl<M: Machine, const CPUS: usize> Smp<M, CPUS> {
    const fn new() -> Self {
        let stored = spin::mutex::SpinMutex::new(heapless::Vec::new());
        let contexts = spin::Once::new();
        let (rendezvous, longest) = (Rendezvous::new(), AtomicCount::new(0));
        Self { rendezvous, contexts, stored, longest, machine: PhantomData }
    }

    /// Returns whether this CPU is in probe context. Interrupts are off.
    fn is_in_probe(&self) -> bool {
        self.contexts.get().is_some_and(|contexts| contexts.is_in_probe(M::cpu()))
    }

    /// Acknowledges a rendezvous, unless this CPU is in probe context: `sync` must wait until it has left it.
    fn called(&self) {
        if !self.is_in_probe() {
            self.rendezvous.acknowledge(M::cpu());
        }
    }

    /// Synchronises all CPUs. Interrupts are off meanwhile; while it waits, this CPU acknowledges requests of others. Returns
    /// `false` in probe context, where it may not acknowledge, and does nothing.
    fn all_cpus(&self) -> bool {
        M::without_interrupts(|| {
            let refuses = self.is_in_probe();
            if !refuses {
                let (start, wait) = (M::timestamp(), core::hint::spin_loop);
                self.rendezvous.request(M::cpu(), M::cpus(), M::interrupt_others, wait);
                let time = M::timestamp().saturating_sub(start);
                self.longest
                    .fetch_max(Count::try_from(time).unwrap_or(Count::MAX), Ordering::Relaxed);
            }
            !refuses
        })
    }

    /// # Safety
    /// The contract is that of [`Patcher::store`].
    unsafe fn write(address: usize, bytes: &[u8]) {
        M::without_interrupts(|| {
            // SAFETY: the caller guarantees that the bytes are text of a site, as `Patcher::store` requires, and
            // `Machine::writable` returns where they can be written. Interrupts are off.
            unsafe {
                let store = || machine::store(M::writable(address), bytes);
                #[cfg(all(target_arch = "x86_64", target_os = "none"))]
                machine::without_write_protection(store);
                #[cfg(not(all(target_arch = "x86_64", target_os = "none")))]
                store();
                machine::after_store(address, bytes.len());
            }
        });
    }

    /// Stores the present bytes again.
    ///
    /// # Safety
    /// One call of [`write`](Self::write) stored these bytes, and no thread stores other bytes meanwhile.
    unsafe fn write_again(address: usize, length: usize) {
        let text = core::ptr::with_exposed_provenance::<u8>(address);
        let mut bytes = [0; 4];
        for (at, byte) in bytes.iter_mut().enumerate().take(length) {
            // SAFETY: `write` has stored there, so this is mapped text. Volatile, because other code changes text.
            *byte = unsafe { text.add(at).read_volatile() };
        }
        // SAFETY: `write` has stored the same bytes there, and no thread stores others, as `# Safety` requires.
        unsafe { Self::write(address, bytes.get(..length).unwrap_or_default()) };
    }
}

// SAFETY: `Machine` guarantees the numbers of CPUs and `without_interrupts`. A CPU acknowledges in `called` and while it waits in
// `all_cpus`; both check the CPU's flag first and do not acknowledge in probe context, so `sync` waits for every CPU to leave it.
// The rendezvous orders memory both ways.
unsafe impl<M: Machine, const CPUS: usize> Host for Smp<M, CPUS> {
    type Lock = SpinLock<Self>;

    const BUDGET: u32 = M::BUDGET;

    fn cpu(&self) -> usize {
        M::cpu()
    }

    fn cpus(&self) -> usize {
        M::possible()
    }

    fn timestamp(&self) -> u64 {
        M::timestamp()
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        M::without_interrupts(f)
    }

    fn sync(&self) {
        self.all_cpus();
    }

    unsafe fn contexts(&self, contexts: Contexts) {
        self.contexts.call_once(|| contexts);
    }

    fn kernel(&self) -> &(dyn Kernel + Sync) {
        M::kernel()
    }

    fn timers_changed(&self) {
        M::timers_changed();
    }

    fn longest_sync(&self) -> u64 {
        widen(self.longest.load(Ordering::Relaxed))
    }

    fn relax() {
        M::relax();
    }
}

// SAFETY: `machine::store` writes the bytes to the address that `Machine::writable` returns; the rendezvous synchronises every CPU.
// `write_again` stores bytes that are already present.
unsafe impl<M: Machine, const CPUS: usize> Patcher for Smp<M, CPUS> {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        // With the lock held, so that `synchronise` does not store earlier bytes again.
        let store = || {
            let mut stored = self.stored.lock();
            // SAFETY: the caller fulfils the contract of `Patcher::store`, which is that of `write`.
            unsafe { Self::write(address, bytes) };
            stored.push((address, bytes.len())).is_ok()
        };
        if !store() {
            self.synchronise();
            store();
        }
    }

    fn synchronise(&self) {
        // In probe context the stores stay in the list, and the next call synchronises them.
        if !self.all_cpus() {
            return;
        }
        let mut stored = self.stored.lock();
        for &(address, length) in &*stored {
            // SAFETY: `store` has stored these bytes by one `write`, and waits for the lock that is held here.
            unsafe { Self::write_again(address, length) };
        }
        stored.clear();
    }

    fn is_text(&self, address: usize, length: usize) -> bool {
        M::is_text(address, length)
    }

    fn relax(&self) {
        M::relax();
    }
}

/// The reason why tracing did not start. `expect` and `unwrap` print it in words, as [`Display`](fmt::Display) does.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum StartError {
    /// The framework refused the memory.
    Memory(InitError),
    /// There is no room for the provider `dtrace` and its three probes.
    Own(FrameworkError),
    /// The image's probes could not be attached.
    Probes(AttachError),
}

impl From<InitError> for StartError {
    fn from(error: InitError) -> Self {
        Self::Memory(error)
    }
}

impl From<AttachError> for StartError {
    fn from(error: AttachError) -> Self {
        Self::Probes(error)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Own(error) => write!(f, "the provider dtrace cannot be registered: {error}"),
            Self::Probes(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for StartError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Memory(error) => error.source(),
            Self::Own(error) => Some(error),
            Self::Probes(error) => error.source(),
        }
    }
}
