//! What a module says of its probes: section `.sdt_probes`, whose form `sdt_core`'s `describe` documents. krtld makes one
//! probe of all calls of one name, whoever meant what by it.

use std::collections::{BTreeMap, BTreeSet};

use super::Problem;
use super::file::File;
use crate::check::finding::{Findings, Place};

/// The section, which is not loaded.
const DESCRIBED: &str = ".sdt_probes";

/// A probe, as a declaration or a site has it.
#[derive(Debug, Default)]
struct Described {
    symbol: String,
    /// Provider and name.
    name: String,
    /// Numbers of arguments that it has somewhere.
    counts: BTreeSet<usize>,
    /// Types that each argument has somewhere.
    types: BTreeMap<usize, BTreeSet<String>>,
}

/// Finds probes that krtld would make one of, and that are not one; of those that the module fires.
pub(super) fn check(file: &File<'_>, findings: &mut Findings) {
    let probes = match read(file) {
        Ok(probes) => probes,
        Err(line) => {
            findings.illumos(Place::Section(DESCRIBED.into()), Problem::Description(line));
            return;
        }
    };
    let mut by_symbol = BTreeMap::<&str, Vec<&Described>>::new();
    for probe in probes.values() {
        by_symbol.entry(&probe.symbol).or_default().push(probe);
    }
    for (symbol, probes) in by_symbol {
        if !file.symbols.iter().any(|of| of.is_undefined() && of.name == symbol) {
            continue;
        }
        let mut wrong = |problem| findings.illumos(Place::Symbol(symbol.to_owned()), problem);
        for probe in &probes {
            if let Some((one, other)) = probe.disagreement() {
                wrong(Problem::Arguments { probe: probe.name.clone(), one, other });
            }
        }
        if let [first, .., last] = &probes[..] {
            wrong(Problem::Merged { one: first.said(), other: last.said() });
        }
    }
}

impl Described {
    /// What two declarations or sites have differently.
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

    /// Its name and arguments.
    fn said(&self) -> String {
        let types: Vec<_> =
            self.types.values().filter_map(|types| types.first()).cloned().collect();
        format!("{}({})", self.name, types.join(", "))
    }
}

/// The probes by their hashes; or the first line that is none of those there are.
fn read(file: &File<'_>) -> Result<BTreeMap<u64, Described>, String> {
    let mut probes = BTreeMap::<u64, Described>::new();
    for section in file.sections.iter().filter(|section| section.name == DESCRIBED) {
        let text: Vec<u8> = section.data.iter().copied().filter(|&byte| byte != 0).collect();
        for line in String::from_utf8_lossy(&text).lines() {
            let words: Vec<_> = line.split('\t').collect();
            add(&mut probes, &words).ok_or_else(|| line.to_owned())?;
        }
    }
    Ok(probes)
}

/// Adds what a line says.
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
