//! Consumers open the framework, enable probes, and read what was recorded.

use core::sync::atomic::Ordering;

use dtrace_abi::spec::Spec;

use crate::buffer::Record;
use crate::buffer::{Buffer, Consumer, ConsumerError, ConsumerId};
use crate::dtrace::Dtrace;
use crate::ecb::{DEFAULT_ACTIONS, Ecb};
use crate::host::Host;
use crate::registry::provider::number;
use crate::registry::tables::{EcbUse, Tables};
use crate::sync::widen;

/// How many probes are looked at while the framework is locked once.
pub(crate) const BATCH: usize = 64;

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
        self.remove(&mut tables, index, |_, _| true);
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
    /// [`ConsumerError::NotOpen`]; [`ConsumerError::TooManyEnablings`], and nothing stays enabled.
    pub fn enable(&self, id: ConsumerId, spec: &Spec) -> Result<u32, ConsumerError> {
        self.provide(&spec.desc());
        // Counted first, so that a provider does not see what comes to nothing.
        let mut needed = 0;
        self.for_each_match(spec, |_, _| {
            needed += 1;
            Ok(())
        })?;
        let enabling = {
            let mut tables = self.tables.lock();
            self.consumer(id)?;
            let left = tables.ecbs.available();
            if needed > left {
                return Err(ConsumerError::TooManyEnablings { needed, left });
            }
            tables.enablings = tables.enablings.wrapping_add(1);
            tables.enablings
        };
        let mut enabled = 0;
        let result = self.for_each_match(spec, |tables, at| {
            let (consumer, _) = self.consumer(id)?;
            let what = EcbUse { probe: at, enabling };
            let Some(ecb) = tables.ecbs.take(consumer, what) else {
                return Err(ConsumerError::TooManyEnablings { needed, left: enabled as usize });
            };
            enabled += 1;
            self.add(tables, at, ecb, Ecb { consumer, actions: DEFAULT_ACTIONS });
            Ok(())
        });
        if let Err(error) = result {
            // Others were faster.
            let mut tables = self.tables.lock();
            if let Ok((consumer, _)) = self.consumer(id) {
                self.remove(&mut tables, consumer, |_, what| what.enabling == enabling);
            }
            return Err(error);
        }
        Ok(enabled)
    }

    /// Puts an ECB on a probe's chain.
    fn add(
        &self,
        tables: &mut Tables<PROBES, ECBS, PROVIDERS, CONSUMERS>,
        at: usize,
        ecb: usize,
        body: Ecb,
    ) {
        // SAFETY: the pool hands out an ECB that is in no chain and that no CPU looks at.
        unsafe { self.ecbs[ecb].fill(body) };
        // SAFETY: it has just been filled, and the framework is locked.
        unsafe { self.sites[at].chain.append(&self.ecbs, ecb) };
        let Some((probe, provider)) = tables.probe_mut(at) else { return };
        probe.ecbs += 1;
        if probe.ecbs == 1 {
            provider.enabled += 1;
            if let Some(enable) = provider.ops.enable {
                // SAFETY: the op was declared sound at registration.
                unsafe { enable(provider.arg.0, number(at), probe.parg.0) };
            }
        }
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
        Ok(self.remove(&mut tables, consumer, |tables, what| tables.matches(what.probe, spec)))
    }

    /// Takes the records of one CPU out of the consumer's buffer, oldest first, up to the latest at the
    /// time of the call, and returns how many. They are in the order in which they were written; order
    /// between CPUs can be had from their timestamps.
    ///
    /// Works whether the consumer is going or not. No lock is held while `f` runs. If it closes the consumer, or
    /// another thread does, that was the last record.
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
        let mut left = None;
        let mut count = 0;
        loop {
            let reader = buffer.reader.lock();
            // It may have been closed, and opened for another one, before the lock was ours.
            if !consumer.is(id) {
                return if count == 0 { Err(ConsumerError::NotOpen(id)) } else { Ok(count) };
            }
            if *left.get_or_insert_with(|| buffer.ring.len()) == count {
                return Ok(count);
            }
            // SAFETY: holding the lock makes this the ring's reader.
            let Some(record) = (unsafe { buffer.ring.pop() }) else { return Ok(count) };
            drop(reader);
            count += 1;
            f(record);
        }
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

    /// Calls `f` for every probe that a description means, with the framework locked: all the time if few can
    /// be meant, otherwise anew for every few probes that are looked at.
    fn for_each_match(
        &self,
        spec: &Spec,
        mut f: impl FnMut(
            &mut Tables<PROBES, ECBS, PROVIDERS, CONSUMERS>,
            usize,
        ) -> Result<(), ConsumerError>,
    ) -> Result<(), ConsumerError> {
        {
            let mut tables = self.tables.lock();
            let few = tables.candidates(spec).filter(|candidates| candidates.len() <= BATCH);
            if let Some(few) = few {
                let few: heapless::Vec<usize, BATCH> = few.iter().take(BATCH).collect();
                for at in few {
                    if tables.matches(at, spec) {
                        f(&mut tables, at)?;
                    }
                }
                return Ok(());
            }
        }
        let mut from = 0;
        loop {
            let mut tables = self.tables.lock();
            let to = tables.probes_used().min(from + BATCH);
            for at in from..to {
                if tables.matches(at, spec) {
                    f(&mut tables, at)?;
                }
            }
            if to == tables.probes_used() {
                return Ok(());
            }
            from = to;
        }
    }

    /// Removes those of a consumer's enablings, by index, that `which` means; returns on how many probes there
    /// were any. Afterwards no CPU looks at them.
    fn remove(
        &self,
        tables: &mut Tables<PROBES, ECBS, PROVIDERS, CONSUMERS>,
        consumer: usize,
        which: impl Fn(&Tables<PROBES, ECBS, PROVIDERS, CONSUMERS>, EcbUse) -> bool,
    ) -> u32 {
        let mut count = 0;
        let mut next = tables.ecbs.first_of(consumer);
        while let Some(ecb) = next {
            next = tables.ecbs.next(ecb);
            let what = tables.ecbs.used_for(ecb);
            if !which(tables, what) {
                continue;
            }
            let chain = &self.sites[what.probe].chain;
            // SAFETY: the framework is locked.
            unsafe { chain.unlink(&self.ecbs, ecb) };
            tables.ecbs.retire(consumer, ecb);
            let mut more = false;
            chain.for_each(&self.ecbs, |_, other| more |= other.consumer == consumer);
            count += u32::from(!more);
            let Some((probe, provider)) = tables.probe_mut(what.probe) else { continue };
            probe.ecbs -= 1;
            if probe.ecbs == 0 {
                provider.enabled -= 1;
                if let Some(disable) = provider.ops.disable {
                    // SAFETY: the op was declared sound at registration.
                    unsafe { disable(provider.arg.0, number(what.probe), probe.parg.0) };
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
