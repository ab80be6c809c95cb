//! The facade: every function of a framework, each of which refuses in probe context unless it says otherwise.

use core::ffi::{CStr, c_void};
use core::fmt;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU32;

use dtrace_abi::record::{EprobeDesc, RecordDesc};
use dtrace_abi::spec::Spec;
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
use crate::control::halt::Held;
use crate::control::query::{AggregationDesc, Snapshot, Status, Which};
use crate::control::tracer::Tracer;
use crate::kernel::{ModuleText, Symbol};
use crate::registry::listing::{Detail, ProbeInfo};
use crate::run::consumer::ConsumerId;
use crate::run::fire::Args;
use crate::run::live_id::with_live_id;

/// How many arguments a provider is asked for at most (libdtrace's `_dtrace_argmax`).
const MAX_ARGS: i32 = 32;

/// A tracing framework: providers and their probes, consumers and their enablings, and the buffers
/// between them.
///
/// Meant to be a `static`. All memory that it uses is handed over at boot, with [`init`](Self::init). Before that
/// nothing can be registered and no consumer can open it.
///
/// All functions except [`probe`](Self::probe), [`probe5`](Self::probe5), [`tick`](Self::tick), [`counters`](Self::counters),
/// [`host`](Self::host), [`suspend`](Self::suspend) and [`resume`](Self::resume) take locks, of the kind that the [host](Host::Lock) has.
/// Threads with interrupts on call them. In probe context they refuse with [`ProbeContext`], or return `None` if they return an
/// `Option`; in an interrupt handler the host must not call them. `docs/kernels.md` of the project lists every function.
///
/// | what for | functions |
/// |---|---|
/// | boot, memory and counters | [`new`](Self::new), [`init`](Self::init), [`share_memory`](Self::share_memory); [`host`](Self::host), [`memory_left`](Self::memory_left), [`counters`](Self::counters) |
/// | its own providers | [`register_own`](Self::register_own): `dtrace`; [`register_profile`](Self::register_profile), [`tick`](Self::tick): `profile` |
/// | providers and their probes | [`register`](Framework::register), [`probe_create`](Framework::probe_create), [`providing`](Self::providing), [`probe_lookup`](Self::probe_lookup), [`probe_arg`](Self::probe_arg), [`condense`](Self::condense), [`invalidate`](Self::invalidate), [`unregister`](Self::unregister) |
/// | … modules come and go | [`module_loaded`](Self::module_loaded), [`destroy_module`](Self::destroy_module) |
/// | which probes there are | [`for_each_probe`](Self::for_each_probe), [`describe`](Self::describe), [`arg_descs`](Self::arg_descs) |
/// | a probe fires | [`probe`](Self::probe), [`probe5`](Self::probe5), [`hit`](Framework::hit) |
/// | a consumer comes and goes | [`open`](Self::open), [`open_with`](Self::open_with), [`close`](Self::close) |
/// | … enables probes | [`enable`](Self::enable), [`disable`](Self::disable) |
/// | … sends programs | [`set_option`](Self::set_option), [`enable_program`](Self::enable_program), [`program_piece`](Self::program_piece) |
/// | … starts and stops | [`go`](Self::go), [`stop`](Self::stop) |
/// | … reads what was recorded | [`status`](Self::status), [`snapshot`](Self::snapshot), [`eprobe`](Self::eprobe), [`aggregation`](Self::aggregation), [`format`](Self::format) |
/// | tracing before there is a consumer | [`enable_anonymously`](Self::enable_anonymously), [`claim`](Self::claim), [`close_anonymous`](Self::close_anonymous) |
/// | a debugger stops the machine | [`suspend`](Self::suspend), [`resume`](Self::resume) |
/// | the host is copied, or ends | [`try_hold`](Self::try_hold), [`end_runs`](Self::end_runs), [`started_consumers`](Self::started_consumers) |
pub struct Dtrace<H: Host>(Control<H>);

