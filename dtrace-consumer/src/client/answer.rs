//! The answers of a kernel.

use dtrace_protocol::{Datum, Items, RunOption, SiteState};

use crate::escape::{line, name};

/// A probe. Its names are escaped ([`escape`](crate::escape)); bytes that are not UTF-8 are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its ID.
    pub id: u32,
    /// Provider name.
    pub provider: String,
    /// Module name.
    pub module: String,
    /// Function name.
    pub function: String,
    /// Probe name.
    pub name: String,
}

/// The details of a probe that `-l -v` shows. A stability is name, data and class, as DTrace numbers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Stability of the probe's description.
    pub probe: [u8; 3],
    /// Stability of its arguments.
    pub args: [u8; 3],
    /// Stability of its provider: of the provider itself, of modules, functions, names and arguments.
    pub provider: [[u8; 3]; 5],
    /// The privileges that the provider requires, as DTrace's bits.
    pub privileges: u32,
    /// Types of `args[0]`, `args[1]`, ...
    pub types: Vec<ArgType>,
    /// Why the arguments of a function have no types, if [`Kernel`](crate::kernel::Kernel) has the function and not the types.
    pub untyped: Option<String>,
}

/// The type of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgType {
    /// The C type that the kernel passes.
    pub native: String,
    /// The C type that programs see, if it differs.
    pub translated: Option<String>,
    /// The name that programs write after `args.`, such as `path` or `path.len`, if [`Kernel`](crate::kernel::Kernel) has the name of the
    /// argument.
    pub name: Option<String>,
    /// Why programs cannot use it, if they cannot: then it has no type.
    pub obstacle: Option<String>,
}

/// A firing site of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its address.
    pub address: u64,
    /// The symbol of its function, as in the file, and the offset of the site in the function.
    pub function: Option<(String, u64)>,
    /// Its state.
    pub state: SiteState,
    /// The address of its cold block, to which the enabled site jumps.
    pub target: u64,
    /// Whether a jump reaches the target.
    pub in_reach: bool,
    /// The reach of a jump on this architecture in bytes, in both directions.
    pub reach: u64,
}

/// The description of the records of an enabled probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eprobe {
    /// The probe's ID.
    pub probe: u32,
    /// Bytes of one record, its header included.
    pub size: u32,
    /// The data of a record, in the order of the actions.
    pub data: Vec<Datum>,
}

/// The description of an aggregation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregation {
    /// The number of its variable.
    pub variable: u32,
    /// The enabled probe that aggregates.
    pub epid: u32,
    /// Bytes of one tuple, its header included.
    pub size: u32,
    /// The number of the variable, the keys, the value.
    pub data: Vec<Datum>,
}

/// A symbol of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its module.
    pub module: String,
    /// Its name, as in the file.
    pub name: String,
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// A CPU's buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The bytes, with the oldest records first.
    pub data: Vec<u8>,
    /// The number of drops since the last read.
    pub drops: u64,
    /// The number of faults of programs on this CPU since the last read.
    pub errors: u64,
    /// The time of the switch of the buffer, in nanoseconds of the kernel's clock.
    pub taken: u64,
}

pub(super) fn data(items: Items<'_>) -> Option<Vec<Datum>> {
    items.iter().collect::<Result<_, _>>().ok()
}

pub(super) fn options(items: Items<'_>) -> Option<Vec<(u32, i64)>> {
    let pair = |RunOption { option, value }| (option, value);
    items.iter().map(|item| item.ok().map(pair)).collect()
}

pub(super) fn probes(items: Items<'_>) -> Option<Vec<Probe>> {
    items.iter().map(|item| item.ok().map(probe)).collect()
}

pub(super) fn sites(items: Items<'_>) -> Option<Vec<Site>> {
    items.iter().map(|item| item.ok().map(site)).collect()
}

pub(super) fn probe(of: dtrace_protocol::Probe<'_>) -> Probe {
    Probe {
        id: of.id,
        provider: name(of.provider),
        module: name(of.module),
        function: name(of.function),
        name: name(of.name),
    }
}

impl Probe {
    /// Returns its size in memory, in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        let Self { provider, module, function, name, .. } = self;
        let names = provider.len() + module.len() + function.len() + name.len();
        (size_of::<Self>() + names) as u64
    }
}

impl Site {
    /// Returns its size in memory, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let name = self.function.as_ref().map_or(0, |(name, _)| name.len());
        (size_of::<Self>() + name) as u64
    }
}

impl ArgType {
    /// Returns its size in memory, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let translated = self.translated.as_ref().map_or(0, String::len);
        (size_of::<Self>() + self.native.len() + translated) as u64
    }
}

#[cfg(feature = "render")]
impl Symbol {
    /// Returns its size in memory, in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.module.len() + self.name.len()) as u64
    }
}

fn site(of: dtrace_protocol::Site<'_>) -> Site {
    let dtrace_protocol::Site { address, function, state, target, in_reach, reach } = of;
    let function = function.map(|(symbol, offset)| (line(symbol).into_owned(), offset));
    Site { address, function, state, target, in_reach, reach }
}
