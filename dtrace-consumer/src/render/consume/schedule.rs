//! The order in which records of several CPUs are consumed: by time, or one buffer after the other (`dtrace_consume`,
//! dt_consume.c).

use dtrace_compiler::surroundings::Description;

use crate::render::consume::{Consumer, World, filler};
use crate::render::data::bits::u64_of;
use crate::render::data::error::Result;
use crate::render::sink::Sink;
use crate::render::sink::message::DropKind;

/// A CPU's buffer, its oldest record first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// The CPU.
    pub cpu: u32,
    /// Its records.
    pub data: Vec<u8>,
    /// Records that were dropped because the buffer was full.
    pub drops: u64,
    /// The time of the read in nanoseconds of the kernel's clock: the buffer has all records up to then.
    pub taken: u64,
}

/// The time of the next record of a buffer; if there is none, the time at which the buffer was read, and `true`.
type Key = (u64, bool);

/// A buffer that is partly consumed.
#[derive(Debug)]
struct Rest {
    buffer: Buffer,
    at: usize,
}

impl Rest {
    /// Returns the position in the order of all buffers: the time of the next record, or, if no record is left, a position after
    /// all records up to the read.
    fn key(&self) -> Key {
        let time = self.time();
        (time.unwrap_or(self.buffer.taken), time.is_none())
    }

    /// Returns the time of the next record; `None` if there is none.
    fn time(&self) -> Option<u64> {
        let data = &self.buffer.data[self.at..];
        let record = &data[filler(data)?..];
        let word = |at: usize| u64_of(record.get(at..at + 4).unwrap_or_default());
        Some(word(4) << 32 | word(8))
    }
}

/// The CPUs on which a run began and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// The CPU on which `dtrace:::BEGIN` fired, for the first read of the buffers.
    pub began: Option<u32>,
    /// The CPU on which `dtrace:::END` fired, if the run is over.
    pub ended: Option<u32>,
}

/// Consumes records in the order of time (`-x temporal`). Records that are newer than the oldest buffer wait for the next read.
#[derive(Debug, Default)]
pub struct Schedule {
    rests: Vec<Rest>,
}

impl Schedule {
    /// Creates a schedule without waiting records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the size of the waiting buffers in bytes.
    pub fn waiting(&self) -> u64 {
        self.rests.iter().map(|rest| rest.buffer.data.capacity() as u64).sum()
    }

    /// Returns the index of the buffer with the oldest record, and the key and index of the buffer after it.
    fn oldest(&self) -> Option<(usize, Option<(Key, usize)>)> {
        let mut keys = self.rests.iter().enumerate().map(|(index, rest)| (rest.key(), index));
        let (mut oldest, mut next) = (keys.next()?, None);
        for key in keys {
            if key < oldest {
                next = Some(std::mem::replace(&mut oldest, key));
            } else if next.is_none_or(|next| key < next) {
                next = Some(key);
            }
        }
        Some((oldest.1, next))
    }

    /// Consumes buffers that were read one after the other. If the run is `over`, no record waits.
    ///
    /// # Errors
    /// The records do not match the descriptions, or cannot be shown, or writing failed.
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
        'read: while let Some((index, next)) = self.oldest() {
            // Consumes records until another buffer has the oldest one.
            while next.is_none_or(|next| (self.rests[index].key(), index) < next) {
                let rest = &mut self.rests[index];
                let data = &rest.buffer.data[rest.at..];
                match consumer.one(rest.buffer.cpu, data, |_| true, world, sink)? {
                    Some(consumed) => rest.at += consumed,
                    None => {
                        let taken = self.rests.remove(index).buffer.taken;
                        if taken >= first && !over {
                            break 'read;
                        }
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

    /// Consumes one buffer after the other, with the records of `BEGIN` first and those of `END` last.
    ///
    /// # Errors
    /// See [`in_time`](Self::in_time).
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
