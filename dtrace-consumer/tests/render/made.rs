//! Records and aggregations that the tests build themselves, without a kernel.

use dtrace_abi::action::Action;
use dtrace_abi::record::{RecordDesc, RecordHeader};
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::Description;
use dtrace_compiler::types::Types;
use dtrace_consumer::render::{
    AggDescription, Buffer, Consumer, Entry, Eprobe, Module, RenderError, Schedule, Settings, Sink,
    Symbol, Symbols, Tables, Text, View, World,
};
use jiff::tz::TimeZone;

use crate::printed::Printed;

/// A datum: its action, the action's argument, its bytes.
#[derive(Clone, Debug)]
pub struct Item {
    pub action: Action,
    pub argument: u64,
    pub format: Option<&'static str>,
    /// The number of its statement in the clause.
    pub statement: u64,
    pub data: Vec<u8>,
}

pub fn item(action: Action, argument: u64, data: &[u8]) -> Item {
    Item { action, argument, format: None, statement: 0, data: data.to_vec() }
}

/// Returns the data of a `printf` with these values.
pub fn printf(format: &'static str, values: &[&[u8]]) -> Vec<Item> {
    let item = |data: &&[u8]| Item { format: Some(format), ..item(Action::Printf, 0, data) };
    if values.is_empty() { vec![item(&&[][..])] } else { values.iter().map(item).collect() }
}

/// Symbols: one of the kernel, one of process 7, and the name of a port.
pub struct Known;

impl Symbols for Known {
    fn symbol(&self, address: u64) -> Option<Symbol> {
        let (module, name) = ("kernel".into(), "_ZN6kernel4exec4path17h0123456789abcdefE".into());
        (0x1000..0x1100).contains(&address).then_some(Symbol { module, name, address: 0x1000 })
    }

    fn module(&self, address: u64) -> Option<Module> {
        let name = "kernel".into();
        (0x1000..0x2000).contains(&address).then_some(Module { name, address: 0x1000 })
    }

    fn user_symbol(&self, pid: u64, address: u64) -> Option<Symbol> {
        let (module, name) = ("a.out".into(), "main".into());
        (pid == 7 && (0x40..0x80).contains(&address)).then_some(Symbol {
            module,
            name,
            address: 0x40,
        })
    }

    fn service(&self, port: u16) -> Option<String> {
        (port == 22).then(|| "ssh".into())
    }
}

#[derive(Default)]
pub struct Made {
    pub tables: Tables,
    pub options: Options,
    /// Data go to a terminal.
    pub terminal: bool,
    /// Records that the CPU's buffer had no room for.
    pub drops: u64,
    records: Vec<u8>,
    /// The aggregation buffer of each CPU.
    aggregations: Vec<Vec<u8>>,
    time: u32,
}

impl Made {
    pub fn with(options: &[(&str, &str)]) -> Self {
        let mut made = Self::default();
        for (name, value) in options {
            made.options.set(name, Some(value)).unwrap();
        }
        made
    }

    /// Adds an enabled probe and a record of it.
    pub fn fired(&mut self, id: u32, function: &str, name: &str, items: &[Item]) -> u32 {
        let mut records = Vec::new();
        let mut data = vec![0; RecordHeader::SIZE];
        for item in items {
            let format = item.format.map_or(0, |text| {
                let number = self.tables.formats.len() as u16 + 1;
                self.tables.formats.insert(number, text.as_bytes().to_vec());
                number
            });
            records.push(RecordDesc {
                action: item.action.number(),
                size: item.data.len() as u32,
                offset: data.len() as u32,
                format,
                arg: item.argument,
                uarg: item.statement,
                ..RecordDesc::EMPTY
            });
            data.extend_from_slice(&item.data);
        }
        data.resize(data.len().next_multiple_of(4), 0);
        let epid = self.tables.eprobes.len() as u32 + 1;
        let probe = Description {
            id,
            provider: "test".into(),
            module: "kernel".into(),
            function: function.into(),
            name: name.into(),
        };
        let eprobe = Eprobe { probe, error: false, size: data.len(), records };
        self.tables.eprobes.insert(epid, eprobe);
        self.time += 1;
        let header = RecordHeader { epid, time_high: 0, time_low: self.time };
        data[..RecordHeader::SIZE].copy_from_slice(&header.to_bytes());
        self.records.extend(data);
        epid
    }

