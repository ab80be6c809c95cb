//! Consumers open the framework, enable probes, and read what was recorded.

use core::sync::atomic::Ordering;

use crate::consumer::{Buffer, Consumer, ConsumerError, ConsumerId};
use crate::dtrace::Dtrace;
use crate::ecb::{DEFAULT_ACTIONS, Ecb};
use crate::host::Host;
use crate::provider::number;
use crate::record::Record;
use crate::spec::Spec;
use crate::sync::widen;
use crate::tables::Tables;

impl<
    H: Host,
    const CPUS: usize,
    const RECORDS: usize,
    const CONSUMERS: usize,
    const PROBES: usize,
    const ECBS: usize,
    const PROVIDERS: usize,
> Dtrace<H, CPUS, RECORDS, CONSUMERS, PROBES, ECBS, PROVIDERS>
{
    /// Opens the framework for one more consumer. While any is open, no provider can be unregistered.
    ///
    /// # Errors
    /// [`ConsumerError::TooManyConsumers`], [`ConsumerError::TooManyCpus`].
    pub fn open(&self) -> Result<ConsumerId, ConsumerError> {
        let cpus = self.host.cpus();
        if cpus > CPUS {
            return Err(ConsumerError::TooManyCpus { cpus, max: CPUS });
        }
        let mut tables = self.tables.lock();
        let consumer = self
            .consumers
            .iter()
            .find(|consumer| !consumer.is_open())
            .ok_or(ConsumerError::TooManyConsumers { max: CONSUMERS })?;
        let id = loop {
            tables.last_consumer = tables.last_consumer.wrapping_add(1);
            match ConsumerId::new(tables.last_consumer) {
                Some(id) if !self.consumers.iter().any(|other| other.is(id)) => break id,
                _ => {}
            }
        };
        consumer.number.store(id.get(), Ordering::Release);
        Ok(id)
    }

    /// Closes a consumer: its enablings go, probes that nobody else has enabled are disabled, and what
    /// was recorded for it and not drained is dropped.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn close(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        let mut tables = self.tables.lock();
        let (index, consumer) = self.consumer(id)?;
        consumer.going.store(false, Ordering::Release);
        self.remove(&mut tables, index, None);
        consumer.number.store(0, Ordering::Release);
        // Nobody writes any more. Who is draining just now finishes first, and who comes later finds
        // the consumer closed.
        for buffer in &consumer.buffers {
            let mut reader = buffer.reader.lock();
            // SAFETY: holding the lock makes this the ring's reader.
            while unsafe { buffer.ring.pop() }.is_some() {}
            reader.reported = buffer.ring.dropped();
        }
        Ok(())
    }

    /// From here on records are written for the consumer.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn go(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        let _tables = self.tables.lock();
        let (_, consumer) = self.consumer(id)?;
        consumer.going.store(true, Ordering::Release);
        Ok(())
    }

    /// Ends what [`go`](Self::go) began. After the return no CPU is writing for the consumer any more,
    /// so what is drained then is complete. Its enablings stay.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn stop(&self, id: ConsumerId) -> Result<(), ConsumerError> {
        let _tables = self.tables.lock();
        let (_, consumer) = self.consumer(id)?;
        consumer.going.store(false, Ordering::Release);
        self.host.sync();
        Ok(())
    }

    /// Enables all probes that the description matches now, and returns how many that are; none is no
    /// error. Probes created later are not enabled by this.
    ///
    /// Each call is an enabling of its own, as each clause of a D program is: a probe that one consumer
    /// enables twice makes two records. The provider's `enable` is called when a probe gets its first
    /// enabling of anyone; like FreeBSD's framework this one does not look at its result.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`]; [`ConsumerError::TooManyEnablings`], and nothing was enabled.
    pub fn enable(&self, id: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError> {
        self.provide(&spec.desc());
        let mut tables = self.tables.lock();
        let (consumer, _) = self.consumer(id)?;
        let needed = (0..PROBES).filter(|&index| tables.matches(index, spec)).count();
        let left = tables.ecbs.available();
        if needed > left {
            return Err(ConsumerError::TooManyEnablings { needed, left });
        }
        for index in 0..PROBES {
            if !tables.matches(index, spec) {
                continue;
            }
            let Some(ecb) = tables.ecbs.take() else { break };
            // SAFETY: the pool hands out an ECB that is in no chain and that no CPU looks at.
            unsafe { self.ecbs[ecb].fill(Ecb { consumer, actions: DEFAULT_ACTIONS }) };
            // SAFETY: it has just been filled, and the framework is locked.
            unsafe { self.sites[index].chain.append(&self.ecbs, ecb) };
            let probe = &mut tables.probes[index];
            probe.ecbs += 1;
            if probe.ecbs == 1 {
                let (provider, parg) = (probe.provider, probe.parg);
                let provider = &tables.providers[provider];
                if let Some(enable) = provider.live_ops().and_then(|ops| ops.enable) {
                    // SAFETY: the op was declared sound at registration.
                    unsafe { enable(provider.arg.0, number(index), parg.0) };
                }
            }
        }
        Ok(needed as u32)
    }

    /// Takes away all enablings that the consumer has on probes that the description matches, and
    /// returns how many probes that were. The provider's `disable` is called when a probe loses its last
    /// enabling of anyone. After the return no CPU is recording for them any more.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`].
    pub fn disable(&self, id: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError> {
        let mut tables = self.tables.lock();
        let (consumer, _) = self.consumer(id)?;
        Ok(self.remove(&mut tables, consumer, Some(spec)))
    }

    /// Takes the records of one CPU out of the consumer's buffer, oldest first, up to the latest at the
    /// time of the call, and returns how many. They are in the order in which they were written; order
    /// between CPUs can be had from their timestamps.
    ///
    /// Works whether the consumer is going or not. `f` must not call the framework: whoever closes the
    /// consumer meanwhile holds the framework's lock and waits for `f`.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`], [`ConsumerError::NoCpu`].
    pub fn drain(
        &self,
        id: ConsumerId,
        cpu: usize,
        f: &mut impl FnMut(Record),
    ) -> Result<usize, ConsumerError> {
        let (consumer, buffer) = self.buffer(id, cpu)?;
        let _reader = buffer.reader.lock();
        // It may have been closed, and opened for another one, before the lock was ours.
        if !consumer.is(id) {
            return Err(ConsumerError::NotOpen(id));
        }
        let count = buffer.ring.len();
        for _ in 0..count {
            // SAFETY: holding the lock makes this the ring's reader.
            if let Some(record) = unsafe { buffer.ring.pop() } {
                f(record);
            }
        }
        Ok(count)
    }

    /// How many records of the consumer were dropped on one CPU, because its buffer was full, since this
    /// function was last asked: every drop is reported once.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`], [`ConsumerError::NoCpu`].
    pub fn drops(&self, id: ConsumerId, cpu: usize) -> Result<u64, ConsumerError> {
        let (consumer, buffer) = self.buffer(id, cpu)?;
        let mut reader = buffer.reader.lock();
        if !consumer.is(id) {
            return Err(ConsumerError::NotOpen(id));
        }
        let dropped = buffer.ring.dropped();
        let since = dropped.wrapping_sub(reader.reported);
        reader.reported = dropped;
        Ok(widen(since))
    }

    fn consumer(&self, id: ConsumerId) -> Result<(usize, &Consumer<CPUS, RECORDS>), ConsumerError> {
        self.consumers
            .iter()
            .enumerate()
            .find(|(_, consumer)| consumer.is(id))
            .ok_or(ConsumerError::NotOpen(id))
    }

    fn buffer(
        &self,
        id: ConsumerId,
        cpu: usize,
    ) -> Result<(&Consumer<CPUS, RECORDS>, &Buffer<RECORDS>), ConsumerError> {
        let (_, consumer) = self.consumer(id)?;
        let buffer = consumer.buffers.get(cpu).ok_or(ConsumerError::NoCpu(cpu))?;
        Ok((consumer, buffer))
    }

    /// Removes the enablings that a consumer, by index, has on the probes that `spec` matches, or on
    /// all; returns on how many probes there were any. Afterwards no CPU looks at them.
    fn remove(
        &self,
        tables: &mut Tables<PROBES, ECBS, PROVIDERS>,
        consumer: usize,
        spec: Option<&Spec>,
    ) -> u32 {
        let mut count = 0;
        for (index, site) in self.sites.iter().enumerate() {
            if tables.probes[index].ecbs == 0
                || spec.is_some_and(|spec| !tables.matches(index, spec))
            {
                continue;
            }
            let mut removed = 0;
            site.chain.for_each(&self.ecbs, |at, ecb| {
                if ecb.consumer == consumer {
                    // SAFETY: the framework is locked. The walk goes on from the link that an
                    // unlinked ECB keeps.
                    unsafe { site.chain.unlink(&self.ecbs, at) };
                    tables.ecbs.retire(at);
                    removed += 1;
                }
            });
            if removed == 0 {
                continue;
            }
            count += 1;
            let probe = &mut tables.probes[index];
            probe.ecbs -= removed;
            if probe.ecbs == 0 {
                let (provider, parg) = (probe.provider, probe.parg);
                let provider = &tables.providers[provider];
                if let Some(disable) = provider.live_ops().and_then(|ops| ops.disable) {
                    // SAFETY: the op was declared sound at registration.
                    unsafe { disable(provider.arg.0, number(index), parg.0) };
                }
            }
        }
        if tables.ecbs.has_retired() {
            self.host.sync();
            tables.ecbs.reclaim();
        }
        count
    }
}
