//! The facade: all functions of a framework. Each refuses in probe context, unless it states otherwise.

use core::ffi::{CStr, c_void};
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::sync::atomic::AtomicU32;

use dtrace_abi::System;
use dtrace_abi::record::{EprobeDesc, RecordDesc};
use dtrace_abi::spec::Spec;
use sdt_core::arg::Borrows;
use sdt_core::ops::{
    ARGS, ArgDesc, Framework, FrameworkError, Privileges, ProbeId, ProviderAttr, ProviderId,
    ProviderOps,
};

use crate::base::context::ProbeContext;
use crate::base::counters::Counters;
use crate::base::host::Host;
use crate::base::rights::Rights;
use crate::control::Control;
use crate::control::config::{Config, InitError};
use crate::control::error::ConsumerError;
use crate::control::functions::{FunctionError, FunctionSite, FunctionText, Registers};
use crate::control::halt::Held;
use crate::control::query::{AggregationDesc, Snapshot, Status, Which};
use crate::control::tracer::Tracer;
use crate::kernel::{ModuleText, Symbol};
use crate::registry::listing::{Detail, ProbeInfo};
use crate::run::consumer::ConsumerId;
use crate::run::fire::Args;
use crate::run::live_id::with_live_id;

/// The largest number of arguments that a provider describes (libdtrace's `_dtrace_argmax`).
const MAX_ARGS: i32 = 32;

/// A tracing framework: providers and their probes, consumers and their enablings, and the buffers
/// between them.
///
/// Put it into a `static`. The host provides all memory at boot, with [`init`](Self::init). Before that, no provider can register
/// and no consumer can open it.
///
/// All functions except [`probe`](Self::probe), [`probe5`](Self::probe5), [`tick`](Self::tick), [`sample`](Self::sample),
/// [`function_hit`](Self::function_hit), [`function_skip`](Self::function_skip), [`is_function_site`](Self::is_function_site),
/// [`count_stray`](Self::count_stray), [`counters`](Self::counters), [`late_timers`](Self::late_timers), [`host`](Self::host),
/// [`suspend`](Self::suspend) and [`resume`](Self::resume) take [locks](Host::Lock) of the host. Threads with interrupts on call
/// them. In probe context they refuse with [`ProbeContext`], or return `None` if they return an `Option`. The host must not call
/// them in an interrupt handler. `docs/kernels.md` of the project lists every function.
///
/// | purpose | functions |
/// |---|---|
/// | boot, memory and counters | [`new`](Self::new), [`init`](Self::init), [`share_memory`](Self::share_memory); [`host`](Self::host), [`memory_left`](Self::memory_left), [`counters`](Self::counters) |
/// | its own providers | [`register_own`](Self::register_own): `dtrace`; [`register_profile`](Self::register_profile), [`tick`](Self::tick): `profile` |
/// | functions that consumers send | [`register_functions`](Self::register_functions): `fbt`; [`add_function`](Self::add_function), [`function_hit`](Self::function_hit) |
/// | providers and their probes | [`register`](Framework::register), [`probe_create`](Framework::probe_create), [`providing`](Self::providing), [`probe_lookup`](Self::probe_lookup), [`probe_arg`](Self::probe_arg), [`condense`](Self::condense), [`invalidate`](Self::invalidate), [`unregister`](Self::unregister) |
/// | … of loaded modules | [`module_loaded`](Self::module_loaded), [`destroy_module`](Self::destroy_module) |
/// | listing probes | [`for_each_probe`](Self::for_each_probe), [`describe`](Self::describe), [`arg_descs`](Self::arg_descs) |
/// | a probe fires | [`probe`](Self::probe), [`probe5`](Self::probe5), [`hit`](Framework::hit) |
/// | consumers | [`open`](Self::open), [`open_with`](Self::open_with), [`close`](Self::close) |
/// | … enables probes | [`enable`](Self::enable), [`disable`](Self::disable) |
/// | … sends programs | [`set_option`](Self::set_option), [`enable_program`](Self::enable_program), [`program_piece`](Self::program_piece) |
/// | … starts and stops | [`go`](Self::go), [`stop`](Self::stop) |
/// | … reads records | [`status`](Self::status), [`snapshot`](Self::snapshot), [`eprobe`](Self::eprobe), [`aggregation`](Self::aggregation), [`format`](Self::format) |
/// | tracing before there is a consumer | [`enable_anonymously`](Self::enable_anonymously), [`claim`](Self::claim), [`close_anonymous`](Self::close_anonymous) |
/// | a debugger stops the machine | [`suspend`](Self::suspend), [`resume`](Self::resume) |
/// | the host is copied, or ends | [`try_hold`](Self::try_hold), [`end_runs`](Self::end_runs), [`started_consumers`](Self::started_consumers) |
pub struct Dtrace<H: Host>(Control<H>);

/// # Boot
///
/// The framework gets its memory, and reports what it counts.
impl<H: Host> Dtrace<H> {
    /// Creates a framework without memory.
    pub const fn new(host: H) -> Self {
        Self(Control::new(host))
    }

