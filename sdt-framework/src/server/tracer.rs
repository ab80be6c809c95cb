//! What the server needs of a framework.

use dtrace_abi::record::{EprobeDesc, RecordDesc};
use sdt_core::ops::{ArgDesc, ProbeId};

use crate::ecb::BATCH;
use crate::kernel::{ModuleText, Symbol};
use crate::registry::listing::info;
use crate::{
    AggregationDesc, ConsumerError, ConsumerId, Counters, Detail, Dtrace, Host, ProbeContext,
    ProbeInfo, Rights, Snapshot, Spec, Status, Which,
};

/// A framework, whatever its host is. Called by threads with interrupts on; in probe context functions that return an
/// `Option` return `None`, others [`ConsumerError::ProbeContext`].
pub trait Tracer: Sync {
    /// Refuses in probe context, where all other functions but [`cpus`](Self::cpus) and [`counters`](Self::counters) refuse, too.
    ///
    /// # Errors
    /// [`ProbeContext`].
    fn need_thread(&self) -> Result<(), ProbeContext>;

    /// CPUs that fire probes.
    fn cpus(&self) -> usize;

    /// What happened so far.
    fn counters(&self) -> Counters;

    /// As [`Dtrace::open_with`].
    ///
    /// # Errors
    /// As there.
    fn open(&self, rights: Rights) -> Result<ConsumerId, ConsumerError>;

    /// As [`Dtrace::close`].
    ///
    /// # Errors
    /// As there.
    fn close(&self, consumer: ConsumerId) -> Result<(), ConsumerError>;

