//! The rest of a host, ready-made: for kernels whose text is patched, on one CPU or several.
//!
//! A kernel says in [`Machine`] what only it can know; [`Tracing`] is the framework, its [`Host`], the
//! [`Patcher`] of the kernel's own text and what ties them together. A kernel that wants more say (locks that sleep, text
//! that is written otherwise) implements [`Host`] and [`Patcher`] itself.
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
//! let memory = MEMORY.take().expect("nobody else has taken it");
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
use crate::control::config::{Config, InitError};
use crate::dtrace::Dtrace;
use crate::kernel::{Kernel, Unknown};

/// What only the kernel knows of its machine.
///
/// # Safety
/// - [`cpu`](Self::cpu) and [`without_interrupts`](Self::without_interrupts) are as [`Host`]'s,
///   [`possible`](Self::possible) as [`Host::cpus`].
/// - [`interrupt_others`](Self::interrupt_others) leads to [`Tracing::called`] on every other CPU that is up, in a
///   handler that runs with interrupts off, or as soon as that CPU has them on.
/// - [`writable`](Self::writable) says where the same bytes can be written to, and [`is_text`](Self::is_text) the truth.
pub unsafe trait Machine: Sized + 'static {
    /// Number of the CPU that runs this, from 0. Probe context.
    fn cpu() -> usize;

    /// How many CPUs are up, of which the last has the number before. One that comes later calls [`Tracing::called`] on its
    /// way, once it counts and has its handlers.
    fn cpus() -> usize;

    /// How many CPUs there can be: what is recorded has a buffer for each. Never changes.
    fn possible() -> usize {
        Self::cpus()
    }

    /// Nanoseconds since boot, never running backwards on one CPU; a kernel without a clock counts. Probe context.
    fn timestamp() -> u64;

    /// Runs `f` with interrupts off on this CPU, and leaves them as they were. Probe context.
    fn without_interrupts<R>(f: impl FnOnce() -> R) -> R;

    /// Interrupts all other CPUs that are up. Called with interrupts off, which stay so until all have answered. So it takes no
    /// lock that others hold with interrupts on; and a CPU that waits for answers of others with its own interrupts
    /// off, as kernels do that flush TLBs, calls [`Tracing::called`] while it waits, lest the two wait for each other.
    fn interrupt_others();

    /// Where text at `address` can be written to: an alias in memory that is mapped so. Without one it is written where
    /// it is: on x86_64 it may be read-only there (the store is made with CR0.WP clear), elsewhere not.
    fn writable(address: usize) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(address)
    }

    /// Whether all of these bytes are the kernel's text, if it can tell: see [`Patcher::is_text`].
    fn is_text(address: usize, length: usize) -> bool {
        let _ = (address, length);
        true
    }

    /// What programs in D may ask of this kernel: see [`Host::kernel`]. A [`Readable`](crate::kernel::Readable) lets them read memory, and
    /// with that print a `&str`; without one they know numbers only.
    fn kernel() -> &'static (dyn Kernel + Sync) {
        &Unknown
    }

    /// What is done while one waits for a lock of the framework's. A kernel without time slices lets other threads run here.
    fn relax() {
        core::hint::spin_loop();
    }
}

/// A framework on a [`Machine`] of at most `CPUS` CPUs, and the kernel's probes. Meant to be a `static`.
pub struct Tracing<M: Machine, const CPUS: usize> {
    dtrace: Dtrace<Smp<M, CPUS>>,
    module: &'static CStr,
    attachment: spin::Once<Attachment>,
}

impl<M: Machine, const CPUS: usize> Tracing<M, CPUS> {
    /// One that has not begun. The kernel's probes are listed as those of this module.
    pub const fn new(module: &'static CStr) -> Self {
        Self { dtrace: Dtrace::new(Smp::new()), module, attachment: spin::Once::new() }
    }

    /// Bytes of memory that make room for what is configured, and for so many consumers at a time, with
    /// [buffers](Config::buffer) of the configured size and one enabling each, on the CPUs that
    /// there [can be](Machine::possible).
    pub fn memory(config: &Config, consumers: usize) -> usize {
        config.memory::<Smp<M, CPUS>>(M::possible(), consumers)
    }

    /// Hands memory to the framework ([`Dtrace::init`]), registers D's own [probes](Dtrace::register_own), and attaches the image's
    /// ([`attach`](attach::attach)); sites are patched as the build chose by `SDT_PATCH`. After any error but
    /// [`StartError::Memory`] the framework has its memory, and none of the image's probes.
    ///
    /// For `profile` and `tick` call [`Dtrace::register_profile`] next, and [`Dtrace::tick`] from the timer's interrupt.
    ///
    /// # Safety
    /// As [`attach`](attach::attach): every CPU has its breakpoint handler, and the image is never unloaded.
    ///
    /// # Errors
    /// See [`StartError`].
    pub unsafe fn start(
        &'static self,
        memory: &'static mut [MaybeUninit<u8>],
        config: &Config,
    ) -> Result<&'static Dtrace<Smp<M, CPUS>>, StartError> {
        self.dtrace.init(memory, config)?;
        self.dtrace.register_own().map_err(StartError::Own)?;
        let attachment = self.attachment.call_once(|| Attachment {
            framework: &self.dtrace,
            patcher: self.dtrace.host(),
            mode: Mode::BUILT,
            module: self.module,
        });
        // SAFETY: by contract.
        unsafe { attach::attach(attachment) }?;
        Ok(&self.dtrace)
    }

    /// The framework.
    pub const fn dtrace(&self) -> &Dtrace<Smp<M, CPUS>> {
        &self.dtrace
    }

    /// This CPU's part when another one wants all to have been outside probe context, and to execute text as it is now.
    /// For the handler of [`Machine::interrupt_others`], interrupts off. Costs three loads when nothing is wanted. Does nothing
    /// in probe context: the CPU answers when it has left that.
    pub fn called(&self) {
        self.dtrace.host().called();
    }
}

