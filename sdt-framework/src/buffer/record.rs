//! What a firing leaves behind.
//!
//! A record begins with the number of the enabled probe (EPID) and the time, as in DTrace ([`RecordHeader`]);
//! behind these it has its size. What follows is what the enabling says: see [`Recording`].

use dtrace_abi::action::Action;
pub use dtrace_abi::limits::ARGS;
use dtrace_abi::reader::{Field, Reader, Truncated};
use dtrace_abi::record::{RecordDesc, RecordHeader};
use sdt_core::ops::ProbeId;

/// Bytes of a record before its data: [`RecordHeader`], then a `u32` with the size of the whole record.
pub const HEADER: usize = RecordHeader::SIZE + 4;

/// Bytes of the longest record that a [`Recording`] makes.
pub const LONGEST: usize = Recording::DEFAULT.size();

/// What an enabling records of each firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recording {
    /// Number of the probe and of the CPU, 4 bytes each, then this many arguments, 8 bytes each; at most
    /// [`ARGS`]. What the probe does not have is 0, or what its provider's `getargval` makes of it.
    Args(u8),
}

impl Recording {
    /// All arguments.
    pub const DEFAULT: Self = Self::Args(ARGS as u8);

    /// How many arguments.
    pub(crate) const fn args(self) -> usize {
        let Self::Args(args) = self;
        if args as usize > ARGS { ARGS } else { args as usize }
    }

    /// Bytes of one record, header and all.
    pub const fn size(self) -> usize {
        HEADER + 8 + 8 * self.args()
    }

    /// Its data in order, as DTrace describes them.
    pub fn descriptions(self) -> impl ExactSizeIterator<Item = RecordDesc> {
        (0..2 + self.args()).map(|n| {
            let (offset, size) = match n {
                0 | 1 => (HEADER + 4 * n, 4),
                _ => (HEADER + 8 * (n - 1), 8),
            };
            RecordDesc {
                action: Action::DifExpr.number(),
                size,
                offset: offset as u32,
                alignment: size as u16,
                ..RecordDesc::EMPTY
            }
        })
    }
}

/// One record, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Number of the enabled probe: [`Dtrace::eprobe`](crate::Dtrace::eprobe) says what it is.
    pub epid: u32,
    /// When, in nanoseconds since boot.
    pub timestamp: u64,
    /// What its enabling records.
    pub data: &'a [u8],
}

impl Record<'_> {
    /// What it says, if it is [`Recording::Args`]'s.
    pub fn firing(&self) -> Option<Firing> {
        let mut data = Reader::new(self.data);
        let probe = ProbeId::new(u32::read(&mut data).ok()?)?;
        let cpu = u32::read(&mut data).ok()?;
        let mut args = [0; ARGS];
        for arg in &mut args {
            if data.is_empty() {
                break;
            }
            *arg = u64::read(&mut data).ok()?;
        }
        data.is_empty().then_some(Firing { probe, cpu, timestamp: self.timestamp, args })
    }
}

/// One firing, as [`Recording::Args`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The probe that fired.
    pub probe: ProbeId,
    /// CPU it fired on.
    pub cpu: u32,
    /// When, in nanoseconds since boot.
    pub timestamp: u64,
    /// Raw arguments; 0 for those that are not recorded.
    pub args: [u64; ARGS],
}

/// The records in bytes that were [read](crate::Dtrace::read).
#[derive(Clone, Debug)]
pub struct Records<'a>(Reader<'a>);

impl<'a> Records<'a> {
    /// The records in these bytes. Bytes of others do no harm: what is no record ends them.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(Reader::new(bytes))
    }

    fn record(&mut self) -> Result<Record<'a>, Truncated> {
        let header = RecordHeader::read(&mut self.0)?;
        let size = u32::read(&mut self.0)? as usize;
        let data = self.0.bytes(size.saturating_sub(HEADER))?;
        Ok(Record { epid: header.epid, timestamp: header.time(), data })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let record = self.record().ok();
        if record.is_none() {
            self.0 = Reader::new(&[]);
        }
        record
    }
}

/// A firing on its way into the buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) probe: u32,
    pub(crate) cpu: u32,
    pub(crate) timestamp: u64,
    pub(crate) args: [u64; ARGS],
}

impl Event {
    /// The record of it that an enabling makes. Probe context.
    pub(crate) fn record(&self, epid: u32, recording: Recording) -> ([u64; LONGEST / 8], usize) {
        let size = recording.size();
        let mut words = [0; LONGEST / 8];
        // As bytes these are the header's fields in order: a word's lower half is first.
        let pair = |first: u32, second: u32| u64::from(first) | u64::from(second) << 32;
        let start = [
            pair(epid, (self.timestamp >> 32) as u32),
            pair(self.timestamp as u32, size as u32),
            pair(self.probe, self.cpu),
        ];
        let args = self.args.iter().take(recording.args());
        for (word, value) in words.iter_mut().zip(start.iter().chain(args)) {
            *word = *value;
        }
        (words, size / 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(epid: u32, recording: Recording) -> Vec<u8> {
        let args = core::array::from_fn(|n| 0x1_0000_0000 + n as u64);
        let event = Event { probe: 7, cpu: 3, timestamp: 0x2_0000_0005, args };
        let (words, len) = event.record(epid, recording);
        words[..len].iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_record_is_as_it_is_described() {
        for args in [0, 1, 2, 9, 10, 200] {
            let recording = Recording::Args(args);
            let of = recording.descriptions();
            assert_eq!(of.len(), 2 + usize::from(args).min(ARGS));
            let bytes = bytes(9, recording);
            assert_eq!(bytes.len(), recording.size());
            let values = of.map(|desc| {
                assert_eq!(desc.offset % u32::from(desc.alignment), 0);
                let mut value = [0; 8];
                let datum = &bytes[desc.offset as usize..][..desc.size as usize];
                value[..datum.len()].copy_from_slice(datum);
                u64::from_le_bytes(value)
            });
            let expected = [7, 3].into_iter().chain((0..10).map(|n| 0x1_0000_0000 + n));
            assert!(values.eq(expected.take(2 + usize::from(args).min(ARGS))));
        }
    }

    #[test]
    fn records_come_back() {
        let all = [bytes(1, Recording::Args(2)), bytes(2, Recording::DEFAULT)].concat();
        let records: Vec<_> = Records::new(&all).collect();
        assert_eq!(records.iter().map(|record| record.epid).collect::<Vec<_>>(), [1, 2]);
        let [short, long] = [0, 1].map(|n| records[n].firing().unwrap());
        assert_eq!((short.timestamp, short.cpu, short.probe.get()), (0x2_0000_0005, 3, 7));
        assert_eq!(short.args[..3], [0x1_0000_0000, 0x1_0000_0001, 0]);
        assert_eq!(long.args[9], 0x1_0000_0009);
    }

    #[test]
    fn what_is_no_record_ends_them() {
        let all = bytes(1, Recording::DEFAULT);
        for len in 1..all.len() {
            assert_eq!(Records::new(&all[..len]).count(), 0, "{len}");
        }
        assert_eq!(Records::new(&[0; 40]).take(9).count(), 2);
        let record = Record { epid: 1, timestamp: 0, data: &[1, 0, 0, 0, 0, 0, 0, 0, 9] };
        assert_eq!(record.firing(), None);
    }
}