    /// Provides the memory, of any size that is enough for the tables of this configuration. The rest is for buffers. The host's
    /// [`cpus`](Host::cpus) must not change afterwards.
    ///
    /// [`Config::memory`] computes a good size. [`Memory`](crate::Memory) is a static for hosts without other memory.
    ///
    /// # Errors
    /// See [`InitError`].
    pub fn init(
        &self,
        memory: &'static mut [MaybeUninit<u8>],
        config: &Config,
    ) -> Result<(), InitError> {
        self.0.init(memory, config)
    }

    /// Returns the host.
    pub const fn host(&self) -> &H {
        &self.0.hits.host
    }

    /// Returns the free bytes for buffers and retained enablings. They can be in several pieces.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn memory_left(&self) -> Result<usize, ProbeContext> {
        self.0.need_thread()?;
        Ok(self.0.memory_left())
    }

    /// Limits the bytes that all buffers of one consumer take together, so that memory is left for other consumers. The limit
    /// applies to buffers that may be made smaller (`bufresize=auto`, the default), not to consumers with `manual`.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn share_memory(&self, bytes: usize) -> Result<(), ProbeContext> {
        self.0.need_thread()?;
        self.0.share_memory(bytes);
        Ok(())
    }

    /// Counts a hit that the host cannot record, for example because its stack is nearly full, in [`Counters::stray`]. The host calls this
    /// instead of [`probe`](Self::probe) or `hit`. Uses little stack. Callable anywhere.
    pub fn count_stray(&self) {
        self.0.count_stray();
    }

    /// Returns the counters. Callable anywhere. They are read one after the other, while CPUs continue to count.
    pub fn counters(&self) -> Counters {
        self.0.counters()
    }
}

// SAFETY: the registry calls ops with the pointers of their provider and with the locks that their contexts require, and not after
// `unregister`. Ids are checked.
unsafe impl<H: Host> Framework for Dtrace<H> {
    /// Registers the provider and calls its op `provide` for all its probes. Several providers may have one name, as on
    /// FreeBSD. The rules are in [`registration`](crate::registration); [`check`](crate::registration::check) returns the broken
    /// rule.
    unsafe fn register(
        &self,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
        ops: &ProviderOps,
        arg: *mut c_void,
    ) -> Result<ProviderId, FrameworkError> {
        self.0.need_thread()?;
        // SAFETY: the caller fulfils the contract of `Framework::register`.
        unsafe { self.0.register(name, attr, privileges, ops, arg) }
    }

    unsafe fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        Self::unregister(self, provider)
    }

    unsafe fn invalidate(&self, provider: ProviderId) {
        // Refused in probe context, where `unregister` is refused, too.
        let _ = Self::invalidate(self, provider);
    }

    unsafe fn condense(&self, provider: ProviderId) {
        // A provider that is not registered has no probes.
        let _ = Self::condense(self, provider);
    }

    unsafe fn probe_lookup(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        Self::probe_lookup(self, provider, module, function, name)
    }

    /// Creates a probe. Ids count up from 1 and are reused as late as possible. As in the kernels, two probes may have the same
    /// four names: look up first. If a retained enabling matches the probe, the provider's `enable` is called before this
    /// returns, or, during the op `provide`, after that op.
    ///
    /// # Errors
    /// Those of the trait, and [`FrameworkError::Invalid`] for a name that is too long, which the kernels accept and truncate in
    /// listings.
    unsafe fn probe_create(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        self.0.need_thread()?;
        self.0.probe_create(provider, [module, function, name], aframes, parg)
    }

    unsafe fn hit(&self, id: &AtomicU32, args: &[u64; ARGS], _: Borrows) {
        let record = |id| self.0.record(id, Args::All(args));
        with_live_id(&self.0.hits.host, id, record, || self.0.hits.overtaken());
    }
}

/// # The provider `dtrace`
///
/// `BEGIN`, `END` and `ERROR`, for kernels whose consumers send programs.
impl<H: Host> Dtrace<H> {
    /// Registers the provider `dtrace`: `BEGIN` fires when a consumer starts, `END` when it stops, and `ERROR` when a fault stops
    /// one of its clauses. If this is called right after [`init`](Self::init), their ids are 1, 2 and 3, as in DTrace. Call it
    /// if consumers send programs.
    ///
    /// # Errors
    /// [`FrameworkError::Busy`] if the probes exist, or another thread is registering them; [`FrameworkError::Full`] without room
    /// for three probes with consecutive ids; [`FrameworkError::NotReady`]; [`FrameworkError::ProbeContext`].
    pub fn register_own(&self) -> Result<(), FrameworkError> {
        self.0.need_thread()?;
        self.0.register_own()
    }
}

/// # The provider `profile`
///
/// Probes that fire by the clock, for hosts that have a timer.
impl<H: Host> Dtrace<H> {
    /// Registers the provider `profile`, with room for this number of probes of different rates. A probe is created when a
    /// consumer names it; without room, it replaces one that no consumer has enabled. With room for more than thirteen, the
    /// thirteen usual probes exist from the beginning. The shortest interval is 200 microseconds.
    ///
    /// They fire in [`tick`](Self::tick), which the host calls from then on.
    ///
    /// # Errors
    /// [`FrameworkError::Busy`] if the provider exists, or another thread is registering it; [`FrameworkError::Full`] and
    /// [`FrameworkError::NotReady`]; [`FrameworkError::ProbeContext`].
    pub fn register_profile(&'static self, timers: usize) -> Result<(), FrameworkError> {
        self.0.need_thread()?;
        self.0.register_profile(timers)
    }

