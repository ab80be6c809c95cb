//! A kernel with one CPU and two probes: enough for programs that compute and record.

mod vm;

use std::collections::HashMap;

use dtrace::render::{AggDescription, Eprobe, Tables};
use dtrace_abi::action::Action;
use dtrace_abi::aggregation::{Llquantize, Lquantize, QUANTIZE_BUCKETS, quantize_bucket};
use dtrace_abi::record::{RecordDesc, RecordHeader};
use dtrace_compiler::options::Options;
use dtrace_compiler::program::{Act, Difo, Ecb, Program};
use dtrace_compiler::surroundings::Description;

use vm::{Stop, Vm};

/// A program needs what this kernel does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(pub String);

/// What a run has left.
#[derive(Debug, Default)]
pub struct Traced {
    pub tables: Tables,
    pub records: Vec<u8>,
    pub aggregations: Vec<u8>,
}

struct Enabled<'p> {
    ecb: &'p Ecb,
    eprobe: Eprobe,
    /// Of each action: where its record is described, in the probe or in an aggregation.
    places: Vec<Place>,
}

#[derive(Clone, Copy)]
enum Place {
    Record(usize),
    Key(u32, usize),
    Value(u32, usize),
}

const STRSIZE: u32 = 256;

fn align(offset: u32, size: u32) -> u32 {
    offset.next_multiple_of(match size {
        2 | 4 | 8 => size,
        16.. => 8,
        _ => 1,
    })
}

/// Where an action's datum goes, and its size.
fn describe(act: &Act, strsize: u32) -> Result<u32, Unsupported> {
    let size = act.difo.as_ref().map_or(0, |difo| match difo.returns.is_string() {
        true => difo.returns.size.min(strsize),
        false => difo.returns.size,
    });
    Ok(match act.kind {
        Action::DifExpr
        | Action::Printf
        | Action::Printa
        | Action::System
        | Action::Freopen
        | Action::LibAct
        | Action::Exit
        | Action::Tracemem
        | Action::TracememDynsize
        | Action::Sym
        | Action::Mod => size,
        Action::Count | Action::Sum | Action::Min | Action::Max => 8,
        Action::Avg => 16,
        Action::Stddev => 32,
        Action::Quantize => 8 * QUANTIZE_BUCKETS as u32,
        Action::Lquantize => 8 * (3 + u32::from(Lquantize::decode(act.arg).levels)),
        Action::Llquantize => {
            let Llquantize { factor, low, high, steps } = Llquantize::decode(act.arg);
            8 * (3 + u32::from(high - low + 1) * u32::from(steps - steps / factor))
        }
        other => return Err(Unsupported(format!("{other:?}"))),
    })
}

pub struct Kernel<'p> {
    enabled: Vec<Enabled<'p>>,
    traced: Traced,
    vm: Vm,
    time: u64,
    exiting: bool,
}

impl<'p> Kernel<'p> {
    pub fn new(program: &'p Program, options: &Options) -> Result<Self, Unsupported> {
        let strsize = match options.get(dtrace_abi::option::OptionId::Strsize) {
            dtrace_abi::option::UNSET => STRSIZE,
            size => size as u32,
        };
        let mut kernel = Self {
            enabled: Vec::new(),
            traced: Traced::default(),
            vm: Vm::new(strsize),
            time: 1,
            exiting: false,
        };
        let mut formats: HashMap<&[u8], u16> = HashMap::new();
        let mut statements = 0;
        for (index, ecb) in program.ecbs.iter().enumerate() {
            kernel.enable(index as u32 + 1, ecb, strsize, &mut formats, &mut statements)?;
        }
        let epid = program.ecbs.len() as u32 + 1;
        let record =
            |index: u32| RecordDesc { size: 8, offset: 16 + 8 * index, ..RecordDesc::EMPTY };
        let probe = Description {
            id: 3,
            provider: "dtrace".into(),
            name: "ERROR".into(),
            ..Description::default()
        };
        let records = (0..5).map(record).collect();
        let eprobe = Eprobe { probe, error: true, size: 56, records };
        kernel.traced.tables.eprobes.insert(epid, eprobe);
        Ok(kernel)
    }

