//! Buffers of several CPUs: in the order of time, or each in turn (`dtrace_consume`, dt_consume.c).

use dtrace_compiler::surroundings::Description;

use super::bits::u64_of;
use super::consume::{Consumer, World, filler};
use super::error::Result;
use super::message::DropKind;
use super::sink::Sink;

/// A CPU's buffer, its oldest record first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// The CPU.
    pub cpu: u32,
    /// Its records.
    pub data: Vec<u8>,
    /// Records that had no room.
    pub drops: u64,
    /// When it was taken, in nanoseconds of the kernel's clock: it has all records up to then.
    pub taken: u64,
}

/// A buffer, and how much of it is consumed.
#[derive(Debug)]
struct Rest {
    buffer: Buffer,
    at: usize,
}

impl Rest {
    /// When its next record was made; `None` if there is none.
    fn time(&self) -> Option<u64> {
        let data = &self.buffer.data[self.at..];
        let record = &data[filler(data)?..];
        let word = |at: usize| u64_of(record.get(at..at + 4).unwrap_or_default());
        Some(word(4) << 32 | word(8))
    }
}

/// CPUs on which a run began and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Where `dtrace:::BEGIN` fired, if this is the first time that buffers were taken.
    pub began: Option<u32>,
    /// Where `dtrace:::END` fired, if the run is over.
    pub ended: Option<u32>,
}

/// Records in the order of time (`-x temporal`): what is newer than the oldest buffer waits for the next.
#[derive(Debug, Default)]
pub struct Schedule {
    rests: Vec<Rest>,
}

impl Schedule {
    /// Nothing waits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> u64 {
        self.rests.iter().map(|rest| rest.buffer.data.capacity() as u64).sum()
    }

    /// Consumes buffers that were taken one after the other; after the end of a run nothing waits.
    ///
    /// # Errors
    ///
    /// They are not what the descriptions say, or cannot be shown or written.
    pub fn in_time(
        &mut self,
        consumer: &mut Consumer,
        buffers: Vec<Buffer>,
        over: bool,
        world: &mut World<'_>,
        sink: &mut dyn Sink,
    ) -> Result {
        let first = buffers.first().map_or(0, |buffer| buffer.taken);
        let drops: Vec<_> = buffers.iter().map(|buffer| (buffer.cpu, buffer.drops)).collect();
        self.rests.extend(buffers.into_iter().map(|buffer| Rest { buffer, at: 0 }));
        let key = |rest: &Rest| (rest.time().unwrap_or(rest.buffer.taken), rest.time().is_none());
        while let Some(index) = (0..self.rests.len()).min_by_key(|&index| key(&self.rests[index])) {
            let rest = &mut self.rests[index];
            let data = &rest.buffer.data[rest.at..];
            match consumer.one(rest.buffer.cpu, data, |_| true, world, sink)? {
                Some(consumed) => rest.at += consumed,
                None => {
                    let taken = self.rests.remove(index).buffer.taken;
                    if taken >= first && !over {
                        break;
                    }
                }
            }
        }
        for (cpu, count) in drops {
            consumer.drops(DropKind::Principal(cpu), count, world, sink)?;
        }
        Ok(())
    }

    /// Consumes one buffer after the other; only `BEGIN` comes first and `END` last.
    ///
    /// # Errors
    ///
    /// As [`in_time`](Self::in_time).
    pub fn in_turn(
        consumer: &mut Consumer,
        buffers: &[Buffer],
        ends: Ends,
        world: &mut World<'_>,
        sink: &mut dyn Sink,
    ) -> Result {
        let is_begin = |probe: &Description| probe.provider == "dtrace" && probe.name == "BEGIN";
        let apart = ends.began.is_some() && ends.began == ends.ended;
        let on = |cpu: Option<u32>| buffers.iter().filter(move |buffer| Some(buffer.cpu) == cpu);
        let mut all = |buffer: &Buffer, which: &dyn Fn(&Description) -> bool| -> Result {
            consumer.restart_flow();
            let mut rest = &buffer.data[..];
            while let Some(consumed) = consumer.one(buffer.cpu, rest, which, world, sink)? {
                rest = &rest[consumed..];
            }
            Ok(())
        };
        for buffer in on(ends.began) {
            all(buffer, if apart { &is_begin } else { &|_| true })?;
        }
        for buffer in buffers {
            if Some(buffer.cpu) != ends.began && Some(buffer.cpu) != ends.ended {
                all(buffer, &|_| true)?;
            }
        }
        for buffer in on(ends.ended) {
            let rest = |probe: &Description| !is_begin(probe);
            all(buffer, if apart { &rest } else { &|_| true })?;
        }
        for buffer in buffers {
            consumer.drops(DropKind::Principal(buffer.cpu), buffer.drops, world, sink)?;
        }
        Ok(())
    }
}