    /// Fires the due probes of `profile` on this CPU. The arguments are the interrupted program counter in the kernel and in a
    /// process; one of them is 0. `profile-N` fires on every CPU that calls this, `tick-N` on CPU 0. Returns the time of the
    /// next call on this CPU in nanoseconds since boot, or `None` if nothing is enabled: then the host calls this again after
    /// [`timers_changed`](Host::timers_changed). A host with a periodic timer can call it at each interrupt instead.
    ///
    /// Probe context: for the interrupt handler of the timer, or a thread that represents the CPU.
    pub fn tick(&self, kernel_pc: u64, process_pc: u64) -> Option<u64> {
        self.0.tick(kernel_pc, process_pc)
    }

    /// Fires the probe `profile-N` of the timer with this number, which [`Host::sample_threads`] has received, in the sampled
    /// thread. The arguments are the interrupted program counter in the kernel and in a process, one of them 0, and the
    /// nanoseconds by which the sample is late. Does nothing if the probe was disabled meanwhile.
    ///
    /// Probe context: for an interrupt or signal handler of the thread.
    pub fn sample(&self, timer: usize, kernel_pc: u64, process_pc: u64, late: u64) {
        self.0.sample(timer, kernel_pc, process_pc, late);
    }

    /// Returns the number of enabled timers that are overdue by two seconds on every CPU on which they fire, or on a CPU that has
    /// recorded a hit: the host does not call [`tick`](Self::tick) when or where it should. `dtrace` prints a message then.
    /// Callable anywhere.
    pub fn late_timers(&self) -> u32 {
        self.0.late_timers()
    }
}

/// # The provider `fbt`
///
/// Probes at entries and returns of the kernel's functions, for hosts that allow consumers to send functions.
impl<H: Host> Dtrace<H> {
    /// Registers the provider `fbt`, and lets consumers with the [right](Rights::with_functions) trace functions of this text,
    /// with room for this number of sites. A site takes at most 64 bytes; its probe is one of [`Config::probes`]. The entry of a
    /// function is one site, and each instruction that leaves it another one.
    ///
    /// From then on the kernel's breakpoint handler calls [`function_hit`](Self::function_hit) for breakpoints that are not those
    /// of `sdt-core`.
    ///
    /// # Errors
    /// [`FrameworkError::Invalid`] for text without a build ID, and on architectures without an emulator;
    /// [`FrameworkError::Busy`] if the provider exists, or another thread is registering it; [`FrameworkError::Full`] and
    /// [`FrameworkError::NotReady`]; [`FrameworkError::ProbeContext`].
    pub fn register_functions(
        &'static self,
        text: &'static dyn FunctionText,
        sites: usize,
    ) -> Result<(), FrameworkError> {
        self.0.need_thread()?;
        self.0.register_functions(text, sites)
    }

    /// Creates a probe for an instruction at the boundary of a function, which a consumer sends; `build_id` is that of the file
    /// that the consumer has read. The probe is destroyed after all consumers that have sent it or enabled it are closed.
    ///
    /// # Errors
    /// See [`FunctionError`].
    pub fn add_function(
        &self,
        consumer: ConsumerId,
        build_id: &[u8],
        site: &FunctionSite<'_>,
    ) -> Result<(), FunctionError> {
        self.0.need_thread().map_err(ConsumerError::from)?;
        self.0.adding_functions(|| self.0.add_function(consumer, build_id, site))
    }