    fn enable(
        &mut self,
        epid: u32,
        ecb: &'p Ecb,
        strsize: u32,
        formats: &mut HashMap<&'p [u8], u16>,
        statements: &mut u64,
    ) -> Result<(), Unsupported> {
        let mut probe = ecb.probe.clone();
        probe.provider = "dtrace".into();
        match (probe.id, probe.name.as_str()) {
            (1, _) => probe.name = "BEGIN".into(),
            (_, "BEGIN") => probe.id = 1,
            (_, "END") => probe.id = 2,
            (_, other) => return Err(Unsupported(other.into())),
        }
        let mut records = Vec::new();
        let (mut places, mut keys) = (Vec::new(), Vec::new());
        let mut offset = RecordHeader::SIZE as u32;
        let mut actions = ecb.actions.iter().enumerate().peekable();
        for statement in &ecb.statements {
            *statements += 1;
            let format = statement.text.as_deref().map_or(0, |text| {
                let next = formats.len() as u16 + 1;
                *formats.entry(text).or_insert(next)
            });
            for (index, act) in actions.by_ref().take(statement.actions) {
                let size = describe(act, strsize)?;
                let mut desc = RecordDesc {
                    action: act.kind.number(),
                    size,
                    format,
                    arg: act.arg,
                    uarg: *statements,
                    ..RecordDesc::EMPTY
                };
                let aggregating = ecb.actions[index..]
                    .iter()
                    .position(|act| act.kind.is_aggregation())
                    .is_some_and(|ahead| {
                        ahead > 0 && ecb.actions[index + ahead].keys as usize >= ahead
                    });
                let id = self.traced.tables.aggregations.len() as u32 + 1;
                if aggregating {
                    places.push(Place::Key(id, keys.len()));
                    keys.push(desc);
                } else if act.kind.is_aggregation() {
                    places.push(Place::Value(id, keys.len()));
                    let mut at = 4;
                    let mut records = std::mem::take(&mut keys);
                    records.push(desc);
                    for record in &mut records {
                        record.offset = align(at, record.size);
                        at = record.offset + record.size;
                    }
                    let size = at.next_multiple_of(4) as usize;
                    let name = String::new();
                    let aggregation = AggDescription { id, variable: 0, name, epid, size, records };
                    self.traced.tables.aggregations.insert(id, aggregation);
                } else {
                    desc.offset = align(offset, size);
                    offset = desc.offset + size;
                    places.push(Place::Record(records.len()));
                    records.push(desc);
                }
            }
        }
        for (text, number) in formats.iter() {
            self.traced.tables.formats.insert(*number, text.to_vec());
        }
        let size = offset.next_multiple_of(4) as usize;
        let eprobe = Eprobe { probe, error: false, size, records };
        self.traced.tables.eprobes.insert(epid, eprobe.clone());
        self.enabled.push(Enabled { ecb, eprobe, places });
        Ok(())
    }

    /// Fires BEGIN, and once the program has exited END.
    pub fn run(mut self) -> Result<Traced, Unsupported> {
        self.fire(1)?;
        if !self.exiting {
            return Err(Unsupported("no exit in BEGIN".into()));
        }
        self.exiting = false;
        self.fire(2)?;
        Ok(self.traced)
    }

    fn fire(&mut self, probe: u32) -> Result<(), Unsupported> {
        self.vm.forget_locals();
        for index in 0..self.enabled.len() {
            if self.enabled[index].eprobe.probe.id != probe || self.exiting {
                continue;
            }
            self.time += 1;
            let epid = index as u32 + 1;
            match self.clause(index, epid) {
                Ok(()) => {}
                Err((_, Stop::Unsupported(what))) => return Err(Unsupported(what)),
                Err((action, Stop::Fault { fault, offset, address })) => {
                    let last = self.enabled.len() as u32 + 1;
                    self.put_header(last);
                    self.traced.records.extend([0; 4]);
                    let fault = u64::from(fault.number());
                    for number in [epid.into(), action, offset, fault, address] {
                        self.traced.records.extend(u64::to_le_bytes(number));
                    }
                }
            }
        }
        Ok(())
    }

    fn put_header(&mut self, epid: u32) {
        let header = RecordHeader { epid, time_high: 0, time_low: self.time as u32 };
        self.traced.records.extend(header.to_bytes());
    }

