//! Checks the module's description of its probes: section `.sdt_probes`, whose form `sdt_core`'s `describe` documents.
//! krtld combines all calls with one name into one probe, even if two crates mean different probes.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::elf::Elf;
use crate::check::rules::Rule;

/// The section, which is not loaded.
const DESCRIBED: &str = ".sdt_probes";

/// A probe, as described by its declarations and sites.
#[derive(Debug, Default)]
struct Described {
    symbol: String,
    /// Provider and name.
    name: String,
    /// The numbers of arguments in all descriptions of the probe.
    counts: BTreeSet<usize>,
    /// The types of each argument in all descriptions of the probe.
    types: BTreeMap<usize, BTreeSet<String>>,
}

/// Finds different probes of the same name, which krtld would combine into one, among the probes that the module fires.
pub(super) fn check(elf: &Elf<'_>) {
    let probes = match read(elf) {
        Ok(probes) => probes,
        Err(line) => {
            return elf.findings.section(
                DESCRIBED,
                Rule::Description,
                &[&format_args!("{line:?}")],
            );
        }
    };
    let mut by_symbol = BTreeMap::<&str, Vec<&Described>>::new();
    for probe in probes.values() {
        by_symbol.entry(&probe.symbol).or_default().push(probe);
    }
    for (symbol, probes) in by_symbol {
        if !elf.symbols.iter().any(|of| of.is_undefined() && of.name == symbol) {
            continue;
        }
        for probe in &probes {
            if let Some((one, other)) = probe.disagreement() {
                elf.findings.symbol(symbol, Rule::Arguments, &[&probe.name, &one, &other]);
            }
        }
        if let [first, .., last] = &probes[..] {
            elf.findings.symbol(symbol, Rule::Merged, &[&first.signature(), &last.signature()]);
        }
    }
}

impl Described {
    /// Returns a difference between two declarations or sites.
    fn disagreement(&self) -> Option<(String, String)> {
        let count = |count: &usize| match count {
            1 => "1 argument".to_owned(),
            count => format!("{count} arguments"),
        };
        let (first, last) = (self.counts.first()?, self.counts.last()?);
        if first != last {
            return Some((count(first), count(last)));
        }
        self.types.iter().find_map(|(index, types)| {
            let (first, last) = (types.first()?, types.last()?);
            (first != last).then(|| (format!("`{first}` as arg{index}"), format!("`{last}`")))
        })
    }

    /// Returns its name and arguments.
    fn signature(&self) -> String {
        let types: Vec<_> =
            self.types.values().filter_map(|types| types.first()).cloned().collect();
        format!("{}({})", self.name, types.join(", "))
    }
}

/// Reads the probes by their hashes. The error is the first line that describes none.
fn read(elf: &Elf<'_>) -> Result<BTreeMap<u64, Described>, String> {
    let mut probes = BTreeMap::<u64, Described>::new();
    for section in elf.sections.iter().filter(|section| section.name == DESCRIBED) {
        let text: Vec<u8> = section.data.iter().copied().filter(|&byte| byte != 0).collect();
        for line in String::from_utf8_lossy(&text).lines() {
            let words: Vec<_> = line.split('\t').collect();
            add(&mut probes, &words).ok_or_else(|| line.to_owned())?;
        }
    }
    Ok(probes)
}

/// Adds the contents of a line.
fn add(probes: &mut BTreeMap<u64, Described>, words: &[&str]) -> Option<()> {
    let probe = probes.entry(words.get(1)?.parse().ok()?).or_default();
    match *words {
        ["probe", _, symbol, provider, name] => {
            probe.symbol = symbol.to_owned();
            probe.name = format!("{provider}::{name}");
        }
        ["count", _, count] => {
            probe.counts.insert(count.parse().ok()?);
        }
        ["arg", _, index, name] => {
            probe.types.entry(index.parse().ok()?).or_default().insert(name.to_owned());
        }
        _ => return None,
    }
    Some(())
}