    /// As [`Dtrace::enable`].
    ///
    /// # Errors
    /// As there.
    fn enable(&self, consumer: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError>;

    /// As [`Dtrace::disable`].
    ///
    /// # Errors
    /// As there.
    fn disable(&self, consumer: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError>;

    /// As [`Dtrace::claim`].
    fn claim(&self, rights: Rights) -> Option<ConsumerId>;

    /// As [`Dtrace::set_option`].
    ///
    /// # Errors
    /// As there.
    fn set_option(
        &self,
        consumer: ConsumerId,
        option: u32,
        value: i64,
    ) -> Result<(), ConsumerError>;

    /// As [`Dtrace::next_option`].
    ///
    /// # Errors
    /// As there.
    fn next_option(
        &self,
        consumer: ConsumerId,
        from: u32,
    ) -> Result<Option<(u32, i64)>, ConsumerError>;

    /// As [`Dtrace::program_piece`].
    ///
    /// # Errors
    /// As there.
    fn program_piece(
        &self,
        consumer: ConsumerId,
        size: usize,
        at: usize,
        piece: &[u8],
    ) -> Result<Option<u32>, ConsumerError>;

    /// As [`Dtrace::go`]; returns the CPU on which `dtrace:::BEGIN` has fired.
    ///
    /// # Errors
    /// As there.
    fn begin(&self, consumer: ConsumerId) -> Result<usize, ConsumerError>;

    /// As [`Dtrace::stop`]; returns the CPU on which `dtrace:::END` has fired.
    ///
    /// # Errors
    /// As there.
    fn end(&self, consumer: ConsumerId) -> Result<usize, ConsumerError>;

    /// As [`Dtrace::eprobe`].
    ///
    /// # Errors
    /// As there.
    fn eprobe(
        &self,
        consumer: ConsumerId,
        epid: u32,
        skip: usize,
        into: &mut [RecordDesc],
    ) -> Result<Option<EprobeDesc>, ConsumerError>;

    /// As [`Dtrace::aggregation`].
    ///
    /// # Errors
    /// As there.
    fn aggregation(
        &self,
        consumer: ConsumerId,
        aggregation: u32,
        skip: usize,
        into: &mut [RecordDesc],
    ) -> Result<Option<AggregationDesc>, ConsumerError>;

    /// As [`Dtrace::format`].
    ///
    /// # Errors
    /// As there.
    fn format(
        &self,
        consumer: ConsumerId,
        number: u16,
        at: usize,
        into: &mut [u8],
    ) -> Result<Option<usize>, ConsumerError>;

    /// As [`Dtrace::snapshot`].
    ///
    /// # Errors
    /// As there.
    fn snapshot(
        &self,
        consumer: ConsumerId,
        cpu: usize,
        which: Which,
        at: usize,
        into: &mut [u8],
    ) -> Result<Snapshot, ConsumerError>;

    /// As [`Dtrace::status`].
    ///
    /// # Errors
    /// As there.
    fn status(&self, consumer: ConsumerId) -> Result<Status, ConsumerError>;

    /// As [`Kernel::symbol`](crate::kernel::Kernel::symbol) of the framework's host.
    fn symbol(&self, address: u64, show: &mut dyn FnMut(Symbol<'_>));

    /// As [`Kernel::symbol_named`](crate::kernel::Kernel::symbol_named) of the framework's host.
    fn symbol_named(&self, module: Option<&[u8]>, name: &[u8], show: &mut dyn FnMut(Symbol<'_>));

    /// As [`Kernel::declared`](crate::kernel::Kernel::declared) of the framework's host.
    fn declared(&self, index: usize, show: &mut dyn FnMut(ModuleText<'_>));

    /// The probe with the least id above `after` that the description matches and who has these rights may use
    /// (`DTRACEIOC_PROBEMATCH`). With 0, providers are asked to provide what they have for the description first.
    fn next_probe(&self, spec: &Spec, after: u32, rights: Rights) -> Option<ProbeInfo>;

    /// As [`Dtrace::describe`].
    fn describe(&self, probe: ProbeId) -> Option<Detail>;

    /// The type of one argument of a probe, from 0, as its provider's `getargdesc` tells it; `None` past the last, when the
    /// provider has no such op, and if who has these rights may not use the probe.
    fn arg_desc(&self, probe: ProbeId, index: i32, rights: Rights) -> Option<ArgDesc>;

    /// As [`Dtrace::read`].
    ///
    /// # Errors
    /// As there.
    fn read(
        &self,
        consumer: ConsumerId,
        cpu: usize,
        into: &mut [u8],
    ) -> Result<usize, ConsumerError>;

    /// As [`Dtrace::drops`].
    ///
    /// # Errors
    /// As there.
    fn drops(&self, consumer: ConsumerId, cpu: usize) -> Result<u64, ConsumerError>;
}

impl<H: Host> Tracer for Dtrace<H> {
    fn need_thread(&self) -> Result<(), ProbeContext> {
        self.need_thread()
    }

    fn cpus(&self) -> usize {
        self.shared().map_or(0, |shared| shared.cpus.len())
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

    fn disable(&self, consumer: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError> {
        self.disable(consumer, spec)
    }

    fn claim(&self, rights: Rights) -> Option<ConsumerId> {
        self.claim(rights)
    }

    fn set_option(
        &self,
        consumer: ConsumerId,
        option: u32,
        value: i64,
    ) -> Result<(), ConsumerError> {
        self.set_option(consumer, option, value)
    }

    fn next_option(
        &self,
        consumer: ConsumerId,
        from: u32,
    ) -> Result<Option<(u32, i64)>, ConsumerError> {
        self.next_option(consumer, from)
    }

    fn program_piece(
        &self,
        consumer: ConsumerId,
        size: usize,
        at: usize,
        piece: &[u8],
    ) -> Result<Option<u32>, ConsumerError> {
        self.program_piece(consumer, size, at, piece)
    }

    fn begin(&self, consumer: ConsumerId) -> Result<usize, ConsumerError> {
        self.begin(consumer)
    }

    fn end(&self, consumer: ConsumerId) -> Result<usize, ConsumerError> {
        self.end(consumer)
    }

    fn eprobe(
        &self,
        consumer: ConsumerId,
        epid: u32,
        skip: usize,
        into: &mut [RecordDesc],
    ) -> Result<Option<EprobeDesc>, ConsumerError> {
        self.eprobe(consumer, epid, skip, into)
    }

    fn aggregation(
        &self,
        consumer: ConsumerId,
        aggregation: u32,
        skip: usize,
        into: &mut [RecordDesc],
    ) -> Result<Option<AggregationDesc>, ConsumerError> {
        self.aggregation(consumer, aggregation, skip, into)
    }

    fn format(
        &self,
        consumer: ConsumerId,
        number: u16,
        at: usize,
        into: &mut [u8],
    ) -> Result<Option<usize>, ConsumerError> {
        self.format(consumer, number, at, into)
    }

    fn snapshot(
        &self,
        consumer: ConsumerId,
        cpu: usize,
        which: Which,
        at: usize,
        into: &mut [u8],
    ) -> Result<Snapshot, ConsumerError> {
        self.snapshot(consumer, cpu, which, at, into)
    }

    fn status(&self, consumer: ConsumerId) -> Result<Status, ConsumerError> {
        self.status(consumer)
    }

    fn symbol(&self, address: u64, show: &mut dyn FnMut(Symbol<'_>)) {
        if self.need_thread().is_ok() {
            self.host.kernel().symbol(address, show);
        }
    }

    fn symbol_named(&self, module: Option<&[u8]>, name: &[u8], show: &mut dyn FnMut(Symbol<'_>)) {
        if self.need_thread().is_ok() {
            self.host.kernel().symbol_named(module, name, show);
        }
    }

    fn declared(&self, index: usize, show: &mut dyn FnMut(ModuleText<'_>)) {
        if self.need_thread().is_ok() {
            self.host.kernel().declared(index, show);
        }
    }

    fn next_probe(&self, spec: &Spec, after: u32, rights: Rights) -> Option<ProbeInfo> {
        if after == 0 {
            self.provide(&spec.desc()).ok()?;
        }
        self.need_thread().ok()?;
        // The probe at an index has the number behind it as its id.
        let mut from = after as usize;
        loop {
            let (found, to) = {
                let tables = self.tables.lock();
                let used = tables.probes_used();
                if from >= used {
                    return None;
                }
                let to = used.min(from + BATCH);
                let meant = |&at: &usize| tables.matches(at, spec) && tables.permits(at, rights);
                let found = (from..to).find(meant);
                // At once: a moment later another probe may be there.
                (found.and_then(|at| info(&tables, at)), to)
            };
            if found.is_some() {
                return found;
            }
            from = to;
        }
    }

    fn describe(&self, probe: ProbeId) -> Option<Detail> {
        self.describe(probe)
    }

    fn arg_desc(&self, probe: ProbeId, index: i32, rights: Rights) -> Option<ArgDesc> {
        self.arg_desc_for(probe, index, rights)
    }

    fn read(
        &self,
        consumer: ConsumerId,
        cpu: usize,
        into: &mut [u8],
    ) -> Result<usize, ConsumerError> {
        self.read(consumer, cpu, into)
    }

    fn drops(&self, consumer: ConsumerId, cpu: usize) -> Result<u64, ConsumerError> {
        self.drops(consumer, cpu)
    }
}
