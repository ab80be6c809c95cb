//! The records of the kernel's own sdt (`sys/sys/sdt.h`). `sys/cddl/dev/sdt/sdt.c` uses their addresses without
//! checking their contents.

use std::collections::{BTreeMap, BTreeSet};

use sdt_core::ops::{ARG_TYPE_LEN, FUNCTION_NAME_LEN, PROBE_NAME_LEN, PROVIDER_NAME_LEN};

use super::metadata::Metadata;
use super::own::Count;
use super::sets::elements;
use super::sites::RECORD;
use crate::check::elf::{Elf, Home, Target};
use crate::check::names::{TRACEPOINTS, translated, unusable};
use crate::check::record::Record;
use crate::check::rules::Rule;
use crate::platform::{FreeBsd, Generation, Os};

const PROVIDERS: &str = "set_sdt_providers_set";
const PROBES: &str = "set_sdt_probes_set";
const ARGUMENTS: &str = "set_sdt_argtypes_set";

/// The provider that the kernel itself has (`sys/kern/kern_sdt.c`).
const KERNELS: (&str, &str) = ("sdt_provider_sdt", "sdt");

/// `struct sdt_provider`: the name, the entry of a list, id and count.
mod provider {
    pub(super) const NAME: u64 = 0;
    pub(super) const ENTRY: u64 = 8;
    pub(super) const ID: u64 = 24;
    pub(super) const SIZE: u64 = 40;
}

/// `struct sdt_probe` up to the lists, which differ between the generations.
mod probe {
    pub(super) const VERSION: u64 = 0;
    pub(super) const PROVIDER: u64 = 8;
    pub(super) const LISTS: u64 = 16;
}

/// `struct sdt_argtype`.
mod argument {
    pub(super) const INDEX: u64 = 0;
    pub(super) const TYPE: u64 = 8;
    pub(super) const TRANSLATED: u64 = 16;
    pub(super) const ENTRY: u64 = 24;
    pub(super) const PROBE: u64 = 40;
    pub(super) const SIZE: u64 = 48;
}

/// The offsets of the members of a `struct sdt_probe` after the lists, and its size.
struct Layout {
    module: u64,
    function: u64,
    name: u64,
    id: u64,
    end: u64,
}

impl Layout {
    fn of(generation: Generation) -> Self {
        let end = generation.probe_size();
        Self { module: end - 48, function: end - 40, name: end - 32, id: end - 24, end }
    }
}

/// Records by their places, with their names.
type Named = BTreeMap<Target, String>;

/// Checks the records and returns how many there are. `own` are the counts of the providers that the module registers itself.
pub(super) fn check(elf: &Elf<'_>, release: FreeBsd, metadata: &Metadata, own: Count) -> Count {
    let providers = providers(elf);
    let probes = probes(elf, release, metadata, &providers);
    arguments(elf, &probes);
    tracepoints(elf, release, &providers, &probes);
    let count = Count { providers: providers.len() as u64, probes: probes.len() as u64 };
    if count != Count::default() && own == Count::default() && metadata.depends_on("dtrace") {
        elf.findings.file(Rule::DependsOnDtrace, &[]);
    }
    count
}

fn providers(elf: &Elf<'_>) -> Named {
    use provider::{ENTRY, ID, NAME, SIZE};
    let mut providers = Named::new();
    for (_, _, at) in elements(elf, PROVIDERS) {
        let record = Record::new(elf, at);
        let name = record.string(NAME).unwrap_or_default();
        if record.is_sound("a struct sdt_provider", SIZE) {
            record.check_zero("the list entry of a struct sdt_provider", ENTRY..ID);
            record.check_zero("the id or count of a struct sdt_provider", ID..SIZE);
            if record.address(NAME).is_none() {
                record.report(NAME, Rule::NotAddress, &[&"the provider's name"]);
            } else if let Some(reason) = unusable(Os::FreeBsd, &name, PROVIDER_NAME_LEN) {
                record.report(NAME, Rule::Name, &[&"provider", &name, &reason]);
            }
        }
        providers.insert(at, name);
    }
    providers
}