/// # Boot
///
/// The framework gets its memory, and reports what it counts.
impl<H: Host> Dtrace<H> {
    /// A framework that has no memory yet.
    pub const fn new(host: H) -> Self {
        Self(Control::new(host))
    }

    /// Gives the framework its memory, of any size that makes room for the tables of this configuration; what is left is
    /// for buffers. From here on it works. The host's [`cpus`](Host::cpus) are all that there will be.
    ///
    /// [`Config::memory`] says how much would be good; [`Memory`](crate::Memory) is some, where the host has no other.
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

    /// The kernel's side.
    pub const fn host(&self) -> &H {
        &self.0.host
    }

    /// Bytes of the memory that are left for buffers and retained enablings. They need not be in one piece.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn memory_left(&self) -> Result<usize, ProbeContext> {
        self.0.need_thread()?;
        Ok(self.0.memory_left())
    }

    /// Has the programs of each consumer take so many bytes at most for all their buffers together, so that others find
    /// room. It is for buffers that may be smaller than they were asked for (`bufresize=auto`, which is usual); who says
    /// `manual` gets what there is.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn share_memory(&self, bytes: usize) -> Result<(), ProbeContext> {
        self.0.need_thread()?;
        self.0.share_memory(bytes);
        Ok(())
    }

    /// What happened so far. Callable anywhere; the counts are taken one after the other while CPUs go
    /// on counting.
    pub fn counters(&self) -> Counters {
        self.0.counters()
    }
}

// SAFETY: ops are called with their provider's pointers, with the locks held that their contexts are about, and
// `unregister` takes the provider away; ids are checked.
unsafe impl<H: Host> Framework for Dtrace<H> {
    /// Registers the provider and has it provide all its probes. Several providers may have one name,
    /// as on FreeBSD. The rules are in [`registration`](crate::registration); [`check`](crate::registration::check) tells which one was
    /// broken.
    unsafe fn register(
        &self,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
        ops: &ProviderOps,
        arg: *mut c_void,
    ) -> Result<ProviderId, FrameworkError> {
        self.0.need_thread()?;
        // SAFETY: by contract.
        unsafe { self.0.register(name, attr, privileges, ops, arg) }
    }

    unsafe fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        Self::unregister(self, provider)
    }

    unsafe fn invalidate(&self, provider: ProviderId) {
        // In probe context nothing is done, and to unregister it is refused then, too.
        let _ = Self::invalidate(self, provider);
    }

    unsafe fn condense(&self, provider: ProviderId) {
        // Of a provider that is not registered there are none.
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

    /// Creates a probe. Ids count up from 1 and are used again as late as possible. Two probes may have
    /// the same four names, as in the kernels: look up first. If it is enabled already, by enablings that are
    /// retained, the provider's `enable` is called before this returns, or after the `provide` op that this is called in.
    ///
    /// # Errors
    /// As in the trait, and [`FrameworkError::Invalid`] for a name that is too long, where the kernels
    /// take it and cut it off in listings.
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

    unsafe fn hit(&self, id: &AtomicU32, args: &[u64; ARGS]) {
        let framework = self.0.framework();
        let record = |id| framework.record(id, Args::All(args));
        with_live_id(&self.0.host, id, record, || framework.overtaken());
    }
}

/// # The provider `dtrace`
///
/// `BEGIN`, `END` and `ERROR`, for kernels whose consumers send programs.
impl<H: Host> Dtrace<H> {
    /// Registers the provider `dtrace`: `BEGIN` fires when a consumer starts, `END` when it stops, `ERROR` when a
    /// clause of it is stopped by a fault. Called right after [`init`](Self::init) their numbers are 1, 2 and 3, as in DTrace. A kernel
    /// whose consumers send programs calls it; that of others has no use for them.
    ///
    /// # Errors
    /// [`FrameworkError::Busy`] if they are there, or another thread is registering them; [`FrameworkError::Full`] if there is
    /// no room for them, or not for three with numbers that follow each other; [`FrameworkError::NotReady`];
    /// [`FrameworkError::ProbeContext`].
    pub fn register_own(&self) -> Result<(), FrameworkError> {
        self.0.need_thread()?;
        self.0.register_own()
    }
}

