//! A framework for any host.

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

/// A framework for any host: the functions of [`Dtrace`](crate::Dtrace) that a server and a console call, which
/// document their errors. Called by threads with interrupts on; in probe context functions that return an `Option`
/// return `None`, others [`ConsumerError::ProbeContext`].
#[allow(clippy::missing_errors_doc, reason = "`Dtrace` documents them")]
pub trait Tracer: Sync {
    /// Refuses in probe context, where all other functions except [`cpus`](Self::cpus), [`system`](Self::system),
    /// [`late_timers`](Self::late_timers), [`unsampled_threads`](Self::unsampled_threads) and [`counters`](Self::counters)
    /// refuse, too.
    fn need_thread(&self) -> Result<(), ProbeContext>;

    /// CPUs that fire probes.
    fn cpus(&self) -> usize;

    /// The operating system whose numbers programs in D can name.
    fn system(&self) -> System;

    /// The number of enabled timers that do not fire, because the host does not call [`Dtrace::tick`](crate::Dtrace::tick).
    fn late_timers(&self) -> u32;

    /// The number of threads that `profile-N` does not sample ([`Host::unsampled_threads`](crate::Host::unsampled_threads)).
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

    /// The probe with the least id above `after` that the description matches and that a consumer with these rights may use
    /// (`DTRACEIOC_PROBEMATCH`). With 0, providers are asked to provide what they have for the description first.
    fn next_probe(&self, spec: &Spec, after: u32, rights: Rights) -> Option<ProbeInfo>;

    /// Like [`Dtrace::describe`](crate::Dtrace::describe).
    fn describe(&self, probe: ProbeId) -> Option<Detail>;

    /// The type of one argument of a probe, from 0, as its provider's `getargdesc` tells it; `None` past the last, when the
    /// provider has no such op, and if a consumer with these rights may not use the probe.
    fn arg_desc(&self, probe: ProbeId, index: i32, rights: Rights) -> Option<ArgDesc>;

    /// The text whose functions consumers may trace, and how many more sites there is room for; `None` if the host has none.
    fn function_text(&self) -> Option<(&'static dyn FunctionText, usize)>;

    /// Calls `add`, which calls [`add_function`](Self::add_function) for many functions. Their probes are enabled together
    /// afterwards.
    fn adding_functions(&self, add: &mut dyn FnMut());

    /// As [`Dtrace::add_function`](crate::Dtrace::add_function).
    fn add_function(
        &self,
        consumer: ConsumerId,
        build_id: &[u8],
        site: &FunctionSite<'_>,
    ) -> Result<(), FunctionError>;
}