/// Checks the probes and returns them with the descriptions by which DTrace lists them.
fn probes(elf: &Elf<'_>, release: FreeBsd, metadata: &Metadata, providers: &Named) -> Named {
    let mut probes = Named::new();
    let mut first = BTreeMap::<String, String>::new();
    for (_, _, at) in elements(elf, PROBES) {
        let record = Record::new(elf, at);
        let listed = description(record, release, metadata, providers);
        if let Some(probe) = &listed {
            let place = format!("{}+{:#x}", record.home.name, record.offset);
            if let Some(first) = first.get(probe) {
                record.report(probe::VERSION, Rule::SameProbe, &[probe, first]);
            } else {
                first.insert(probe.clone(), place);
            }
        }
        probes.insert(at, listed.unwrap_or_default());
    }
    probes
}

/// Checks one probe and returns its description, if it has one.
fn description(
    record: Record<'_, '_>,
    release: FreeBsd,
    metadata: &Metadata,
    providers: &Named,
) -> Option<String> {
    use probe::{LISTS, PROVIDER, VERSION};
    let layout = Layout::of(release.generation());
    let expected = layout.end;
    if let Some(found) = record.u32(VERSION)
        && u64::from(found) != expected
    {
        record.report(VERSION, Rule::ProbeVersion, &[&found, &release, &expected]);
        return None;
    }
    if !record.is_sound("a struct sdt_probe", layout.end) {
        return None;
    }
    record.check_zero("a list of a struct sdt_probe", LISTS..layout.module);
    let rest = "the id, count or file of a struct sdt_probe";
    record.check_zero(rest, layout.id..layout.end);

    let provider = match record.address(PROVIDER) {
        Some(at) => providers.get(&at).map(String::as_str),
        None => {
            let import = record.import(PROVIDER).filter(|of| !of.is_weak() && of.name == KERNELS.0);
            import.map(|_| KERNELS.1)
        }
    };
    if provider.is_none() {
        record.report(PROVIDER, Rule::NotRecord, &[&"the probe's provider", &PROVIDERS]);
    }
    let [module, function, name] = [
        (layout.module, "the string of the probe's module"),
        (layout.function, "the string of the probe's function"),
        (layout.name, "the probe's name"),
    ]
    .map(|(member, what)| {
        let string = record.string(member);
        if string.is_none() {
            record.report(member, Rule::NotAddress, &[&what]);
        }
        string
    });
    let (provider, module, function, name) = (provider?, module?, function?, name?);

    if !module.is_empty() && !metadata.modules.contains(&module) {
        record.report(layout.module, Rule::ProbeModule, &[&module]);
    }
    if function.len() >= FUNCTION_NAME_LEN {
        let reason = too_long(FUNCTION_NAME_LEN);
        record.report(layout.function, Rule::Name, &[&"probe's function", &function, &reason]);
    }
    let name = translated(&name);
    if let Some(reason) = unusable(Os::FreeBsd, &name, PROBE_NAME_LEN) {
        record.report(layout.name, Rule::Name, &[&"probe", &name, &reason]);
    }
    Some(format!("{provider}:{module}:{function}:{name}"))
}

fn too_long(limit: usize) -> String {
    format!("is longer than {} bytes", limit - 1)
}

