//! A consumer with the functions that the tests need.

use std::collections::BTreeMap;

use dtrace_abi::Platform;
use dtrace_abi::aggregation::QUANTIZE_BUCKETS;
use dtrace_abi::option::OptionId;
use dtrace_abi::record::RecordDesc;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::EveryProbe;
use dtrace_compiler::{Compiler, Source, dof};
use sdt_core::ops::{ProbeId, ProviderId};
use sdt_framework::{Config, ConsumerError, ConsumerId, Dtrace, Host, Rights, Which};

use crate::common::{self, TestProvider, Threads, create};

pub const CONFIG: Config =
    Config { providers: 4, probes: 32, ecbs: 64, consumers: 3, buffer: 16 * 1024 };

/// A framework with the probes of `dtrace`, and `proc:m:f:a` to `d`.
pub struct Kernel<H: Host = Threads> {
    pub dtrace: Box<Dtrace<H>>,
    pub provider: ProviderId,
    pub probes: [ProbeId; 4],
}

impl Kernel {
    pub fn new() -> Self {
        Self::with(Threads::new(), 4 << 20)
    }
}

impl<H: Host> Kernel<H> {
    pub fn with(host: H, bytes: usize) -> Self {
        Self::configured(host, bytes, &CONFIG)
    }

    pub fn configured(host: H, bytes: usize, config: &Config) -> Self {
        let dtrace = Box::new(Dtrace::new(host));
        dtrace.init(common::memory(bytes), config).unwrap();
        dtrace.register_own().unwrap();
        Threads::bind(0);
        let provider: &'static TestProvider = Box::leak(Box::default());
        // SAFETY: the provider is never freed.
        let provider = unsafe { provider.register(&*dtrace, c"proc") }.unwrap();
        let probes =
            [c"a", c"b", c"c", c"d"].map(|name| create(&*dtrace, provider, [c"m", c"f", name], 0));
        Self { dtrace, provider, probes }
    }

    pub fn consumer(&self) -> Consumer<'_, H> {
        self.consumer_with(Rights::ALL)
    }

    pub fn consumer_with(&self, rights: Rights) -> Consumer<'_, H> {
        Consumer { dtrace: &self.dtrace, id: self.dtrace.open_with(rights).unwrap() }
    }

    /// The probe `a`, `b`, `c` or `d` fires.
    pub fn hit(&self, probe: usize, arg: u64) {
        self.dtrace.probe(self.probes[probe], &[arg, arg + 1, arg + 2, 0, 0, 0]);
    }
}

/// The DOF of a program.
pub fn compile(text: &str) -> Vec<u8> {
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    let program = compiler.compile(Source::file(text.as_bytes()), &EveryProbe);
    dof::program(
        &program.unwrap_or_else(|error| panic!("{}", error.with_tag())),
        compiler.options(),
    )
    .unwrap()
}

pub struct Consumer<'k, H: Host> {
    pub dtrace: &'k Dtrace<H>,
    pub id: ConsumerId,
}

/// The words, by the number of the variable and the keys.
pub type Aggregated = BTreeMap<(u32, Vec<Vec<u8>>), Vec<i64>>;

/// A record: the enabled probe, and its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub epid: u32,
    pub time: u64,
    pub data: Vec<Vec<u8>>,
}

impl Record {
    /// The data as numbers.
    pub fn numbers(&self) -> Vec<i64> {
        self.data.iter().map(|datum| number(datum)).collect()
    }
}

pub fn number(datum: &[u8]) -> i64 {
    let mut bytes = [0; 8];
    bytes[..datum.len()].copy_from_slice(datum);
    match datum.len() {
        4 => i64::from(i32::from_le_bytes(*bytes.first_chunk().unwrap())),
        _ => i64::from_le_bytes(bytes),
    }
}