/// # The provider `profile`
///
/// Probes that fire by the clock, for hosts that have a timer.
impl<H: Host> Dtrace<H> {
    /// Registers the provider `profile`, with room for so many probes of different rates, which come to be when they are
    /// asked for. Where there is no room for another one, it replaces a probe that no consumer has enabled. If there is room for more than thirteen, thirteen usual ones are listed from the beginning. The shortest
    /// interval has 200 microseconds.
    ///
    /// They fire in [`tick`](Self::tick), which the host calls from then on.
    ///
    /// # Errors
    /// [`FrameworkError::Busy`] if it is there, or another thread is registering it; [`FrameworkError::Full`] and
    /// [`FrameworkError::NotReady`]; [`FrameworkError::ProbeContext`].
    pub fn register_profile(&'static self, timers: usize) -> Result<(), FrameworkError> {
        self.0.need_thread()?;
        self.0.register_profile(timers)
    }

    /// Fires what is due of `profile` on this CPU, with what the CPU was doing when the timer's interrupt came: the program
    /// counter in the kernel, and that in a process (the other one is 0). `profile-N` fires on every CPU that calls this,
    /// `tick-N` on CPU 0. Returns when this should be called again on this CPU, in nanoseconds since boot; `None` if
    /// nothing is enabled: then when the host is [told](Host::timers_changed). A host with a timer of its own may call
    /// it at every beat of that instead.
    ///
    /// Probe context: for the interrupt handler of the timer, or a thread that stands for the CPU.
    pub fn tick(&self, kernel_pc: u64, process_pc: u64) -> Option<u64> {
        self.0.tick(kernel_pc, process_pc)
    }
}

/// # Providers and their probes
///
/// Beside [`register`](Framework::register) and [`probe_create`](Framework::probe_create), which are the [`Framework`]'s.
impl<H: Host> Dtrace<H> {
    /// Calls `f`, which creates probes, and enables these afterwards for all enablings that mean them. So the provider is not
    /// called to enable a probe before `f` has returned. `provide` ops are called in this way.
    ///
    /// # Errors
    /// [`ProbeContext`]: `f` was not called.
    pub fn providing<R>(&self, f: impl FnOnce() -> R) -> Result<R, ProbeContext> {
        self.0.need_thread()?;
        Ok(self.0.providing(f))
    }

