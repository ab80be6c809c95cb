//! D programs that enable some of the tortured probes. At the end, their counts and the number of their records are compared with
//! the number of hits.
//!
//! The programs start before the first hit and stop after the last one, so they must see every hit. Meanwhile, their buffers are
//! switched repeatedly.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use dtrace_abi::option::OptionId;
use dtrace_abi::record::{RecordDesc, RecordHeader};
use sdt_core::ops::ProbeId;
use sdt_framework::{ConsumerError, ConsumerId, Rights, Which as Buffer};

use crate::dtrace::DTRACE;
use crate::smp;
use crate::standin::{TORTURED, Totals, Which};

/// The sizes in bytes of the two buffers of each CPU.
const RECORDS: i64 = 64 << 10;
const AGGREGATIONS: i64 = 16 << 10;

const NONE: RecordDesc =
    RecordDesc { action: 0, pad: 0, size: 0, offset: 0, alignment: 0, format: 0, arg: 0, uarg: 0 };

/// The data of the programs so far.
pub(super) struct Programs {
    consumer: ConsumerId,
    /// The ids of the probes that the programs enable.
    probes: Vec<u32>,
    /// The results of `count()` for each tortured probe.
    counted: [u64; TORTURED.len()],
    records: u64,
    drops: u64,
    before: Totals,
}

impl Programs {
    /// Starts the programs in DOF, before any CPU fires.
    ///
    /// # Errors
    /// If the framework refuses the programs.
    pub(super) fn start(dof: &[u8]) -> Result<Self, ConsumerError> {
        let consumer = DTRACE.open_with(Rights::ALL)?;
        let start = || {
            DTRACE.set_option(consumer, OptionId::Bufsize as u32, RECORDS)?;
            DTRACE.set_option(consumer, OptionId::Aggsize as u32, AGGREGATIONS)?;
            DTRACE.enable_program(consumer, dof)?;
            DTRACE.go(consumer)
        };
        if let Err(error) = start() {
            DTRACE.close(consumer)?;
            return Err(error);
        }
        let mut probes = Vec::new();
        for epid in 1.. {
            let Some(enabled) = DTRACE.eprobe(consumer, epid, 0, &mut [])? else { break };
            probes.push(enabled.probe);
        }
        let counted = [0; TORTURED.len()];
        Ok(Self { consumer, probes, counted, records: 0, drops: 0, before: Totals::now() })
    }

    /// Returns whether the programs enable this probe.
    pub(super) fn are_on(&self, which: Which) -> bool {
        which.probe().id().is_some_and(|id| self.probes.contains(&id.get()))
    }

    /// Reads the data that all CPUs have recorded by now.
    pub(super) fn take(&mut self) -> Result<(), ConsumerError> {
        for cpu in 0..smp::online() {
            self.take_records(cpu)?;
            self.take_counts(cpu)?;
        }
        Ok(())
    }

    /// Switches a CPU's buffer, and returns its contents and the number of drops.
    fn snapshot(&self, cpu: usize, which: Buffer) -> Result<(Vec<u8>, u64), ConsumerError> {
        let mut bytes = vec![0; RECORDS as usize];
        let mut first = DTRACE.snapshot(self.consumer, cpu, which, 0, &mut bytes)?;
        while first.read < first.size {
            let rest = &mut bytes[first.read..];
            first.read += DTRACE.snapshot(self.consumer, cpu, which, first.read, rest)?.read;
        }
        bytes.truncate(first.size);
        Ok((bytes, first.drops))
    }

    fn take_records(&mut self, cpu: usize) -> Result<(), ConsumerError> {
        let (bytes, drops) = self.snapshot(cpu, Buffer::Records)?;
        self.drops += drops;
        let mut rest = &bytes[..];
        while let Some((epid, behind)) =
            rest.split_first_chunk().map(|(a, b)| (u32::from_le_bytes(*a), b))
        {
            if epid == 0 {
                rest = behind;
                continue;
            }
            let size = DTRACE.eprobe(self.consumer, epid, 0, &mut [])?.map_or(0, |of| of.size);
            let Some(next) = rest.get((size as usize).max(size_of::<RecordHeader>())..) else {
                break;
            };
            rest = next;
            self.records += 1;
        }
        Ok(())
    }

    fn take_counts(&mut self, cpu: usize) -> Result<(), ConsumerError> {
        let (bytes, drops) = self.snapshot(cpu, Buffer::Aggregations)?;
        self.drops += drops;
        let mut rest = &bytes[..];
        while let Some(number) = rest.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) {
            let mut data = [NONE; 4];
            let Some(of) = DTRACE.aggregation(self.consumer, number, 0, &mut data)? else { break };
            let value = data[of.records as usize - 1].offset as usize;
            let value = rest[value..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            let probe = DTRACE.eprobe(self.consumer, of.epid, 0, &mut [])?.map(|of| of.probe);
            let is_its = |which: &Which| which.probe().id().map(ProbeId::get) == probe;
            if let Some(index) = TORTURED.iter().position(is_its) {
                self.counted[index] += value;
            }
            rest = &rest[(of.size as usize).next_multiple_of(8)..];
        }
        Ok(())
    }

    /// Stops the programs after the last CPU has fired, and returns the discrepancies.
    pub(super) fn stop(mut self) -> Result<Vec<String>, ConsumerError> {
        DTRACE.stop(self.consumer)?;
        self.take()?;
        let status = DTRACE.status(self.consumer)?;
        let mut wrong = Vec::new();
        let mut all = 0;
        let now = Totals::now();
        for (index, which) in TORTURED.iter().enumerate().filter(|(_, which)| self.are_on(**which))
        {
            let (counted, [_, hit, _]) = (self.counted[index], now.since(&self.before, *which));
            all += hit;
            if counted != hit {
                wrong.push(format!("{}: {hit} hits, but {counted} by count()", which.name()));
            }
        }
        if self.records + self.drops != all || self.records == 0 {
            let (records, drops) = (self.records, self.drops);
            wrong.push(format!("{records} records and {drops} drops of {all} hits"));
        }
        if status.errors != 0 || status.killed {
            wrong.push(format!("programs in D were given up: {status:?}"));
        }
        DTRACE.close(self.consumer)?;
        Ok(wrong)
    }
}