    /// Removes all sites whose address in memory is in a range: for hosts that are about to unload text, such as that of a module. Restores
    /// the text, and returns when no CPU uses these sites any more. Probes that have no other sites remain until their consumers
    /// close. Before the call, [`FunctionText::is_traceable`] must have become false for this text.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn remove_functions(&self, range: Range<u64>) -> Result<(), ProbeContext> {
        self.0.need_thread()?;
        self.0.remove_functions(&range);
        Ok(())
    }

    /// Emulates the instruction that a breakpoint has replaced, like [`function_hit`](Self::function_hit), but does not record the hit, and
    /// counts it as stray: for hosts that cannot record a hit here, for example because the breakpoint is in a function that the host
    /// itself has called to record another hit.
    ///
    /// Probe context.
    ///
    /// # Safety
    /// The contract of [`function_hit`](Self::function_hit).
    pub unsafe fn function_skip(&self, registers: &mut Registers) -> bool {
        // SAFETY: the caller's contract.
        unsafe { self.0.function_skip(registers) }
    }

    /// Emulates the instruction that a breakpoint has replaced, like [`function_hit`](Self::function_hit), but neither records nor counts the
    /// hit: for threads of the host that are not traced, such as the one that serves consumers.
    ///
    /// Probe context.
    ///
    /// # Safety
    /// The contract of [`function_hit`](Self::function_hit).
    pub unsafe fn function_emulate(&self, registers: &mut Registers) -> bool {
        // SAFETY: the caller's contract.
        unsafe { self.0.function_emulate(registers) }
    }

    /// Returns whether a breakpoint at this address can be the framework's, so that [`function_hit`](Self::function_hit) would emulate
    /// the instruction there. Probe context.
    pub fn is_function_site(&self, address: u64) -> bool {
        self.0.is_function_site(address)
    }

    /// Records the hit of a breakpoint in a function, and emulates the instruction that the breakpoint has replaced: it changes
    /// the registers and the stack of the interrupted code. Returns `false`, and does nothing, if no consumer traces a function
    /// here; then the breakpoint is not the framework's.
    ///
    /// Probe context: for the breakpoint handler, with interrupts off. The program counter in `registers` is the address of the
    /// breakpoint; on x86_64 the exception has saved the address of the next byte. The handler resumes with all registers as
    /// they are then, including the stack pointer and the flags.
    ///
    /// # Safety
    /// `registers` are those of code that a breakpoint on this CPU has interrupted, and the handler resumes with them. The
    /// handler fulfils the contract of the [text](FunctionText) that was registered.
    pub unsafe fn function_hit(&self, registers: &mut Registers) -> bool {
        // SAFETY: the caller's contract.
        unsafe { self.0.function_hit(registers) }
    }

    /// Records the hit of a function without a breakpoint: for a host whose sites [jump](FunctionText::offer) to its code. Does nothing if
    /// no consumer traces a function here.
    ///
    /// Probe context, with interrupts off. The program counter in `registers` is the address of the site. The registers of arguments and of the result have the
    /// values of the code there.
    pub fn function_record(&self, registers: &Registers) {
        self.0.function_record(registers);
    }
}

/// # Providers and their probes
///
/// These functions complement [`register`](Framework::register) and [`probe_create`](Framework::probe_create) of the trait
/// [`Framework`].
impl<H: Host> Dtrace<H> {
    /// Calls `f`, which creates probes, and then enables them for all enablings that match them. So the provider is not called
    /// to enable a probe before `f` has returned. The framework calls `provide` ops in this way.
    ///
    /// # Errors
    /// [`ProbeContext`]: `f` was not called.
    pub fn providing<R>(&self, f: impl FnOnce() -> R) -> Result<R, ProbeContext> {
        self.0.need_thread()?;
        Ok(self.0.providing(f))
    }

    /// Unregisters the provider. After the return, its probes do not exist, no CPU is in probe context for any of them, and
    /// `destroy` has been called for each.
    ///
    /// As on FreeBSD, this is [`Busy`](FrameworkError::Busy) while any consumer is open, even one that enabled no probe of
    /// this provider. A provider that was [invalidated](Self::invalidate) can unregister while consumers are open, after its
    /// enablings have been removed ([`Again`](FrameworkError::Again) until then).
    ///
    /// # Errors
    /// [`FrameworkError::Busy`] and [`FrameworkError::Again`] as above, [`FrameworkError::NotFound`] if there is no such provider, and [`FrameworkError::ProbeContext`].
    pub fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        self.0.need_thread()?;
        self.0.unregister(provider)
    }

    /// Returns the id of the provider's probe with exactly these names. `None` for an invalidated provider, and in
    /// [probe context](ProbeContext).
    pub fn probe_lookup(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        self.0.need_thread().ok()?;
        self.0.probe_lookup(provider, module, function, name)
    }

    /// Invalidates a provider (`dtrace_invalidate`): descriptions do not match its probes any more, so no consumer can enable
    /// them, and its op `provide` is not called. Consumers that have enabled its probes keep their enablings until they close,
    /// and other ops are called until it is [unregistered](Self::unregister). Does nothing if there is no such provider.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn invalidate(&self, provider: ProviderId) -> Result<(), ProbeContext> {
        self.0.need_thread()?;
        self.0.invalidate(provider);
        Ok(())
    }

    /// Destroys the probes of a provider that no consumer has enabled (`dtrace_condense`). Returns their number.
    ///
    /// # Errors
    /// [`FrameworkError::NotFound`] when there is no such provider; [`FrameworkError::ProbeContext`].
    pub fn condense(&self, provider: ProviderId) -> Result<usize, FrameworkError> {
        self.0.need_thread()?;
        self.0.condense(provider)
    }

    /// Returns the pointer with which a probe of the provider was created (`dtrace_probe_arg`). `None` for a probe of another
    /// provider, and in [probe context](ProbeContext).
    pub fn probe_arg(&self, provider: ProviderId, id: ProbeId) -> Option<*mut c_void> {
        self.0.need_thread().ok()?;
        self.0.probe_arg(provider, id)
    }

    /// Calls the op `provide_module` of every provider for a module that was loaded (`dtrace_module_loaded`).
    ///
    /// # Safety
    /// `module` is the pointer that the registered providers expect (FreeBSD's `linker_file_t`).
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub unsafe fn module_loaded(&self, module: *mut c_void) -> Result<(), ProbeContext> {
        self.0.need_thread()?;
        // SAFETY: the caller guarantees that the providers expect this pointer.
        unsafe { self.0.module_loaded(module) };
        Ok(())
    }

    /// Destroys all probes, of any provider, with this module name, before the module is unloaded (`dtrace_module_unloaded`; on
    /// FreeBSD the name is that of the file without `.ko`). Returns their number.
    ///
    /// # Errors
    /// [`FrameworkError::Busy`] if one of them is enabled; [`FrameworkError::ProbeContext`]. Nothing was changed.
    pub fn destroy_module(&self, module: &CStr) -> Result<usize, FrameworkError> {
        self.0.need_thread()?;
        self.0.destroy_module(module)
    }
}