    /// Unregisters the provider: its probes are gone, no CPU is in probe context for any of them, and
    /// `destroy` has been called for each.
    ///
    /// As on FreeBSD it is [`Busy`](FrameworkError::Busy) while any consumer is open, whether it enabled
    /// a probe of this provider or not. A provider that was [invalidated](Self::invalidate) can go
    /// whoever is there, once its enablings are gone ([`Again`](FrameworkError::Again) until then).
    ///
    /// # Errors
    /// These, [`FrameworkError::NotFound`] when there is no such provider, and [`FrameworkError::ProbeContext`].
    pub fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        self.0.need_thread()?;
        self.0.unregister(provider)
    }

    /// The id of the provider's probe with exactly these names. None of an invalidated provider's, and none in
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

    /// Invalidates a provider (`dtrace_invalidate`): no description means its probes any more, so nobody
    /// can enable them, and it is not asked to provide any. Consumers that had enabled them keep their
    /// enablings until they close, and its ops are called until it is [unregistered](Self::unregister).
    /// Does nothing when there is no such provider.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn invalidate(&self, provider: ProviderId) -> Result<(), ProbeContext> {
        self.0.need_thread()?;
        self.0.invalidate(provider);
        Ok(())
    }

    /// Destroys those probes of a provider that nobody has enabled (`dtrace_condense`) and returns how
    /// many there were.
    ///
    /// # Errors
    /// [`FrameworkError::NotFound`] when there is no such provider; [`FrameworkError::ProbeContext`].
    pub fn condense(&self, provider: ProviderId) -> Result<usize, FrameworkError> {
        self.0.need_thread()?;
        self.0.condense(provider)
    }

    /// The pointer that a probe was created with, if it is the provider's (`dtrace_probe_arg`). None in
    /// [probe context](ProbeContext).
    pub fn probe_arg(&self, provider: ProviderId, id: ProbeId) -> Option<*mut c_void> {
        self.0.need_thread().ok()?;
        self.0.probe_arg(provider, id)
    }

    /// A module was loaded: every provider with a `provide_module` op is told
    /// (`dtrace_module_loaded`).
    ///
    /// # Safety
    /// `module` is what the registered providers expect there (FreeBSD's `linker_file_t`).
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub unsafe fn module_loaded(&self, module: *mut c_void) -> Result<(), ProbeContext> {
        self.0.need_thread()?;
        // SAFETY: by contract.
        unsafe { self.0.module_loaded(module) };
        Ok(())
    }

    /// A module is about to be unloaded: destroys all probes, of any provider, that have its name in
    /// their module field (`dtrace_module_unloaded` on FreeBSD, where the name is that of the file
    /// without `.ko`). Returns how many there were.
    ///
    /// # Errors
    /// [`FrameworkError::Busy`] when one of them is enabled; [`FrameworkError::ProbeContext`]. Nothing was changed.
    pub fn destroy_module(&self, module: &CStr) -> Result<usize, FrameworkError> {
        self.0.need_thread()?;
        self.0.destroy_module(module)
    }
}

/// # Which probes there are
///
/// Of all providers, for whoever lists them.
impl<H: Host> Dtrace<H> {
    /// Calls `f` for every probe that the description matches, in order of number, and returns how many
    /// there were. Providers are asked to provide what they have for the description first. No lock is
    /// held while `f` runs: probes may come and go meanwhile.
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

    /// A probe's names and stability, if it exists. None in [probe context](ProbeContext).
    pub fn describe(&self, id: ProbeId) -> Option<Detail> {
        self.0.need_thread().ok()?;
        self.0.describe(id)
    }

    /// The types of all arguments of a probe, in order; as libdtrace does, it asks for at most 32. None in
    /// [probe context](ProbeContext).
    pub fn arg_descs(&self, id: ProbeId) -> impl Iterator<Item = ArgDesc> {
        (0..MAX_ARGS).map_while(move |ndx| self.arg_desc(id, ndx, Rights::ALL))
    }
}

/// # A probe fires
///
/// For providers; [`hit`](sdt_core::ops::Framework::hit) of the [`Framework`](sdt_core::ops::Framework) is what sites call. All
/// of it is probe context.
impl<H: Host> Dtrace<H> {
    /// A probe was hit, with all the arguments it has: ten at most.
    ///
    /// Probe context: callable anywhere, with interrupts off and any lock held. Any `id` will do: one that is
    /// no probe, or not any more, is counted.
    pub fn probe<const COUNT: usize>(&self, id: ProbeId, args: &[u64; COUNT]) {
        const { assert!(COUNT <= ARGS, "a probe has at most 10 arguments") };
        let mut all = [0; ARGS];
        all.iter_mut().zip(args).for_each(|(place, arg)| *place = *arg);
        let framework = self.0.framework();
        self.0.host.without_interrupts(|| framework.record(id.get(), Args::All(&all)));
    }

