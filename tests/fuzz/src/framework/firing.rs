//! Fires probes, and reads their records.

use std::sync::atomic::Ordering;

use sdt_core::ops::ProbeId;
use sdt_framework::{ConsumerError, ConsumerId, Record, Which, records};

use super::host::asked;
use super::{CPUS, Model, RECORDS};

impl Model<'_> {
    pub(super) fn fire(&mut self, cpu: usize, id: u32, arg: u64, five: bool) {
        let machine = self.dtrace.host();
        machine.cpu.store(cpu, Ordering::Relaxed);
        let timestamp = machine.time.fetch_add(1, Ordering::Relaxed) + 1;
        let six = [arg, !arg, 2, 3, 4, 5];
        if five {
            let [first @ .., _] = six;
            // SAFETY: the `getargval` of these providers does not read the stack.
            unsafe { self.dtrace.probe5(id, first) };
        } else {
            self.dtrace.probe(ProbeId::new(id).expect("it is not 0"), &six);
        }
        if cpu == CPUS {
            self.counters.stray += 1;
            return;
        }
        let Some(probe) = self.probes.get(&id) else {
            self.counters.unknown += 1;
            return;
        };
        self.counters.hits += 1;
        let brought = if five { &six[..5] } else { &six[..] };
        let args = std::array::from_fn(|argno| match brought.get(argno) {
            Some(&arg) => arg,
            None if five => asked(id, argno),
            None => 0,
        });
        let mut claimed = false;
        for &(by, epid) in &probe.enabled {
            let consumer = self.consumers.iter_mut().find(|consumer| consumer.id == by);
            let consumer = consumer.expect("a consumer with an enabling is open");
            if !consumer.going {
                continue;
            }
            if consumer.buffers[cpu].len() < RECORDS {
                consumer.buffers[cpu].push(Record { epid, timestamp, args });
                self.counters.records += 1;
            } else {
                consumer.drops[cpu] += 1;
                self.counters.drops += 1;
            }
            claimed = true;
        }
        self.counters.unclaimed += u64::from(!claimed);
    }

    /// Reads the records, and the number of dropped ones.
    pub(super) fn drain(&mut self, id: ConsumerId, cpu: usize) {
        let mut bytes = [0; RECORDS * Record::SIZE];
        let result = self.dtrace.snapshot(id, cpu, Which::Records, 0, &mut bytes);
        let result = result.map(|found| {
            assert_eq!((found.read, found.errors, found.oldest), (found.size, 0, 0));
            (records(&bytes[..found.size]).collect::<Vec<_>>(), found.drops)
        });
        let expected = self.opened(id).and_then(|consumer| {
            let buffer = consumer.buffers.get_mut(cpu).ok_or(ConsumerError::NoCpu(cpu))?;
            Ok((std::mem::take(buffer), std::mem::take(&mut consumer.drops[cpu])))
        });
        assert_eq!(result, expected);
    }
}
