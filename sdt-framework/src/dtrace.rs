//! The framework's state.

use core::fmt;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;

#[cfg(doc)]
use sdt_core::ops::Framework;

use crate::arena::Arena;
use crate::buffer::{Consumer, ConsumerError, ConsumerId};
use crate::config::{Config, InitError};
use crate::context::{Contexts, ProbeContext};
use crate::counters::{Counters, PerCpu};
use crate::dif::Word;
use crate::ecb::EcbNode;
use crate::ecb::chain::Node;
use crate::ecb::live::LiveProbe;
use crate::host::{Host, Mutex};
use crate::postmortem::Head;
use crate::providers::{OwnProbes, Profiles};
use crate::registry::tables::Tables;
use crate::sync::{AtomicCount, widen};

/// A tracing framework: providers and their probes, consumers and their enablings, and the buffers
/// between them.
///
/// Meant to be a `static`. All memory that it uses is handed over at boot, with [`init`](Self::init). Before that
/// nothing can be registered and nobody can open it.
///
/// All functions but [`probe`](Self::probe), [`probe5`](Self::probe5), [`tick`](Self::tick), [`counters`](Self::counters),
/// [`host`](Self::host), [`suspend`](Self::suspend) and [`resume`](Self::resume) take locks, of the kind that the [host](Host::Lock) has.
/// Threads with interrupts on call them. In probe context they refuse with [`ProbeContext`], or return `None` if they return an
/// `Option`; in an interrupt handler the host must not call them. `docs/kernels.md` of the project lists every function.
///
/// | what for | file | functions |
/// |---|---|---|
/// | boot, and how it is doing | `dtrace` | [`new`](Self::new), [`init`](Self::init), [`share_memory`](Self::share_memory); [`host`](Self::host), [`memory_left`](Self::memory_left), [`counters`](Self::counters) |
/// | its own providers | `providers/` | [`register_own`](Self::register_own): `dtrace`; [`register_profile`](Self::register_profile), [`tick`](Self::tick): `profile` |
/// | providers and their probes | `registry/provider` | [`register`](Framework::register), [`probe_create`](Framework::probe_create), [`providing`](Self::providing), [`probe_lookup`](Self::probe_lookup), [`probe_arg`](Self::probe_arg), [`condense`](Self::condense), [`invalidate`](Self::invalidate), [`unregister`](Self::unregister) |
/// | … modules come and go | `registry/provider` | [`module_loaded`](Self::module_loaded), [`destroy_module`](Self::destroy_module) |
/// | which probes there are | `registry/listing` | [`for_each_probe`](Self::for_each_probe), [`describe`](Self::describe), [`arg_descs`](Self::arg_descs) |
/// | a probe fires | `ecb/fire` | [`probe`](Self::probe), [`probe5`](Self::probe5), [`hit`](Framework::hit) |
/// | a consumer comes and goes | `ecb/consuming` | [`open`](Self::open), [`open_with`](Self::open_with), [`set_buffer`](Self::set_buffer), [`close`](Self::close) |
/// | … enables probes | `ecb/enabling` | [`enable`](Self::enable), [`enable_recording`](Self::enable_recording), [`disable`](Self::disable) |
/// | … sends programs | `program/sending` | [`set_option`](Self::set_option), [`enable_program`](Self::enable_program), [`program_piece`](Self::program_piece) |
/// | … goes and stops | `program/going` | [`go`](Self::go), [`stop`](Self::stop) |
/// | … reads arguments | `buffer/reading` | [`read`](Self::read), [`drops`](Self::drops) |
/// | … asks what its programs have left | `program/asking` | [`status`](Self::status), [`snapshot`](Self::snapshot), [`eprobe`](Self::eprobe), [`aggregation`](Self::aggregation), [`format`](Self::format) |
/// | tracing before there is a consumer | `program/anonymous` | [`enable_anonymously`](Self::enable_anonymously), [`claim`](Self::claim), [`close_anonymous`](Self::close_anonymous) |
/// | a debugger stops the machine | `halting` | [`suspend`](Self::suspend), [`resume`](Self::resume) |
/// | the host is copied, or goes | `halting` | [`try_hold`](Self::try_hold), [`wind_up`](Self::wind_up), [`with_programs`](Self::with_programs) |
pub struct Dtrace<H: Host> {
    pub(crate) host: H,
    /// Held over registration, unregistration and the `provide` ops (DTrace's `dtrace_provider_lock`).
    /// Taken before `tables`.
    pub(crate) registration: Mutex<H, ()>,
    /// The framework's lock (DTrace's `dtrace_lock`), held over all other ops outside probe context.
    pub(crate) tables: Mutex<H, Tables>,
    shared: spin::Once<Shared<H>>,
    pub(crate) stray: AtomicCount,
    pub(crate) missed: AtomicCount,
    /// The probes of the provider `dtrace`.
    pub(crate) own: OwnProbes,
    /// The provider `profile`.
    pub(crate) profile: Profiles,
}