    /// A probe was hit, with the five arguments that the kernels' `dtrace_probe` takes. The sixth to
    /// the tenth are asked of the provider's `getargval`, if it has one and a consumer records the hit;
    /// otherwise they are 0. It is asked for each, as the number of a probe's arguments is not known, and is
    /// given the `aframes` that the probe was created with.
    ///
    /// Probe context, as [`probe`](Self::probe). Any `id` will do: one that is no probe, or not any more, is
    /// counted.
    ///
    /// # Safety
    /// If the probe's provider has a `getargval`, this is a hit that the provider has made.
    pub unsafe fn probe5(&self, id: u32, args: [u64; 5]) {
        let framework = self.0.framework();
        self.0.host.without_interrupts(|| framework.record(id, Args::Five(&args)));
    }
}

/// # Consumers open and close
impl<H: Host> Dtrace<H> {
    /// Opens the framework for one more consumer with all rights.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open(&self) -> Result<ConsumerId, ConsumerError> {
        self.open_with(Rights::ALL)
    }

    /// Opens the framework for one more consumer, with these rights. While any is
    /// open, no provider can be unregistered.
    ///
    /// # Errors
    /// [`ConsumerError::TooManyConsumers`], [`ConsumerError::NoMemory`], [`ConsumerError::NotReady`];
    /// [`ConsumerError::NotPermitted`] if it may do
    /// nothing at all.
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
/// And has their arguments recorded, as a program does: [`snapshot`](Self::snapshot) reads the records, and
/// [`records`](crate::records) takes them apart.
impl<H: Host> Dtrace<H> {
    /// Enables all probes that the description means and the consumer [may use](crate::Rights), with the clause
    /// `{ trace(arg0); ... trace(arg9); }`, and returns how many there are now; none is no error. Probes can be enabled so at any
    /// time, unless the consumer has started with programs alone. A consumer that has enabled any before it starts does not time out.
    ///
    /// The enabling is retained: a probe that is created later is enabled, too, until the consumer closes
    /// or [disables](Self::disable) them.
    ///
    /// Each call is an enabling of its own, as each clause of a D program is: a probe that one consumer
    /// enables twice makes two records. The provider's `enable` is called when a probe gets its first
    /// enabling of anyone; like FreeBSD's framework this one does not look at its result.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`], [`ConsumerError::Started`]; [`ConsumerError::TooManyEnablings`] and
    /// [`ConsumerError::NoMemory`], and nothing stays enabled.
    pub fn enable(&self, id: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError> {
        self.0.need_thread()?;
        self.0.enable(id, spec)
    }

    /// Takes away all enablings that the consumer has on probes that the description matches, and
    /// returns how many probes that were. The provider's `disable` is called when a probe loses its last
    /// enabling of anyone. After the return no CPU is recording for them any more.
    ///
    /// Probes that are created later are not enabled any more by an enabling with this very description, nor by any if
    /// it is [`Spec::ALL`].
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn disable(&self, id: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError> {
        self.0.need_thread()?;
        self.0.disable(id, spec)
    }
}

/// # A consumer sends programs
///
/// And options for its run, both before it [starts](Self::go).
impl<H: Host> Dtrace<H> {
    /// Sets an option of a consumer's run, as `DTRACEOPT_*` numbers them, before it goes. Those that are the consumer's
    /// own affair are taken and not looked at.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`], [`ConsumerError::Started`], [`ConsumerError::BadOption`]; [`ConsumerError::NotPermitted`] for
    /// `destructive`.
    pub fn set_option(&self, id: ConsumerId, option: u32, value: i64) -> Result<(), ConsumerError> {
        self.0.need_thread()?;
        self.0.set_option(id, option, value)
    }

    /// An option of a consumer's run that is set, by itself or by a program, and its value: the first one with this number or a
    /// greater one. Also of a consumer that was [enabled](Self::enable_anonymously) before it came, or has gone.
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

    /// Takes a piece of a program in DOF. Pieces come in order; the first one drops what there was of another. With the
    /// last one the program is [enabled](Self::enable_program).
    ///
    /// # Errors
    /// As [`enable_program`](Self::enable_program); the pieces are dropped.
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

    /// Takes a program in DOF, before the consumer goes: checks it, and enables its clauses. Options in it are set.
    /// Returns how many enabled probes (ECBs) its clauses make; none is no error. The enablings are retained, as those of
    /// [`enable`](Self::enable).
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`], [`ConsumerError::Started`], [`ConsumerError::Program`],
    /// [`ConsumerError::BadOption`], [`ConsumerError::TooManyEnablings`], [`ConsumerError::NoMemory`]; nothing of it
    /// stays enabled.
    pub fn enable_program(&self, id: ConsumerId, dof: &[u8]) -> Result<u32, ConsumerError> {
        self.0.need_thread()?;
        self.0.enable_program(id, dof)
    }
}

/// # A consumer starts and stops
///
/// In between its clauses run.
impl<H: Host> Dtrace<H> {
    /// Starts recording for the consumer. Its first start makes the buffers that its clauses need, as its options say.
    /// `dtrace:::BEGIN` has fired for it before the return.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`]; [`ConsumerError::NoMemory`]: [options](Self::set_option) choose other sizes;
    /// [`ConsumerError::SmallBuffer`] if a buffer of the chosen size holds no record.
    pub fn go(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        self.0.need_thread()?;
        self.0.start(id).map(drop)
    }

    /// Stops recording. After the return no CPU writes for the consumer any more,
    /// so a snapshot is complete then; `dtrace:::END` has fired for it. Its enablings and buffers stay.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn stop(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        self.0.need_thread()?;
        self.0.stop(id).map(drop)
    }
}