    fn clause(&mut self, index: usize, epid: u32) -> Result<(), (u64, Stop)> {
        let enabled = &self.enabled[index];
        let (ecb, places, eprobe) = (enabled.ecb, enabled.places.clone(), enabled.eprobe.clone());
        self.vm.probe(epid, &eprobe.probe);
        if let Some(predicate) = &ecb.predicate
            && self.vm.run(predicate).map_err(|stop| (0, stop))? == 0
        {
            return Ok(());
        }
        let mut record = vec![0; eprobe.size];
        let mut element = Vec::new();
        let mut aggregations = Vec::new();
        let mut exit = false;
        for (number, (act, place)) in ecb.actions.iter().zip(&places).enumerate() {
            let stop = |stop| (number as u64 + 1, stop);
            let value = act.difo.as_ref().map_or(Ok(0), |difo| self.vm.run(difo)).map_err(stop)?;
            let desc = match *place {
                Place::Record(at) => eprobe.records[at],
                Place::Key(id, at) | Place::Value(id, at) => {
                    self.traced.tables.aggregations[&id].records[at]
                }
            };
            match *place {
                Place::Record(_) => {
                    exit |= act.kind == Action::Exit;
                    let data = self.datum(act.difo.as_ref(), value, desc.size).map_err(stop)?;
                    let at = desc.offset as usize;
                    record[at..at + data.len()].copy_from_slice(&data);
                }
                Place::Key(id, at) => {
                    if at == 0 {
                        element = vec![0; self.traced.tables.aggregations[&id].size];
                        element[..4].copy_from_slice(&id.to_le_bytes());
                    }
                    let data = self.datum(act.difo.as_ref(), value, desc.size).map_err(stop)?;
                    let at = desc.offset as usize;
                    element[at..at + data.len()].copy_from_slice(&data);
                }
                Place::Value(..) => {
                    let data = aggregate(act, value as i64, desc.size);
                    let at = desc.offset as usize;
                    element[at..at + data.len()].copy_from_slice(&data);
                    aggregations.extend(std::mem::take(&mut element));
                }
            }
        }
        self.traced.aggregations.extend(aggregations);
        let records = eprobe.records.iter().any(|desc| desc.size > 0);
        if records || ecb.actions.is_empty() {
            self.put_header(epid);
            self.traced.records.extend(&record[RecordHeader::SIZE..]);
        }
        self.exiting |= exit;
        Ok(())
    }

    /// The bytes of a value: itself, or what it is the address of.
    fn datum(&mut self, difo: Option<&Difo>, value: u64, size: u32) -> Result<Vec<u8>, Stop> {
        let size = size as usize;
        match difo {
            Some(difo) if difo.returns.is_by_ref() && difo.returns.is_string() => {
                let mut text = self.vm.string(value, size)?;
                text.resize(size, 0);
                Ok(text)
            }
            Some(difo) if difo.returns.is_by_ref() => Ok(self.vm.memory(value, size)?.to_vec()),
            _ => Ok(value.to_le_bytes()[..size.min(8)].to_vec()),
        }
    }
}

/// What one firing adds to an aggregation that has nothing yet.
fn aggregate(act: &Act, value: i64, size: u32) -> Vec<u8> {
    let mut words = vec![0_i64; size as usize / 8];
    match act.kind {
        Action::Count => words[0] = 1,
        Action::Sum | Action::Min | Action::Max => words[0] = value,
        Action::Avg => words.copy_from_slice(&[1, value]),
        Action::Stddev => {
            let square = u128::from(value.unsigned_abs()).pow(2);
            words.copy_from_slice(&[1, value, square as i64, (square >> 64) as i64]);
        }
        Action::Quantize => words[quantize_bucket(value)] = 1,
        Action::Lquantize => {
            let Lquantize { base, step, levels } = Lquantize::decode(act.arg);
            let bucket = match (value - i64::from(base)).div_euclid(step.into()) {
                ..0 => 0,
                bucket => (bucket + 1).min(i64::from(levels) + 1),
            };
            words[0] = act.arg as i64;
            words[1 + bucket as usize] = 1;
        }
        other => unreachable!("{other:?} is not described"),
    }
    words.into_iter().flat_map(i64::to_le_bytes).collect()
}