fn arguments(elf: &Elf<'_>, probes: &Named) {
    use argument::{ENTRY, INDEX, PROBE, SIZE, TRANSLATED, TYPE};
    let mut indices = BTreeMap::<Target, Vec<i32>>::new();
    for (_, _, at) in elements(elf, ARGUMENTS) {
        let record = Record::new(elf, at);
        if !record.is_sound("a struct sdt_argtype", SIZE) {
            continue;
        }
        record.check_zero("the list entry of a struct sdt_argtype", ENTRY..PROBE);
        for (member, what) in
            [(TYPE, "the argument's type"), (TRANSLATED, "the argument's translated type")]
        {
            // The kernel treats NULL as "no type".
            match record.string(member) {
                _ if record.is_null(member) => {}
                None => record.report(member, Rule::NotAddress, &[&what]),
                Some(name) if name.len() >= ARG_TYPE_LEN => {
                    let reason = too_long(ARG_TYPE_LEN);
                    record.report(member, Rule::Name, &[&"argument type", &name, &reason]);
                }
                Some(_) => {}
            }
        }
        match record.address(PROBE).filter(|probe| probes.contains_key(probe)) {
            Some(probe) => {
                let index = record.u32(INDEX).unwrap_or_default().cast_signed();
                indices.entry(probe).or_default().push(index);
            }
            None => {
                record.report(PROBE, Rule::NotRecord, &[&"the argument's probe", &PROBES]);
            }
        }
    }
    for (probe, mut found) in indices {
        found.sort_unstable();
        if !found.iter().copied().eq(0..found.len() as i32) {
            let words: Vec<_> = found.iter().map(ToString::to_string).collect();
            Record::new(elf, probe).report(
                0,
                Rule::ArgumentIndices,
                &[&probes[&probe], &words.join(", ")],
            );
        }
    }
}

/// Checks `struct sdt_tracepoint` beyond the rules for all [sites](super::sites).
fn tracepoints(elf: &Elf<'_>, release: FreeBsd, providers: &Named, probes: &Named) {
    // If the provider of any site is unknown, no provider can be reported as having no site.
    let (mut fired, mut known) = (BTreeSet::new(), true);
    for section in elf.named(TRACEPOINTS).filter(|section| section.size > 0) {
        if release.generation() == Generation::Tested {
            elf.findings.section(&section.name, Rule::NoTracepoints, &[&release]);
        }
        for offset in section.elements(RECORD as usize) {
            let site = Record { elf, home: section, offset };
            // A member that is no address is reported with the sites.
            if site.address(0).is_some_and(|probe| !probes.contains_key(&probe)) {
                site.report(0, Rule::NotRecord, &[&"the site's probe", &PROBES]);
            }
            let provider = site.record(0).and_then(|probe| probe.address(probe::PROVIDER));
            let name = provider.and_then(|provider| providers.get(&provider));
            known &= name.is_some();
            fired.extend(name);
        }
    }
    // A site that tests a flag has no record.
    if release.generation() == Generation::Patched && known {
        // One provider may have several records.
        let silent: BTreeSet<_> = providers.values().filter(|name| !fired.contains(name)).collect();
        silent.into_iter().for_each(|name| elf.findings.file(Rule::NoSite, &[name]));
    }
}

/// Returns the generation of a record, by its version.
fn generation_of(record: Record<'_, '_>) -> Option<Generation> {
    let version = u64::from(record.u32(probe::VERSION)?);
    Generation::ALL.into_iter().find(|of| of.probe_size() == version)
}

/// Returns the generation of a module's first record.
pub(super) fn generation(elf: &Elf<'_>) -> Option<Generation> {
    let (_, _, at) = elements(elf, PROBES).next()?;
    generation_of(Record::new(elf, at))
}

/// Returns the description of the probe of an open provider, by the hash in its record's symbol.
pub(super) fn open_probe(elf: &Elf<'_>, hash: &str) -> Option<String> {
    let symbol = format!("__sdt_probe_{hash}");
    let symbol = elf.all_symbols().find(|of| of.name == symbol && !of.is_weak())?;
    let Home::Section(section) = symbol.home else { return None };
    let record = Record::new(elf, Target { section, offset: symbol.value });
    let layout = Layout::of(generation_of(record)?);
    let provider = record.record(probe::PROVIDER)?.string(provider::NAME)?;
    Some(format!("{provider}:::{}", translated(&record.string(layout.name)?)))
}