/// # A consumer reads what was recorded
///
/// And what describes it.
impl<H: Host> Dtrace<H> {
    /// Describes an enabled probe of a consumer and the data of its records (`DTRACEIOC_EPROBE`): of the
    /// descriptions those after the first `skip`, as many as fit. `None` when the consumer has no enabled probe with this number.
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

    /// Describes the tuples of an aggregation of a consumer (`DTRACEIOC_AGGDESC`): of the descriptions those after the first `skip`,
    /// as many as fit: the number of its variable, the keys, the value. `None` when the consumer has no aggregation with this number.
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

    /// Reads the text of a format of a consumer's programs, from a byte on; returns how many bytes were read. `None` when
    /// there is none with this number (they count from 1).
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

    /// Reads a buffer of a consumer on one CPU, from a byte on, and returns how large it is
    /// (`DTRACEIOC_BUFSNAP`, `DTRACEIOC_AGGSNAP`). With `at` 0 the buffer is switched: recording continues in an empty one,
    /// and the full one can be read, with other offsets, until it is switched again. Buffers under the policies
    /// `fill` and `ring` are not switched, and are read once the consumer has stopped.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`], [`ConsumerError::NoCpu`]; [`ConsumerError::Started`] for a buffer that is read only
    /// when it has stopped.
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

    /// Counts drops and errors of a consumer's programs (`DTRACEIOC_STATUS`). It is also the sign that the consumer is alive: it times
    /// out after 30 seconds without one. Memory of dynamic variables that were removed is made usable again.
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
/// From boot on, for one that comes later (`dtrace -A`, `dtrace -a`).
impl<H: Host> Dtrace<H> {
    /// Enables a program in DOF and starts it, for a consumer that will come: called at boot, after
    /// [`register_own`](Self::register_own) and before providers register, so that the first hit of their probes is traced.
    /// Options, as there are no others, are those in the DOF; with `bufpolicy` `ring` the latest is kept, otherwise the first. It does not
    /// time out. Returns how many enabled probes (ECBs) there are already.
    ///
    /// As with any open consumer, no provider can be unregistered until it was [claimed](Self::claim) and closed. Until then the host
    /// [cleans](Self::clean_anonymous) for it now and then.
    ///
    /// # Errors
    /// [`ConsumerError::Started`] if there is one that was not claimed; as [`open`](Self::open),
    /// [`enable_program`](Self::enable_program) and [`go`](Self::go).
    pub fn enable_anonymously(&self, dof: &[u8]) -> Result<u32, ConsumerError> {
        self.0.need_thread()?;
        self.0.enable_anonymously(dof)
    }

