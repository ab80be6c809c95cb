//! What a kernel answers, as it is kept.

use dtrace_protocol::{Datum, Items, RunOption, SiteState};

/// One probe. Names that are not UTF-8 are shown as well as can be.
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

/// A name: one line of text.
pub(super) fn text(name: &[u8]) -> String {
    shown(&String::from_utf8_lossy(name)).replace('\n', "\\n")
}

/// What a kernel says goes to terminals, which take some characters for commands: these are shown. Lines stay lines.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
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
        provider: text(of.provider),
        module: text(of.module),
        function: text(of.function),
        name: text(of.name),
    }
}

fn site(of: dtrace_protocol::Site<'_>) -> Site {
    let dtrace_protocol::Site { address, function, state, target, in_reach, reach } = of;
    let function = function.map(|(symbol, offset)| (symbol.to_owned(), offset));
    Site { address, function, state, target, in_reach, reach }
}

#[cfg(test)]
mod tests {
    use super::{shown, text};

    #[test]
    fn a_name_is_one_line_whatever_is_in_it() {
        assert_eq!(text(b"m\x1b[2J"), "m\\u{1b}[2J");
        assert_eq!(text(b"f\n 7 x\r\n"), "f\\n 7 x\\r\\n");
        assert_eq!(shown("a\nb\x07"), "a\nb\\u{7}");
    }
}