/// # Listing probes
///
/// Of all providers.
impl<H: Host> Dtrace<H> {
    /// Calls `f` for every probe that the description matches, in the order of ids, and returns their number. First, the ops
    /// `provide` are called for the description. No lock is held while `f` runs, so probes can be created and destroyed
    /// meanwhile.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn for_each_probe(
        &self,
        spec: &Spec,
        f: impl FnMut(&ProbeInfo),
    ) -> Result<u32, ProbeContext> {
        self.0.need_thread()?;
        Ok(self.0.for_each_probe(spec, f))
    }

    /// Returns the names and stability of a probe. `None` if it does not exist, and in [probe context](ProbeContext).
    pub fn describe(&self, id: ProbeId) -> Option<Detail> {
        self.0.need_thread().ok()?;
        self.0.describe(id)
    }

    /// Returns the types of all arguments of a probe, in order and, as libdtrace does, at most 32. Empty in
    /// [probe context](ProbeContext).
    pub fn arg_descs(&self, id: ProbeId) -> impl Iterator<Item = ArgDesc> {
        (0..MAX_ARGS).map_while(move |ndx| self.arg_desc(id, ndx, Rights::ALL))
    }
}

/// # A probe fires
///
/// Providers call these functions. Sites call [`hit`](sdt_core::ops::Framework::hit) of the
/// [`Framework`](sdt_core::ops::Framework). All of it is probe context.
impl<H: Host> Dtrace<H> {
    /// Fires a probe with all its arguments, at most ten.
    ///
    /// Probe context: callable anywhere, with interrupts off and any lock held. An `id` that no probe has is counted as
    /// unknown.
    pub fn probe<const COUNT: usize>(&self, id: ProbeId, args: &[u64; COUNT]) {
        const { assert!(COUNT <= ARGS, "a probe can have at most 10 arguments") };
        let mut all = [0; ARGS];
        all.iter_mut().zip(args).for_each(|(place, arg)| *place = *arg);
        self.0.hits.host.without_interrupts(|| self.0.record(id.get(), Args::All(&all)));
    }

    /// Fires a probe with five arguments, like the kernels' `dtrace_probe`. If a program uses the sixth to the tenth, the
    /// framework calls the provider's `getargval` for each, with the `aframes` of the probe; without `getargval` they are 0.
    ///
    /// Probe context, like [`probe`](Self::probe). An `id` that no probe has is counted as unknown.
    ///
    /// # Safety
    /// If the probe's provider has a `getargval`, the provider itself makes this hit.
    pub unsafe fn probe5(&self, id: u32, args: [u64; 5]) {
        self.0.hits.host.without_interrupts(|| self.0.record(id, Args::Five(&args)));
    }
}

/// # Consumers open and close
impl<H: Host> Dtrace<H> {
    /// Opens the framework for one more consumer, which has all rights.
    ///
    /// # Errors
    /// Those of [`open_with`](Self::open_with).
    pub fn open(&self) -> Result<ConsumerId, ConsumerError> {
        self.open_with(Rights::ALL)
    }

    /// Opens the framework for one more consumer with these rights. While a consumer is open, no provider can unregister.
    ///
    /// # Errors
    /// [`ConsumerError::TooManyConsumers`], [`ConsumerError::NoMemory`], [`ConsumerError::NotReady`];
    /// [`ConsumerError::NotPermitted`] without any right to trace.
    pub fn open_with(&self, rights: Rights) -> Result<ConsumerId, ConsumerError> {
        self.0.need_thread()?;
        self.0.open_with(rights)
    }

    /// Closes a consumer: removes its enablings, disables probes that no other consumer has enabled, and frees its memory with all
    /// records in it.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn close(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        self.0.need_thread()?;
        self.0.close(id)
    }
}

/// # A consumer enables probes
///
/// The clause records the arguments of the probes: [`snapshot`](Self::snapshot) reads the records, and
/// [`records`](crate::records) decodes them.
impl<H: Host> Dtrace<H> {
    /// Enables all probes that the description matches and the consumer [may use](crate::Rights), with the clause
    /// `{ trace(arg0); ... trace(arg9); }`. Returns their number, which may be 0. This is possible at any time, unless the
    /// consumer has started with programs only. A consumer that has enabled any before it starts does not time out.
    ///
    /// The enabling is retained: it also enables probes that are created later, until the consumer closes or
    /// [disables](Self::disable) them.
    ///
    /// Each call is a separate enabling, like each clause of a D program: a probe that one consumer enables twice makes two
    /// records. The provider's `enable` is called for the first enabling of a probe; as on FreeBSD, its result is ignored.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`], [`ConsumerError::Started`]; after [`ConsumerError::TooManyEnablings`] and
    /// [`ConsumerError::NoMemory`] nothing is enabled.
    pub fn enable(&self, id: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError> {
        self.0.need_thread()?;
        self.0.enable(id, spec)
    }

    /// Removes all enablings of the consumer on probes that the description matches. Returns the number of these probes. The
    /// provider's `disable` is called for the last enabling of a probe. After the return no CPU records for these enablings.
    ///
    /// Retained enablings with exactly this description do not enable further probes; with [`Spec::ALL`], no retained
    /// enabling does.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn disable(&self, id: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError> {
        self.0.need_thread()?;
        self.0.disable(id, spec)
    }
}