    /// Adds an element of an aggregation on a CPU. A variable has one description.
    pub fn aggregate(
        &mut self,
        cpu: usize,
        variable: u32,
        keys: &[Item],
        action: Action,
        argument: u64,
        words: &[i64],
    ) {
        let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let number = item(Action::DifExpr, 0, &u64::from(variable).to_le_bytes());
        let items = [&[number][..], keys, &[item(action, argument, &value)]].concat();
        let mut data = variable.to_le_bytes().to_vec();
        let mut records = Vec::new();
        for item in items {
            records.push(RecordDesc {
                action: item.action.number(),
                size: item.data.len() as u32,
                offset: data.len() as u32,
                arg: item.argument,
                ..RecordDesc::EMPTY
            });
            data.extend_from_slice(&item.data);
        }
        data.resize(data.len().next_multiple_of(4), 0);
        let (id, name, size) = (variable, format!("a{variable}"), data.len());
        let (names, variables) = (Vec::new(), Vec::new());
        let description =
            AggDescription { id, variable, name, epid: 1, size, records, names, variables };
        self.tables.aggregations.insert(id, description);
        if self.aggregations.len() <= cpu {
            self.aggregations.resize(cpu + 1, Vec::new());
        }
        self.aggregations[cpu].extend(data);
    }

    /// Returns the output of a sink.
    pub fn to(&mut self, sink: &mut dyn Sink) -> Result<(), RenderError> {
        let settings = Settings {
            zone: TimeZone::UTC,
            terminal: self.terminal,
            ..Settings::new(self.options.clone())
        };
        let mut consumer = Consumer::new(settings);
        let types = Types::new(256);
        let mut world = World { descriptions: &mut self.tables, symbols: &Known, types: &types };
        for (cpu, buffer) in (0..).zip(&self.aggregations) {
            consumer.snapshot(cpu, buffer, 0, &mut world, sink)?;
        }
        let buffer = Buffer { data: self.records.clone(), drops: self.drops, ..Buffer::default() };
        Schedule::new().in_time(&mut consumer, vec![buffer], true, &mut world, sink)?;
        consumer.finish(&world, sink)
    }

    /// Adds these aggregations to those of a consumer, and calls `take` with all elements.
    pub fn elements(&mut self, consumer: &mut Consumer, take: &mut dyn FnMut(&[Entry], &View<'_>)) {
        let types = Types::new(256);
        let mut world = World { descriptions: &mut self.tables, symbols: &Known, types: &types };
        let mut sink = Text::new(Printed::default());
        for (cpu, buffer) in (0..).zip(&self.aggregations) {
            consumer.snapshot(cpu, buffer, 0, &mut world, &mut sink).unwrap();
        }
        let entries: Vec<Entry> = consumer.aggregations().entries().cloned().collect();
        let view = View {
            options: &self.options,
            symbols: &Known,
            types: &types,
            zone: &TimeZone::UTC,
            color: false,
            terminal: false,
            host: None,
        };
        take(&entries, &view);
    }

    pub fn printed(&mut self) -> Printed {
        let mut sink = Text::new(Printed::default());
        self.to(&mut sink).unwrap();
        sink.into_output()
    }

    /// Returns the text on standard output, under `quiet`.
    pub fn quietly(mut self) -> String {
        self.options.set("quiet", None).unwrap();
        String::from_utf8(self.printed().out).unwrap()
    }
}
