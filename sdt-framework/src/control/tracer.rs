//! A trait for frameworks, independent of the type of their host.

use dtrace_abi::System;
use dtrace_abi::record::{EprobeDesc, RecordDesc};
use dtrace_abi::spec::Spec;
use sdt_core::ops::{ArgDesc, ProbeId};

use crate::base::context::ProbeContext;
use crate::base::counters::Counters;
use crate::base::rights::Rights;
use crate::control::error::ConsumerError;
use crate::control::functions::{FunctionError, FunctionSite, FunctionText};
use crate::control::query::{AggregationDesc, Snapshot, Status, Which};
use crate::kernel::{ModuleText, Symbol};
use crate::registry::listing::{Detail, ProbeInfo};
use crate::run::consumer::ConsumerId;

/// A framework with any type of host: the functions of [`Dtrace`](crate::Dtrace) that a server and a console call.
/// `Dtrace` documents their errors. Called by threads with interrupts on. In probe context, functions that return an
/// `Option` return `None`, and the others [`ConsumerError::ProbeContext`].
#[allow(clippy::missing_errors_doc, reason = "`Dtrace` documents them")]
pub trait Tracer: Sync {
    /// Returns an error in probe context. All other functions also return an error there, except [`cpus`](Self::cpus),
    /// [`system`](Self::system), [`late_timers`](Self::late_timers), [`unsampled_threads`](Self::unsampled_threads) and
    /// [`counters`](Self::counters).
    fn need_thread(&self) -> Result<(), ProbeContext>;

    /// Returns the number of CPUs that fire probes.
    fn cpus(&self) -> usize;

    /// Returns the operating system that defines `EAGAIN`, `SIGKILL` and similar constants in D programs.
    fn system(&self) -> System;

    /// Returns the number of enabled timers that do not fire, because the host does not call
    /// [`Dtrace::tick`](crate::Dtrace::tick).
    fn late_timers(&self) -> u32;

    /// Returns the number of threads that `profile-N` does not sample
    /// ([`Host::unsampled_threads`](crate::Host::unsampled_threads)).
    fn unsampled_threads(&self) -> u32;

    /// Returns the counters.
    fn counters(&self) -> Counters;

    /// Like [`Dtrace::open_with`](crate::Dtrace::open_with).
    fn open(&self, rights: Rights) -> Result<ConsumerId, ConsumerError>;

    /// Like [`Dtrace::close`](crate::Dtrace::close).
    fn close(&self, consumer: ConsumerId) -> Result<(), ConsumerError>;

    /// Like [`Dtrace::enable`](crate::Dtrace::enable).
    fn enable(&self, consumer: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError>;

    /// Like [`Dtrace::claim`](crate::Dtrace::claim).
    fn claim(&self, rights: Rights) -> Option<ConsumerId>;

    /// Like [`Dtrace::set_option`](crate::Dtrace::set_option).
    fn set_option(
        &self,
        consumer: ConsumerId,
        option: u32,
        value: i64,
    ) -> Result<(), ConsumerError>;

    /// Like [`Dtrace::next_option`](crate::Dtrace::next_option).
    fn next_option(
        &self,
        consumer: ConsumerId,
        from: u32,
    ) -> Result<Option<(u32, i64)>, ConsumerError>;

    /// Like [`Dtrace::program_piece`](crate::Dtrace::program_piece).
    fn program_piece(
        &self,
        consumer: ConsumerId,
        size: usize,
        at: usize,
        piece: &[u8],
    ) -> Result<Option<u32>, ConsumerError>;

    /// Like [`Dtrace::go`](crate::Dtrace::go); returns the CPU on which `dtrace:::BEGIN` has fired.
    fn start(&self, consumer: ConsumerId) -> Result<usize, ConsumerError>;

    /// Like [`Dtrace::stop`](crate::Dtrace::stop); returns the CPU on which `dtrace:::END` has fired.
    fn stop(&self, consumer: ConsumerId) -> Result<usize, ConsumerError>;

    /// Like [`Dtrace::eprobe`](crate::Dtrace::eprobe).
    fn eprobe(
        &self,
        consumer: ConsumerId,
        epid: u32,
        skip: usize,
        into: &mut [RecordDesc],
    ) -> Result<Option<EprobeDesc>, ConsumerError>;

    /// Like [`Dtrace::aggregation`](crate::Dtrace::aggregation).
    fn aggregation(
        &self,
        consumer: ConsumerId,
        aggregation: u32,
        skip: usize,
        into: &mut [RecordDesc],
    ) -> Result<Option<AggregationDesc>, ConsumerError>;

    /// Like [`Dtrace::format`](crate::Dtrace::format).
    fn format(
        &self,
        consumer: ConsumerId,
        number: u16,
        at: usize,
        into: &mut [u8],
    ) -> Result<Option<usize>, ConsumerError>;

    /// Like [`Dtrace::snapshot`](crate::Dtrace::snapshot).
    fn snapshot(
        &self,
        consumer: ConsumerId,
        cpu: usize,
        which: Which,
        at: usize,
        into: &mut [u8],
    ) -> Result<Snapshot, ConsumerError>;

    /// Like [`Dtrace::status`](crate::Dtrace::status).
    fn status(&self, consumer: ConsumerId) -> Result<Status, ConsumerError>;

    /// Like [`Kernel::symbol`](crate::kernel::Kernel::symbol) of the framework's host.
    fn symbol(&self, address: u64, show: &mut dyn FnMut(Symbol<'_>));

    /// Like [`Kernel::symbol_named`](crate::kernel::Kernel::symbol_named) of the framework's host.
    fn symbol_named(&self, module: Option<&[u8]>, name: &[u8], show: &mut dyn FnMut(Symbol<'_>));

    /// Like [`Kernel::declared`](crate::kernel::Kernel::declared) of the framework's host.
    fn declared(&self, index: usize, show: &mut dyn FnMut(ModuleText<'_>));

    /// Returns the probe with the lowest id above `after` that matches the description and that a consumer with these
    /// rights may use (`DTRACEIOC_PROBEMATCH`). If `after` is 0, first lets the providers create probes for the
    /// description.
    fn next_probe(&self, spec: &Spec, after: u32, rights: Rights) -> Option<ProbeInfo>;

    /// Like [`Dtrace::describe`](crate::Dtrace::describe).
    fn describe(&self, probe: ProbeId) -> Option<Detail>;

    /// Returns the type of an argument of a probe, counted from 0, from the provider's `getargdesc`. Returns `None`
    /// after the last argument, if the provider has no such op, or if a consumer with these rights may not use the
    /// probe.
    fn arg_desc(&self, probe: ProbeId, index: i32, rights: Rights) -> Option<ArgDesc>;

    /// Returns the text whose functions consumers may trace, and the number of further sites for which there is room;
    /// `None` if the host has no such text.
    fn function_text(&self) -> Option<(&'static dyn FunctionText, usize)>;

    /// Calls `add`, which calls [`add_function`](Self::add_function) for many functions. Their probes are enabled together
    /// afterwards.
    fn adding_functions(&self, add: &mut dyn FnMut());

    /// Like [`Dtrace::add_function`](crate::Dtrace::add_function).
    fn add_function(
        &self,
        consumer: ConsumerId,
        build_id: &[u8],
        site: &FunctionSite<'_>,
    ) -> Result<(), FunctionError>;
}