impl<H: Host> Consumer<'_, H> {
    pub fn set(&self, option: OptionId, value: i64) {
        self.dtrace.set_option(self.id, option.number(), value).unwrap();
    }

    pub fn enable(&self, text: &str) -> u32 {
        self.dtrace.enable_program(self.id, &compile(text)).unwrap()
    }

    pub fn go(&self) {
        self.dtrace.go(self.id).unwrap();
    }

    pub fn stop(&self) {
        self.dtrace.stop(self.id).unwrap();
    }

    /// Returns the content of a buffer, the offset of its oldest record, and the numbers of drops and errors.
    pub fn try_snapshot(
        &self,
        cpu: usize,
        which: Which,
    ) -> Result<(Vec<u8>, usize, u64, u64), ConsumerError> {
        let mut bytes = Vec::new();
        loop {
            let mut part = [0xee; 100];
            let found = self.dtrace.snapshot(self.id, cpu, which, bytes.len(), &mut part)?;
            bytes.extend(&part[..found.read]);
            if bytes.len() == found.size {
                return Ok((bytes, found.oldest, found.drops, found.errors));
            }
            assert!(found.read > 0);
        }
    }

    fn descriptions(&self, epid: u32) -> (u32, usize, Vec<RecordDesc>) {
        let mut all = [RecordDesc::EMPTY; 64];
        let found = self.dtrace.eprobe(self.id, epid, 0, &mut all).unwrap().unwrap();
        assert_eq!(found.epid, epid);
        (found.probe, found.size as usize, all[..found.records as usize].to_vec())
    }

    /// All records of a CPU, oldest first, and how many were dropped.
    pub fn records(&self, cpu: usize) -> (Vec<Record>, u64) {
        let (bytes, oldest, drops, _) = self.try_snapshot(cpu, Which::Records).unwrap();
        let mut records = Vec::new();
        for range in [oldest..bytes.len(), 0..oldest] {
            let mut at = range.start;
            while at < range.end {
                let field = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
                let epid = field(at);
                if epid == 0 {
                    at += 4;
                    continue;
                }
                let time = u64::from(field(at + 4)) << 32 | u64::from(field(at + 8));
                let (_, size, descs) = self.descriptions(epid);
                let data = descs.iter().filter(|desc| desc.size > 0).map(|desc| {
                    assert_eq!(desc.offset % u32::from(desc.alignment), 0);
                    assert!((desc.offset + desc.size) as usize <= size);
                    bytes[at + desc.offset as usize..][..desc.size as usize].to_vec()
                });
                records.push(Record { epid, time, data: data.collect() });
                at += size;
            }
        }
        (records, drops)
    }

    /// The numbers of all records of CPU 0.
    pub fn numbers(&self) -> Vec<Vec<i64>> {
        self.records(0).0.iter().map(Record::numbers).collect()
    }

    /// The aggregations of a CPU: the words, by the number of the variable and the keys.
    pub fn aggregations(&self, cpu: usize) -> (Aggregated, u64) {
        let (bytes, _, drops, _) = self.try_snapshot(cpu, Which::Aggregations).unwrap();
        let mut all = BTreeMap::new();
        let mut at = 0;
        while at < bytes.len() {
            let id = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let mut descs = [RecordDesc::EMPTY; 16];
            let found = self.dtrace.aggregation(self.id, id, 0, &mut descs).unwrap().unwrap();
            let descs = &descs[..found.records as usize];
            let datum = |desc: &RecordDesc| {
                bytes[at + desc.offset as usize..][..desc.size as usize].to_vec()
            };
            let (value, keys) = descs.split_last().unwrap();
            assert_eq!(number(&datum(&keys[0])), i64::from(found.variable));
            let keys = keys[1..].iter().map(datum).collect();
            let words = datum(value);
            let words = words.as_chunks().0.iter().map(|word| i64::from_le_bytes(*word)).collect();
            assert_eq!(all.insert((found.variable, keys), words), None);
            at += found.size as usize;
        }
        (all, drops)
    }

    pub fn format(&self, number: u16) -> Option<String> {
        let mut text = Vec::new();
        loop {
            let mut part = [0; 7];
            let count = self.dtrace.format(self.id, number, text.len(), &mut part).unwrap()?;
            if count == 0 {
                return Some(String::from_utf8(text).unwrap());
            }
            text.extend(&part[..count]);
        }
    }
}

/// The values of a `quantize`, by their bucket.
pub fn buckets(words: &[i64]) -> Vec<(usize, i64)> {
    assert_eq!(words.len(), QUANTIZE_BUCKETS);
    words.iter().copied().enumerate().filter(|(_, count)| *count != 0).collect()
}
