//! `struct sdt_probe`, of both generations.

use std::collections::BTreeMap;

use object::elf;
use sdt_core::ops::{FUNCTION_NAME_LEN, PROBE_NAME_LEN};

use super::PROBES;
use super::record::Record;
use crate::check::finding::Findings;
use crate::check::freebsd::Problem;
use crate::check::freebsd::metadata::Metadata;
use crate::check::freebsd::names::{translated, unusable};
use crate::check::freebsd::sets::elements;
use crate::check::image::{Home, Image, Target};
use crate::platform::{FreeBsd, Generation};

const VERSION: u64 = 0;
const PROVIDER: u64 = 8;
const LISTS: u64 = 16;

/// The provider that the kernel itself has (`sys/kern/kern_sdt.c`).
const KERNELS: (&str, &str) = ("sdt_provider_sdt", "sdt");

/// Where members are behind the lists, of which the generations have not the same.
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

/// Checks the probes and returns where they are, as DTrace lists them.
pub(super) fn check(
    image: &Image<'_>,
    release: FreeBsd,
    metadata: &Metadata,
    providers: &BTreeMap<Target, String>,
    findings: &mut Findings,
) -> BTreeMap<Target, String> {
    let mut probes = BTreeMap::new();
    let mut first = BTreeMap::new();
    for (_, _, at) in elements(image, PROBES) {
        let record = Record::new(image, at);
        let listed = probe(record, release, metadata, providers, findings);
        if let Some(probe) = &listed {
            if let Some(first) = first.get(probe) {
                let (probe, first) = (probe.clone(), Record::place(first));
                record.report(VERSION, Problem::SameProbe { probe, first }, findings);
            } else {
                first.insert(probe.clone(), record);
            }
        }
        probes.insert(at, listed.unwrap_or_default());
    }
    probes
}

/// The provider of a probe, if it is this module's.
pub(super) fn provider_of(image: &Image<'_>, probe: Target) -> Option<Target> {
    Record::new(image, probe).address(PROVIDER)
}

/// Checks one probe and returns how it is listed, if that can be said.
fn probe(
    record: Record<'_, '_>,
    release: FreeBsd,
    metadata: &Metadata,
    providers: &BTreeMap<Target, String>,
    findings: &mut Findings,
) -> Option<String> {
    let layout = Layout::of(release.generation());
    let expected = layout.end;
    if let Some(found) = record.number(VERSION)
        && u64::from(found) != expected
    {
        record.report(VERSION, Problem::ProbeVersion { found, release, expected }, findings);
        return None;
    }
    if !record.is_sound("a struct sdt_probe", layout.end, findings) {
        return None;
    }
    record.check_zero("a list of a struct sdt_probe", LISTS..layout.module, findings);
    record.check_zero(
        "the id, count or file of a struct sdt_probe",
        layout.id..layout.end,
        findings,
    );

    let provider = match (record.address(PROVIDER), record.import(PROVIDER)) {
        (Some(at), _) => providers.get(&at).map(String::as_str),
        (None, Some(symbol)) => (symbol == KERNELS.0).then_some(KERNELS.1),
        (None, None) => None,
    };
    if provider.is_none() {
        let problem = Problem::NotRecord { what: "the probe's provider", set: super::PROVIDERS };
        record.report(PROVIDER, problem, findings);
    }
    let mut string = |member, what| {
        let string = record.string(member);
        if string.is_none() {
            record.report(member, Problem::NotAddress(what), findings);
        }
        string
    };
    let module = string(layout.module, "the string of the probe's module");
    let function = string(layout.function, "the string of the probe's function");
    let name = string(layout.name, "the probe's name");
    let (provider, module, function, name) = (provider?, module?, function?, name?);

    if !module.is_empty() && !metadata.modules.contains(&module) {
        record.report(layout.module, Problem::ProbeModule(module.clone()), findings);
    }
    let mut wrong = |member, element, name: &str, reason| {
        record.report(member, Problem::Name { element, name: name.into(), reason }, findings);
    };
    if function.len() >= FUNCTION_NAME_LEN {
        let reason = format!("is longer than {} bytes", FUNCTION_NAME_LEN - 1);
        wrong(layout.function, "probe's function", &function, reason);
    }
    let name = translated(&name);
    if let Some(reason) = unusable(&name, PROBE_NAME_LEN) {
        wrong(layout.name, "probe", &name, reason);
    }
    Some(format!("{provider}:{module}:{function}:{name}"))
}

/// The generation that the first record of a module is of, by its version.
pub(in crate::check::freebsd) fn generation(image: &Image<'_>) -> Option<Generation> {
    let (_, _, at) = elements(image, PROBES).next()?;
    let version = u64::from(Record::new(image, at).number(VERSION)?);
    Generation::ALL.into_iter().find(|of| of.probe_size() == version)
}

/// How the probe of an open provider is listed, by the hash in its record's symbol.
pub(in crate::check::freebsd) fn open_probe(image: &Image<'_>, hash: &str) -> Option<String> {
    let symbol = format!("__sdt_probe_{hash}");
    let symbol = image.all_symbols().find(|of| of.name == symbol && of.binding != elf::STB_WEAK)?;
    let Home::Section(section) = symbol.home else { return None };
    let record = Record::new(image, Target { section, offset: symbol.value });
    let version = u64::from(record.number(VERSION)?);
    let generation = Generation::ALL.into_iter().find(|of| of.probe_size() == version)?;
    let provider = Record::new(image, record.address(PROVIDER)?).string(0)?;
    Some(format!("{provider}:::{}", translated(&record.string(Layout::of(generation).name)?)))
}