/// What probe context has to do with.
pub(crate) struct Shared<H: Host> {
    // Read by it. Written with `tables` locked.
    pub(crate) probes: &'static [LiveProbe],
    pub(crate) ecbs: &'static [EcbNode],
    pub(crate) consumers: &'static [Consumer<H>],
    /// Written by it, with the consumers' buffers.
    pub(crate) cpus: &'static [PerCpu],
    /// What consumers have left of a [budget](crate::ecb): those of the first CPU first.
    shares: &'static [Word],
}

impl<H: Host> Shared<H> {
    /// `None` when there is no room.
    fn new(arena: &mut Arena, config: &Config, cpus: usize) -> Option<Self> {
        Some(Self {
            probes: arena.slice(config.probes, |_| LiveProbe::new())?.leak(),
            ecbs: arena.slice(config.ecbs, |_| Node::new())?.leak(),
            consumers: arena.slice(config.consumers, |_| Consumer::closed())?.leak(),
            cpus: arena.slice(cpus, |_| PerCpu::new())?.leak(),
            shares: arena.slice(cpus.checked_mul(config.consumers)?, |_| Word::new())?.leak(),
        })
    }

    /// What consumers have left of a budget on a CPU.
    pub(crate) fn shares_of(&self, cpu: usize) -> &'static [Word] {
        let count = self.consumers.len();
        let rest = self.shares.get(cpu.wrapping_mul(count)..).unwrap_or_default();
        rest.get(..count).unwrap_or_default()
    }

    pub(crate) fn consumer(
        &self,
        id: ConsumerId,
    ) -> Result<(usize, &'static Consumer<H>), ConsumerError> {
        self.consumers
            .iter()
            .enumerate()
            .find(|(_, consumer)| consumer.is(id))
            .ok_or(ConsumerError::NotOpen(id))
    }
}

/// # Boot
///
/// The framework gets its memory, and says how it is doing.
impl<H: Host> Dtrace<H> {
    /// A framework that has no memory yet.
    pub const fn new(host: H) -> Self {
        Self {
            host,
            registration: Mutex::<H, _>::new(()),
            tables: Mutex::<H, _>::new(Tables::none()),
            shared: spin::Once::new(),
            stray: AtomicCount::new(0),
            missed: AtomicCount::new(0),
            own: OwnProbes::new(),
            profile: Profiles::new(),
        }
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
        config.check()?;
        // Probe context is refused, too: there is none before there is memory.
        if self.shared.is_completed() {
            return Err(InitError::Ready);
        }
        let mut tables = self.tables.lock();
        if self.shared.is_completed() {
            return Err(InitError::Ready);
        }
        let (cpus, given) = (self.host.cpus(), memory.len());
        let too_small = InitError::TooSmall { needed: config.tables::<H>(cpus), given };
        if given < config.tables::<H>(cpus) {
            return Err(too_small);
        }
        let end = memory.as_ptr_range().end.addr();
        let mut arena = Arena::new(memory);
        let head = Head::first(&mut arena).ok_or(too_small)?;
        let shared = Shared::new(&mut arena, config, cpus).ok_or(too_small)?;
        *tables = Tables::new(arena, config).ok_or(too_small)?;
        tables.show(head, end, cpus);
        // SAFETY: they are this framework's.
        unsafe { self.host.contexts(Contexts::new(shared.cpus)) };
        self.shared.call_once(|| shared);
        Ok(())
    }

    /// What probe context has to do with, once there is memory.
    pub(crate) fn shared(&self) -> Result<&Shared<H>, ConsumerError> {
        self.shared.get().ok_or(ConsumerError::NotReady)
    }

    /// The kernel's side.
    pub const fn host(&self) -> &H {
        &self.host
    }

    /// Bytes of the memory that are left for buffers and retained enablings. They need not be in one piece.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn memory_left(&self) -> Result<usize, ProbeContext> {
        self.need_thread()?;
        Ok(self.tables.lock().arena.left())
    }

    /// Has the programs of each consumer take so many bytes at most for all their buffers together, so that others find
    /// room. It is for buffers that may be smaller than they were asked for (`bufresize=auto`, which is usual); who says
    /// `manual` gets what there is.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn share_memory(&self, bytes: usize) -> Result<(), ProbeContext> {
        self.need_thread()?;
        self.tables.lock().share = bytes;
        Ok(())
    }

    /// What happened so far. Callable anywhere; the counts are taken one after the other while CPUs go
    /// on counting.
    pub fn counters(&self) -> Counters {
        let cpus = self.shared.get().map_or(&[][..], |shared| shared.cpus);
        Counters {
            stray: widen(self.stray.load(Ordering::Relaxed)),
            missed: widen(self.missed.load(Ordering::Relaxed)),
            ..Counters::of(cpus)
        }
    }
}

impl<H: Host + fmt::Debug> fmt::Debug for Dtrace<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dtrace").field("host", &self.host).finish_non_exhaustive()
    }
}
