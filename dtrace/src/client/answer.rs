//! What a kernel answers, as it is kept.

use dtrace_protocol::{Datum, Items, RunOption, SiteState};

use crate::escape::{line, name};

/// One probe. Its names are escaped ([`escape`](crate::escape)), and those that are not UTF-8 shown as well as can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its id.
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

/// What `-l -v` shows of a probe. Stability is name, data, class, as DTrace numbers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Stability of the probe's description.
    pub probe: [u8; 3],
    /// Stability of its arguments.
    pub args: [u8; 3],
    /// Stability of its provider: of the provider itself, of modules, functions, names and arguments.
    pub provider: [[u8; 3]; 5],
    /// Who may use the provider, as DTrace's bits.
    pub privileges: u32,
    /// Types of `args[0]`, `args[1]`, ...
    pub types: Vec<ArgType>,
}

/// Type of one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgType {
    /// C type the kernel passes.
    pub native: String,
    /// C type D sees, if it is another one.
    pub translated: Option<String>,
}

/// A firing site of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its address.
    pub address: u64,
    /// The symbol of the function it is in, as it is in the file, and the site's offset in it.
    pub function: Option<(String, u64)>,
    /// What it does now.
    pub state: SiteState,
    /// Address of its cold block, where it goes while enabled.
    pub target: u64,
    /// Whether a jump can take it there.
    pub in_reach: bool,
    /// Most bytes that a jump can go on this architecture, either way.
    pub reach: u64,
}

/// What an enabled probe records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eprobe {
    /// The probe's id.
    pub probe: u32,
    /// Bytes of one record, its header included.
    pub size: u32,
    /// In the order of the actions.
    pub data: Vec<Datum>,
}

/// What an aggregation holds.
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

/// What stands at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its module.
    pub module: String,
    /// Its name, as it is in the file.
    pub name: String,
    /// Where it begins.
    pub address: u64,
    /// Bytes of it.
    pub size: u64,
}

/// A CPU's buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The bytes, what is oldest first.
    pub data: Vec<u8>,
    /// What found no room since the last time.
    pub drops: u64,
    /// Errors of programs on this CPU since then.
    pub errors: u64,
    /// When the buffer was switched, in nanoseconds of the kernel's clock.
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
    /// Bytes that it takes.
    pub(super) const fn bytes(&self) -> u64 {
        let Self { provider, module, function, name, .. } = self;
        let names = provider.len() + module.len() + function.len() + name.len();
        (size_of::<Self>() + names) as u64
    }
}

impl Site {
    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let name = self.function.as_ref().map_or(0, |(name, _)| name.len());
        (size_of::<Self>() + name) as u64
    }
}

impl ArgType {
    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let translated = self.translated.as_ref().map_or(0, String::len);
        (size_of::<Self>() + self.native.len() + translated) as u64
    }
}

#[cfg(feature = "render")]
impl Symbol {
    /// Bytes that it takes.
    pub(crate) const fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.module.len() + self.name.len()) as u64
    }
}

fn site(of: dtrace_protocol::Site<'_>) -> Site {
    let dtrace_protocol::Site { address, function, state, target, in_reach, reach } = of;
    let function = function.map(|(symbol, offset)| (line(symbol).into_owned(), offset));
    Site { address, function, state, target, in_reach, reach }
}