impl<M: Machine, const CPUS: usize> fmt::Debug for Tracing<M, CPUS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracing").field("module", &self.module).finish_non_exhaustive()
    }
}

/// Stores that are kept until all CPUs have been synchronised.
const STORES: usize = 128;

/// A [`Machine`] as [`Host`] and [`Patcher`].
///
/// What is stored to text is stored once more after each rendezvous, for QEMU's sake: see [`machine`]. A real machine does
/// not mind.
#[derive(Debug)]
pub struct Smp<M: Machine, const CPUS: usize> {
    rendezvous: Rendezvous<CPUS>,
    /// Which CPUs are in probe context, once the framework has its memory.
    contexts: spin::Once<Contexts>,
    /// Addresses and numbers of bytes that were stored since the last rendezvous.
    stored: spin::mutex::SpinMutex<heapless::Vec<(usize, usize), STORES>, Relaxing<Self>>,
    machine: PhantomData<fn() -> M>,
}

impl<M: Machine, const CPUS: usize> Smp<M, CPUS> {
    const fn new() -> Self {
        let stored = spin::mutex::SpinMutex::new(heapless::Vec::new());
        let contexts = spin::Once::new();
        Self { rendezvous: Rendezvous::new(), contexts, stored, machine: PhantomData }
    }

    /// Whether this CPU is in probe context. Interrupts are off.
    fn is_in_probe(&self) -> bool {
        self.contexts.get().is_some_and(|contexts| contexts.is_in_probe(M::cpu()))
    }

    /// Takes part in a rendezvous, unless this CPU is in probe context: who waits for it to leave that would go on.
    fn called(&self) {
        if !self.is_in_probe() {
            self.rendezvous.acknowledge(M::cpu());
        }
    }

    /// Returns `true` when all CPUs have taken part. The caller stays on its CPU meanwhile, as its interrupts are off; it
    /// answers others while it waits. In probe context it may not answer, so nothing is done.
    fn all_cpus(&self) -> bool {
        M::without_interrupts(|| {
            let refuses = self.is_in_probe();
            if !refuses {
                let wait = core::hint::spin_loop;
                self.rendezvous.request(M::cpu(), M::cpus(), M::interrupt_others, wait);
            }
            !refuses
        })
    }

    /// # Safety
    /// As [`Patcher::store`].
    unsafe fn write(address: usize, bytes: &[u8]) {
        M::without_interrupts(|| {
            // SAFETY: the contract of this function and that of `Machine`; interrupts are off.
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

    /// Stores what is there to where it is.
    ///
    /// # Safety
    /// These bytes were stored by [`write`](Self::write), together, and nobody stores others meanwhile.
    unsafe fn write_again(address: usize, length: usize) {
        let text = core::ptr::with_exposed_provenance::<u8>(address);
        let mut bytes = [0; 4];
        for (at, byte) in bytes.iter_mut().enumerate().take(length) {
            // SAFETY: by contract text. Volatile, because it changes behind the compiler's back.
            *byte = unsafe { text.add(at).read_volatile() };
        }
        // SAFETY: by contract.
        unsafe { Self::write(address, bytes.get(..length).unwrap_or_default()) };
    }
}

// SAFETY: by the contract of `Machine`. A CPU acknowledges in `called` and while it waits in `all_cpus`; both look at the flag of
// the CPU first, and do not acknowledge in probe context. The rendezvous orders memory both ways.
unsafe impl<M: Machine, const CPUS: usize> Host for Smp<M, CPUS> {
    type Lock = SpinLock<Self>;

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

    fn relax() {
        M::relax();
    }
}

// SAFETY: bytes go where they belong, as `machine::store` does it; a rendezvous synchronises every CPU. What is stored again is
// there already.
unsafe impl<M: Machine, const CPUS: usize> Patcher for Smp<M, CPUS> {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        // Locked, lest somebody stores again what was here before.
        let store = || {
            let mut stored = self.stored.lock();
            // SAFETY: the contract of this function.
            unsafe { Self::write(address, bytes) };
            stored.push((address, bytes.len())).is_ok()
        };
        if !store() {
            self.synchronise();
            store();
        }
    }

    fn synchronise(&self) {
        // What was stored in vain is synchronised with what is stored next.
        if !self.all_cpus() {
            return;
        }
        let mut stored = self.stored.lock();
        for &(address, length) in &*stored {
            // SAFETY: `store` has stored there, and stores nothing meanwhile.
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

/// Why tracing did not start.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The framework did not take the memory.
    Memory(InitError),
    /// There is no room for D's own provider and its three probes.
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
            Self::Own(error) => write!(f, "no room for the provider dtrace: {error}"),
            Self::Probes(error) => error.fmt(f),
        }
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