/// # A consumer sends options and programs
///
/// It does so before it [starts](Self::go).
impl<H: Host> Dtrace<H> {
    /// Sets an option of a consumer by its number (`DTRACEOPT_*`), before it starts. Options that only concern the consumer
    /// itself are accepted and ignored.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`], [`ConsumerError::Started`], [`ConsumerError::BadOption`]; [`ConsumerError::NotPermitted`] for
    /// `destructive`.
    pub fn set_option(&self, id: ConsumerId, option: u32, value: i64) -> Result<(), ConsumerError> {
        self.0.need_thread()?;
        self.0.set_option(id, option, value)
    }

    /// Returns the first option with at least this number that the consumer or a program has set, and its value. Works also for
    /// an [anonymous](Self::enable_anonymously) consumer, and after `stop`.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn next_option(
        &self,
        id: ConsumerId,
        from: u32,
    ) -> Result<Option<(u32, i64)>, ConsumerError> {
        self.0.need_thread()?;
        self.0.next_option(id, from)
    }

    /// Receives a piece of a program in DOF. Pieces arrive in order; the first one discards an incomplete program. After the
    /// last one the program is [enabled](Self::enable_program).
    ///
    /// # Errors
    /// Those of [`enable_program`](Self::enable_program); the pieces are discarded.
    pub fn program_piece(
        &self,
        id: ConsumerId,
        size: usize,
        at: usize,
        piece: &[u8],
    ) -> Result<Option<u32>, ConsumerError> {
        self.0.need_thread()?;
        self.0.program_piece(id, size, at, piece)
    }

    /// Validates a program in DOF, sets its options, and enables its clauses, before the consumer starts. Returns the number of
    /// enabled probes (ECBs) of its clauses, which may be 0. The enablings are retained, like those of [`enable`](Self::enable).
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`], [`ConsumerError::Started`], [`ConsumerError::Program`],
    /// [`ConsumerError::BadOption`], [`ConsumerError::TooManyEnablings`], [`ConsumerError::NoMemory`]; nothing of the program
    /// is enabled then.
    pub fn enable_program(&self, id: ConsumerId, dof: &[u8]) -> Result<u32, ConsumerError> {
        self.0.need_thread()?;
        self.0.enable_program(id, dof)
    }
}

/// # A consumer starts and stops
///
/// Its clauses run from start to stop.
impl<H: Host> Dtrace<H> {
    /// Starts recording for the consumer. The first start allocates the buffers that its clauses and options require.
    /// `dtrace:::BEGIN` has fired for it before the return.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`]; [`ConsumerError::NoMemory`]: [options](Self::set_option) choose other sizes;
    /// [`ConsumerError::SmallBuffer`] if a buffer of the chosen size holds no record.
    pub fn go(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        self.0.need_thread()?;
        self.0.start(id).map(drop)
    }

    /// Stops recording. `dtrace:::END` has fired before the return, and no CPU writes for the consumer any more, so snapshots
    /// are complete. Enablings and buffers remain.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn stop(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        self.0.need_thread()?;
        self.0.stop(id).map(drop)
    }
}

/// # A consumer reads records
///
/// Also the descriptions of the records.
impl<H: Host> Dtrace<H> {
    /// Describes an enabled probe of a consumer and the data of its records (`DTRACEIOC_EPROBE`). Writes the descriptions after
    /// the first `skip`, as many as fit. `None` if the consumer has no enabled probe with this number.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn eprobe(
        &self,
        id: ConsumerId,
        epid: u32,
        skip: usize,
        into: &mut [RecordDesc],
    ) -> Result<Option<EprobeDesc>, ConsumerError> {
        self.0.need_thread()?;
        self.0.eprobe(id, epid, skip, into)
    }

    /// Describes the tuples of an aggregation of a consumer (`DTRACEIOC_AGGDESC`): the number of its variable, the keys, the
    /// value. Writes the descriptions after the first `skip`, as many as fit. `None` if the consumer has no aggregation with
    /// this number.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn aggregation(
        &self,
        id: ConsumerId,
        aggregation: u32,
        skip: usize,
        into: &mut [RecordDesc],
    ) -> Result<Option<AggregationDesc>, ConsumerError> {
        self.0.need_thread()?;
        self.0.aggregation(id, aggregation, skip, into)
    }

    /// Reads the text of a format of a consumer's programs, beginning at byte `at`. Returns the number of bytes. `None` if there
    /// is no format with this number, which counts from 1.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn format(
        &self,
        id: ConsumerId,
        number: u16,
        at: usize,
        into: &mut [u8],
    ) -> Result<Option<usize>, ConsumerError> {
        self.0.need_thread()?;
        self.0.format(id, number, at, into)
    }

    /// Reads a buffer of a consumer on one CPU, beginning at byte `at`, and returns its size (`DTRACEIOC_BUFSNAP`,
    /// `DTRACEIOC_AGGSNAP`). With `at` 0 the buffer is switched: recording continues in an empty one, and the full one can be
    /// read, with other offsets, until the next switch. Buffers with the policies `fill` and `ring` are not switched, and can
    /// be read after the consumer has stopped.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`], [`ConsumerError::NoCpu`]; [`ConsumerError::Started`] for a buffer that can be read only after
    /// the stop.
    pub fn snapshot(
        &self,
        id: ConsumerId,
        cpu: usize,
        which: Which,
        at: usize,
        into: &mut [u8],
    ) -> Result<Snapshot, ConsumerError> {
        self.0.need_thread()?;
        self.0.snapshot(id, cpu, which, at, into)
    }

    /// Returns the drops and errors of a consumer's programs (`DTRACEIOC_STATUS`). It also shows that the consumer is alive: a
    /// consumer times out after 30 seconds without a call. Frees removed dynamic variables.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn status(&self, id: ConsumerId) -> Result<Status, ConsumerError> {
        self.0.need_thread()?;
        self.0.status(id)
    }
}