    /// Makes what programs of the consumer that has not come yet are done with usable again, their thread-local variables and elements
    /// of arrays above all, without which there is no room for others before long; says whether there is such a consumer. For a
    /// thread of the host that calls it now and then until somebody comes, who does it himself by asking for the
    /// [status](Self::status). (In DTrace the kernel does, `cleanrate` times a second.)
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn clean_anonymous(&self) -> Result<bool, ProbeContext> {
        self.0.need_thread()?;
        Ok(self.0.clean_anonymous())
    }

    /// Closes the consumer that was [enabled](Self::enable_anonymously) and not claimed: for a host that is about
    /// to end.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn close_anonymous(&self) -> Result<(), ProbeContext> {
        self.0.need_thread()?;
        self.0.close_anonymous();
        Ok(())
    }

    /// The consumer for which something was [enabled](Self::enable_anonymously) before it came, once. From here on it is as
    /// any other, and may do this much and no more: it is to ask for its [status](Self::status) now and then, and to be closed.
    /// What was recorded for it is the kernel's, so who may not [see that](Rights::kernel) has none. `None` also in
    /// [probe context](ProbeContext).
    pub fn claim(&self, rights: Rights) -> Option<ConsumerId> {
        self.0.need_thread().ok()?;
        self.0.claim(rights)
    }
}

/// # The machine stops, or the host is copied or ends
///
/// For kernels with a debugger, and for hosts that are processes.
impl<H: Host> Dtrace<H> {
    /// Calls the `suspend` op of every enabled probe (`dtrace_suspend`): a debugger is about to stop
    /// the machine. Takes no lock; other CPUs may be in any state.
    pub fn suspend(&self) {
        self.0.suspend();
    }

    /// Calls the `resume` op of every enabled probe (`dtrace_resume`), after [`suspend`](Self::suspend).
    /// Takes no lock.
    pub fn resume(&self) {
        self.0.resume();
    }

    /// Keeps probes, enablings and consumers as they are, unless a thread is changing them: for a host that
    /// is about to be copied, as the child of a `fork` is. `None` also in probe context.
    pub fn try_hold(&self) -> Option<Held<'_, H>> {
        self.0.need_thread().ok()?;
        self.0.try_hold()
    }

    /// Ends the runs of all consumers, as if their programs had called `exit`: for a host that is about to end.
    /// Nothing more is recorded for them. Their [status](Self::status) shows it, and they can read what was recorded.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn end_runs(&self) -> Result<(), ProbeContext> {
        self.0.need_thread()?;
        self.0.end_runs();
        Ok(())
    }

    /// How many open consumers have started and may have left something to read, except one that has not been
    /// [claimed](Self::claim).
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn started_consumers(&self) -> Result<usize, ProbeContext> {
        self.0.need_thread()?;
        Ok(self.0.started_consumers())
    }
}

/// All functions for servers and consoles.
impl<H: Host> Tracer for Dtrace<H> {
    fn need_thread(&self) -> Result<(), ProbeContext> {
        self.0.need_thread()
    }

    fn cpus(&self) -> usize {
        self.0.cpus()
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
            self.0.host.kernel().symbol(address, show);
        }
    }

    fn symbol_named(&self, module: Option<&[u8]>, name: &[u8], show: &mut dyn FnMut(Symbol<'_>)) {
        if self.0.need_thread().is_ok() {
            self.0.host.kernel().symbol_named(module, name, show);
        }
    }

    fn declared(&self, index: usize, show: &mut dyn FnMut(ModuleText<'_>)) {
        if self.0.need_thread().is_ok() {
            self.0.host.kernel().declared(index, show);
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
}

impl<H: Host + fmt::Debug> fmt::Debug for Dtrace<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dtrace").field("host", &self.0.host).finish_non_exhaustive()
    }
}
