//! Probes fire, and what they leave is read.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use sdt_core::ops::ProbeId;
use sdt_framework::{ConsumerError, ConsumerId, Firing, LONGEST, Records};

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
            // SAFETY: as in `getargval`.
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
        let id = ProbeId::new(id).expect("it is not 0");
        let record = Firing { probe: id, cpu: cpu as u32, timestamp, args };
        let mut claimed = false;
        for by in &probe.enabled {
            let consumer = self.consumers.iter_mut().find(|consumer| consumer.id == *by);
            let consumer = consumer.expect("who has enabled a probe is open");
            if !consumer.going {
                continue;
            }
            if consumer.buffers[cpu].len() < RECORDS {
                consumer.buffers[cpu].push_back(record);
                self.counters.records += 1;
            } else {
                consumer.drops[cpu] += 1;
                self.counters.drops += 1;
            }
            claimed = true;
        }
        self.counters.unclaimed += u64::from(!claimed);
    }

    pub(super) fn drain(&mut self, id: ConsumerId, cpu: usize) {
        let mut bytes = [0; RECORDS * LONGEST];
        let result = self.dtrace.read(id, cpu, &mut bytes);
        let records = Records::new(&bytes[..result.unwrap_or(0)]).map(|record| record.firing());
        let records: VecDeque<_> = records.map(|firing| firing.expect("a whole record")).collect();
        let expected = self.opened(id).and_then(|consumer| {
            let buffer = consumer.buffers.get_mut(cpu).ok_or(ConsumerError::NoCpu(cpu))?;
            Ok(std::mem::take(buffer))
        });
        assert_eq!(
            result,
            expected.as_ref().map(|all| all.len() * LONGEST).map_err(|&error| error)
        );
        assert_eq!(records, expected.unwrap_or_default());
    }

    pub(super) fn drops(&mut self, id: ConsumerId, cpu: usize) {
        let result = self.dtrace.drops(id, cpu);
        let expected = self.opened(id).and_then(|consumer| {
            let drops = consumer.drops.get_mut(cpu).ok_or(ConsumerError::NoCpu(cpu))?;
            Ok(std::mem::take(drops))
        });
        assert_eq!(result, expected);
    }
}