/// # Tracing before there is a consumer
///
/// From boot on, for a later consumer (`dtrace -A`, `dtrace -a`).
impl<H: Host> Dtrace<H> {
    /// Enables a program in DOF and starts it for an anonymous consumer. Call it at boot, after
    /// [`register_own`](Self::register_own) and before providers register, so that the first hit of their probes is traced. The
    /// options are those in the DOF; with `bufpolicy` `ring` the latest records are kept, otherwise the first. The consumer does
    /// not time out. Returns the number of probes (ECBs) that are enabled already.
    ///
    /// As with any open consumer, no provider can unregister until the consumer is [claimed](Self::claim) and closed. Until
    /// then, the host calls [`clean_anonymous`](Self::clean_anonymous) from time to time.
    ///
    /// # Errors
    /// [`ConsumerError::Started`] if there is an anonymous consumer already; those of [`open`](Self::open),
    /// [`enable_program`](Self::enable_program) and [`go`](Self::go).
    pub fn enable_anonymously(&self, dof: &[u8]) -> Result<u32, ConsumerError> {
        self.0.need_thread()?;
        self.0.enable_anonymously(dof)
    }

    /// Frees removed dynamic variables and finished speculations of the anonymous consumer, which otherwise take all its memory
    /// after a while. Returns whether there is an anonymous consumer. A thread of the host calls it from time to time until the
    /// consumer is claimed; then requests for its [status](Self::status) do the same. (In DTrace the kernel cleans `cleanrate`
    /// times a second.)
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn clean_anonymous(&self) -> Result<bool, ProbeContext> {
        self.0.need_thread()?;
        Ok(self.0.clean_anonymous())
    }

    /// Closes the [anonymous](Self::enable_anonymously) consumer, for a host that is about to end.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn close_anonymous(&self) -> Result<(), ProbeContext> {
        self.0.need_thread()?;
        self.0.close_anonymous();
        Ok(())
    }

    /// Returns the [anonymous](Self::enable_anonymously) consumer, once, and gives it these rights. From here on it is an
    /// ordinary consumer, which has to request its [status](Self::status) from time to time, and has to be closed. Its records
    /// contain kernel data, so this returns `None` without [`Rights::kernel`]. `None` also in [probe context](ProbeContext).
    pub fn claim(&self, rights: Rights) -> Option<ConsumerId> {
        self.0.need_thread().ok()?;
        self.0.claim(rights)
    }
}

/// # The machine stops, or the host is copied or ends
///
/// For kernels with a debugger, and for hosts that are processes.
impl<H: Host> Dtrace<H> {
    /// Calls the `suspend` op of every enabled probe (`dtrace_suspend`), before a debugger stops the machine. Takes no lock;
    /// other CPUs may be in any state.
    pub fn suspend(&self) {
        self.0.suspend();
    }

    /// Calls the `resume` op of every enabled probe (`dtrace_resume`), after [`suspend`](Self::suspend).
    /// Takes no lock.
    pub fn resume(&self) {
        self.0.resume();
    }

    /// Holds the framework's locks, so that no thread changes probes, enablings and consumers: for a host that is about to be
    /// copied, like a process by `fork`. `None` if a thread is changing them, and in probe context.
    pub fn try_hold(&self) -> Option<Held<'_, H>> {
        self.0.need_thread().ok()?;
        self.0.try_hold()
    }

    /// Ends the runs of all consumers, as if their programs had called `exit`, for a host that is about to end. Nothing more is
    /// recorded for them. Their [status](Self::status) shows this, and they can still read their records.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn end_runs(&self) -> Result<(), ProbeContext> {
        self.0.need_thread()?;
        self.0.end_runs();
        Ok(())
    }

    /// Returns the number of open consumers that have started and may have unread records, except an anonymous one that is
    /// not [claimed](Self::claim).
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn started_consumers(&self) -> Result<usize, ProbeContext> {
        self.0.need_thread()?;
        Ok(self.0.started_consumers())
    }
}

