//! Reads what [`Tracer::enable`] has had recorded, for consumers that have no compiler.

use dtrace_protocol::{Record as Sent, Reply, Writer};

use super::refusal::Refusal;
use super::reply::Answer;
use crate::control::arguments::{Record, records};
use crate::control::query::Which;
use crate::control::tracer::Tracer;
use crate::run::consumer::ConsumerId;

/// How far a consumer has read.
#[derive(Debug)]
pub(super) struct Reading {
    /// A buffer that was switched, and not read to its end.
    open: Option<Open>,
    /// The CPU whose buffer is switched first, so that none is forgotten over another.
    next_cpu: usize,
    /// How many hits were recorded, or not for want of room, when all buffers were empty.
    recorded: u64,
}

#[derive(Debug)]
struct Open {
    cpu: usize,
    /// Bytes of it, and how many of them were read.
    size: usize,
    at: usize,
    drops: u64,
    /// The first record of it, which came with the switch.
    first: [u8; Record::SIZE],
}

impl Reading {
    /// Nothing was read.
    pub(super) const NONE: Self = Self { open: None, next_cpu: 0, recorded: 0 };

    /// Answers with records of one CPU; `None` if there is nothing on any.
    pub(super) fn read(
        &mut self,
        tracer: &dyn Tracer,
        consumer: ConsumerId,
        answer: &mut Answer<'_>,
    ) -> Result<Option<usize>, Refusal> {
        if self.open.is_none() {
            self.open = self.switch(tracer, consumer)?;
        }
        let Some(Open { cpu, size, at, drops, first }) = &mut self.open else { return Ok(None) };
        let reply = Reply::Records { cpu: *cpu as u32, drops: core::mem::take(drops) };
        let fill = |writer: &mut Writer<'_>| {
            // The first one always fits: see `MIN_FRAME`. Another one is read only if it will.
            while *at < *size && (writer.left() >= Sent::MAX_LEN || *at == 0) {
                let mut bytes = *first;
                // At 0 the buffer would be switched again.
                if *at != 0 {
                    tracer.snapshot(consumer, *cpu, Which::Records, *at, &mut bytes)?;
                }
                *at += Record::SIZE;
                let Some(Record { epid, timestamp, args }) = records(&bytes).next() else { break };
                let probe = tracer.eprobe(consumer, epid, 0, &mut [])?.map_or(0, |of| of.probe);
                let _ = writer.push(&Sent { probe, timestamp, args });
            }
            Ok(())
        };
        let length = answer.with_items(&reply, fill);
        if *at >= *size {
            self.open = None;
        }
        length.map(Some)
    }

    /// Switches the buffers of one CPU after the other until there is something in one.
    fn switch(
        &mut self,
        tracer: &dyn Tracer,
        consumer: ConsumerId,
    ) -> Result<Option<Open>, Refusal> {
        let counters = tracer.counters();
        let recorded = counters.records.wrapping_add(counters.drops);
        // Buffers are switched by interrupting all CPUs: not if nothing was recorded, for whichever consumer.
        if recorded == self.recorded {
            return Ok(None);
        }
        for _ in 0..tracer.cpus() {
            let cpu = self.next_cpu;
            self.next_cpu = (cpu + 1) % tracer.cpus();
            let mut first = [0; Record::SIZE];
            let found = tracer.snapshot(consumer, cpu, Which::Records, 0, &mut first)?;
            let (size, drops) = (found.size, found.drops);
            if size != 0 || drops != 0 {
                return Ok(Some(Open { cpu, size, at: 0, drops, first }));
            }
        }
        self.recorded = recorded;
        Ok(None)
    }
}
