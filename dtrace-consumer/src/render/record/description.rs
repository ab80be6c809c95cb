//! Descriptions of records: their probe and their data, from the programs of this run ([`Compiled`]), or from the
//! kernel for programs of another run.

use std::collections::HashMap;
use std::rc::Rc;

use dtrace_abi::action::Action;
use dtrace_abi::record::RecordDesc;
use dtrace_compiler::surroundings::Description;

use crate::render::data::format::Format;
use crate::render::record::effect::Permit;
use crate::render::record::origin::Origins;

/// An enabled probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Eprobe {
    /// The probe.
    pub probe: Description,
    /// Whether its records are those of the library's own `dtrace:::ERROR` clause (`DT_ECB_ERROR`).
    pub error: bool,
    /// Bytes of one record, its header included.
    pub size: usize,
    /// Its data, with offsets from the begin of the header.
    pub records: Vec<RecordDesc>,
}

/// One use of an aggregation: a statement that aggregates.
#[derive(Clone, Debug, PartialEq)]
pub struct AggDescription {
    /// Its number.
    pub id: u32,
    /// Number of the variable.
    pub variable: u32,
    /// Its name, without `@`.
    pub name: String,
    /// Number of the enabled probe.
    pub epid: u32,
    /// Bytes of one element, its header included.
    pub size: usize,
    /// The number of the variable, the keys, the value.
    pub records: Vec<RecordDesc>,
    /// The names of the probe's arguments that are keys, in the order of the keys; empty for a program of another run.
    pub names: Vec<Option<Rc<str>>>,
    /// The names of the kernel's variables that are keys, in the order of the keys; empty for a program of another run.
    pub variables: Vec<Option<&'static str>>,
}

impl AggDescription {
    /// Returns the description of the value.
    pub fn value(&self) -> Option<&RecordDesc> {
        self.records.last()
    }

    /// Returns the descriptions of the keys.
    pub fn keys(&self) -> &[RecordDesc] {
        match &self.records[..] {
            [_, keys @ .., _] => keys,
            _ => &[],
        }
    }

    /// Returns the aggregating action.
    pub fn action(&self) -> Option<Action> {
        Action::from_number(self.value()?.action).filter(|action| action.is_aggregation())
    }
}

/// A source of descriptions, usually a kernel.
pub trait Descriptions {
    /// Returns the description of an enabled probe (`DTRACEIOC_EPROBE`, `DTRACEIOC_PROBES`).
    fn eprobe(&mut self, epid: u32) -> Option<Eprobe>;
    /// Returns the description of an aggregation (`DTRACEIOC_AGGDESC`).
    fn aggregation(&mut self, id: u32) -> Option<AggDescription>;
    /// Returns a format, or the type of the data that `print` shows (`DTRACEIOC_FORMAT`).
    fn format(&mut self, number: u16) -> Option<Vec<u8>>;
}

/// A source of descriptions that were collected before.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Enabled probes.
    pub eprobes: HashMap<u32, Eprobe>,
    /// Aggregations.
    pub aggregations: HashMap<u32, AggDescription>,
    /// Formats.
    pub formats: HashMap<u16, Vec<u8>>,
}

impl Descriptions for Tables {
    fn eprobe(&mut self, epid: u32) -> Option<Eprobe> {
        self.eprobes.get(&epid).cloned()
    }

    fn aggregation(&mut self, id: u32) -> Option<AggDescription> {
        self.aggregations.get(&id).cloned()
    }

    fn format(&mut self, number: u16) -> Option<Vec<u8>> {
        self.formats.get(&number).cloned()
    }
}

/// A datum of a record with its meaning.
#[derive(Clone, Debug)]
pub(in crate::render) struct KnownDatum {
    /// Its action, offset and size.
    pub desc: RecordDesc,
    /// The format, of actions that have one.
    pub format: Option<Rc<Format>>,
    /// The name of the type that `print` shows.
    pub printed: Option<Rc<str>>,
    /// The permission of its action to change this machine.
    pub permit: Option<Permit>,
    /// The aggregation's variable that its action names, if this run compiled the program.
    pub variable: Option<u32>,
    /// The name of the probe's argument that it records, if this run compiled the program and the argument has a name.
    pub name: Option<Rc<str>>,
    /// The name of the kernel's variable that it records, such as `tid`.
    pub builtin: Option<&'static str>,
}

/// An enabled probe whose records are known.
#[derive(Debug)]
pub(in crate::render) struct KnownProbe {
    /// The probe.
    pub probe: Description,
    /// Whether its records are those of the library's own clause for faults.
    pub error: bool,
    /// Bytes of one record, its header included.
    pub size: usize,
    /// Its data.
    pub data: Rc<[KnownDatum]>,
    /// The places of its instructions, if this run compiled it.
    pub origins: Option<Rc<Origins>>,
}