/// The functions for servers and consoles.
impl<H: Host> Tracer for Dtrace<H> {
    fn need_thread(&self) -> Result<(), ProbeContext> {
        self.0.need_thread()
    }

    fn cpus(&self) -> usize {
        self.0.cpus()
    }

    fn system(&self) -> System {
        self.0.hits.host.kernel().system()
    }

    fn late_timers(&self) -> u32 {
        self.late_timers()
    }

    fn unsampled_threads(&self) -> u32 {
        self.host().unsampled_threads()
    }

    fn counters(&self) -> Counters {
        self.counters()
    }

    fn open(&self, rights: Rights) -> Result<ConsumerId, ConsumerError> {
        self.open_with(rights)
    }

    fn close(&self, consumer: ConsumerId) -> Result<(), ConsumerError> {
        self.close(consumer)
    }

    fn enable(&self, consumer: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError> {
        self.enable(consumer, spec)
    }

    fn claim(&self, rights: Rights) -> Option<ConsumerId> {
        self.claim(rights)
    }

    fn set_option(&self, id: ConsumerId, option: u32, value: i64) -> Result<(), ConsumerError> {
        self.set_option(id, option, value)
    }

    fn next_option(&self, id: ConsumerId, from: u32) -> Result<Option<(u32, i64)>, ConsumerError> {
        self.next_option(id, from)
    }

    fn program_piece(
        &self,
        id: ConsumerId,
        size: usize,
        at: usize,
        piece: &[u8],
    ) -> Result<Option<u32>, ConsumerError> {
        self.program_piece(id, size, at, piece)
    }

    fn start(&self, id: ConsumerId) -> Result<usize, ConsumerError> {
        self.0.need_thread()?;
        self.0.start(id)
    }

    fn stop(&self, id: ConsumerId) -> Result<usize, ConsumerError> {
        self.0.need_thread()?;
        self.0.stop(id)
    }

    fn eprobe(
        &self,
        id: ConsumerId,
        epid: u32,
        skip: usize,
        into: &mut [RecordDesc],
    ) -> Result<Option<EprobeDesc>, ConsumerError> {
        self.eprobe(id, epid, skip, into)
    }

    fn aggregation(
        &self,
        id: ConsumerId,
        aggregation: u32,
        skip: usize,
        into: &mut [RecordDesc],
    ) -> Result<Option<AggregationDesc>, ConsumerError> {
        self.aggregation(id, aggregation, skip, into)
    }

    fn format(
        &self,
        id: ConsumerId,
        number: u16,
        at: usize,
        into: &mut [u8],
    ) -> Result<Option<usize>, ConsumerError> {
        self.format(id, number, at, into)
    }

    fn snapshot(
        &self,
        id: ConsumerId,
        cpu: usize,
        which: Which,
        at: usize,
        into: &mut [u8],
    ) -> Result<Snapshot, ConsumerError> {
        self.snapshot(id, cpu, which, at, into)
    }

    fn status(&self, id: ConsumerId) -> Result<Status, ConsumerError> {
        self.status(id)
    }

    fn symbol(&self, address: u64, show: &mut dyn FnMut(Symbol<'_>)) {
        if self.0.need_thread().is_ok() {
            self.0.hits.host.kernel().symbol(address, show);
        }
    }

    fn symbol_named(&self, module: Option<&[u8]>, name: &[u8], show: &mut dyn FnMut(Symbol<'_>)) {
        if self.0.need_thread().is_ok() {
            self.0.hits.host.kernel().symbol_named(module, name, show);
        }
    }

    fn declared(&self, index: usize, show: &mut dyn FnMut(ModuleText<'_>)) {
        if self.0.need_thread().is_ok() {
            self.0.hits.host.kernel().declared(index, show);
        }
    }

    fn next_probe(&self, spec: &Spec, after: u32, rights: Rights) -> Option<ProbeInfo> {
        self.0.need_thread().ok()?;
        self.0.next_probe(spec, after, Some(rights))
    }

    fn describe(&self, probe: ProbeId) -> Option<Detail> {
        self.describe(probe)
    }

    fn arg_desc(&self, probe: ProbeId, index: i32, rights: Rights) -> Option<ArgDesc> {
        self.0.need_thread().ok()?;
        self.0.arg_desc(probe, index, rights)
    }

    fn function_text(&self) -> Option<(&'static dyn FunctionText, usize)> {
        self.0.need_thread().ok()?;
        self.0.function_text()
    }

    fn adding_functions(&self, add: &mut dyn FnMut()) {
        if self.0.need_thread().is_ok() {
            self.0.adding_functions(add);
        }
    }

    fn add_function(
        &self,
        consumer: ConsumerId,
        build_id: &[u8],
        site: &FunctionSite<'_>,
    ) -> Result<(), FunctionError> {
        self.0.need_thread().map_err(ConsumerError::from)?;
        self.0.add_function(consumer, build_id, site)
    }
}

impl<H: Host + fmt::Debug> fmt::Debug for Dtrace<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dtrace").field("host", &self.0.hits.host).finish_non_exhaustive()
    }
}
