//! Module metadata: `struct mod_metadata` of `sys/sys/module.h`, found through its set.

use super::functions::is_function;
use super::sets::elements;
use crate::check::elf::{Elf, Target};
use crate::check::functions::Functions;
use crate::check::record::Record;
use crate::check::rules::Rule;
use crate::platform::FreeBsd;

const SET: &str = "set_modmetadata_set";
const SYSINITS: &str = "set_sysinit_set";
const KIND: u64 = 4;
const DATA: u64 = 8;
const NAME: u64 = 16;

/// The name by which a module depends on the kernel itself.
pub(super) const KERNEL: &str = "kernel";

const VERSION: i32 = 1;
const DEPEND: i32 = 1;
const MODULE: i32 = 2;
const MODULE_VERSION: i32 = 3;
const PNP: i32 = 4;

/// `moduledata_t`: the module's name, its event handler, and the handler's argument.
const MODULE_DATA: u64 = 24;
const HANDLER: u64 = 8;

/// The metadata of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Metadata {
    pub(super) modules: Vec<String>,
    /// The place of the `moduledata_t` of each.
    pub(super) records: Vec<Target>,
    pub(super) depends: Vec<String>,
    /// The interfaces that it provides (`MODULE_VERSION`).
    versions: Vec<String>,
    /// The release for which the module was built, if its metadata name one.
    pub(super) release: Option<FreeBsd>,
    /// The lowest and the highest `__FreeBSD_version` of kernels that load it.
    pub(super) kernels: Option<(u32, u32)>,
}

impl Metadata {
    pub(super) fn depends_on(&self, module: &str) -> bool {
        self.depends.iter().any(|name| name == module)
    }

    /// Returns whether a module or an interface in the file has this name. The name of a driver begins with its bus,
    /// which is ignored: `pci/em`.
    pub(super) fn is(&self, name: &str) -> bool {
        let mut names = self.modules.iter().chain(&self.versions);
        names.any(|of| of.rsplit('/').next() == Some(name))
    }
}

pub(super) fn check(elf: &Elf<'_>, functions: &Functions<'_>) -> Metadata {
    let mut metadata = Metadata::default();
    for (_, _, at) in elements(elf, SET) {
        metadata.read(Record::new(elf, at), functions);
    }
    if !metadata.depends_on(KERNEL) {
        elf.findings.file(Rule::NoKernel, &[]);
    }
    if metadata.modules.is_empty() {
        elf.findings.file(Rule::NoModule, &[]);
    } else if elf.named(SYSINITS).all(|section| section.size == 0) {
        elf.findings.file(Rule::NoSysinit, &[]);
    }
    metadata
}

impl Metadata {
    fn read(&mut self, record: Record<'_, '_>, functions: &Functions<'_>) {
        let number = |member| record.u32(member).map(u32::cast_signed);
        let (Some(version), Some(kind)) = (number(0), number(KIND)) else {
            return record.report(0, Rule::NotAddress, &[&"a module metadata record"]);
        };
        if version != VERSION {
            return record.report(0, Rule::Metadata, &[&"version", &version, &"1"]);
        }
        let data = record.record(DATA);
        if data.is_none() {
            let what = "the data of a module metadata record";
            record.report(DATA, Rule::NotAddress, &[&what]);
        }
        if ![DEPEND, MODULE, MODULE_VERSION, PNP].contains(&kind) {
            let expected = "1 (depend), 2 (module), 3 (version), 4 (pnp)";
            return record.report(KIND, Rule::Metadata, &[&"type", &kind, &expected]);
        }
        let Some(name) = record.string(NAME) else {
            let what = "the name of a module metadata record";
            return record.report(NAME, Rule::NotAddress, &[&what]);
        };
        match kind {
            MODULE => {
                self.modules.push(name);
                self.records.extend(record.address(DATA));
                if let Some(data) = data {
                    module(data, functions);
                }
            }
            DEPEND => {
                if let Some(versions) = data {
                    self.depend(versions, name == KERNEL);
                }
                self.depends.push(name);
            }
            MODULE_VERSION => {
                if let Some(data) = data {
                    data.is_whole("a struct mod_version", 4);
                }
                self.versions.push(name);
            }
            _ => {}
        }
    }

    /// Reads a `struct mod_depend`. A dependency on `kernel` accepts the kernels of one major release from a version
    /// on, as `MODULE_DEPEND` defines (`MODULE_KERNEL_MAXVER` of `sys/sys/module.h`), or exactly one version
    /// (`MODULE_TIED`).
    fn depend(&mut self, record: Record<'_, '_>, on_kernel: bool) {
        let words = [0, 4, 8].map(|member| record.u32(member));
        let [Some(minimum), Some(preferred), Some(maximum)] = words else {
            return record.report(0, Rule::NotAddress, &[&"a struct mod_depend"]);
        };
        if !on_kernel {
            return;
        }
        self.kernels = Some((minimum, maximum));
        let Ok(release) = FreeBsd::exactly(minimum) else {
            let newest = FreeBsd::default();
            let newer = minimum > newest.highest_version();
            let judged = if newer { newest } else { FreeBsd::oldest() };
            self.release = Some(judged);
            return record.report(0, Rule::OtherRelease, &[&minimum, &judged]);
        };
        // For the first version of a release, such as 1500000, `MODULE_KERNEL_MAXVER` is the version before it.
        let highest = maximum == release.highest_version() || maximum == minimum.saturating_sub(1);
        if preferred != minimum || !highest && maximum != minimum {
            record.report(0, Rule::KernelVersions, &[&minimum, &maximum, &preferred]);
        }
        self.release = Some(release);
    }
}

/// Checks a `moduledata_t`: the kernel reads the name and calls the handler.
fn module(record: Record<'_, '_>, functions: &Functions<'_>) {
    // A record in `.bss` is all zeros, so it has no contents to check.
    if !record.is_whole("a moduledata_t", MODULE_DATA) {
        return;
    }
    if record.string(0).is_none() {
        record.report(0, Rule::NotAddress, &[&"the name in a moduledata_t"]);
    }
    if !is_function(record, HANDLER, functions, true) {
        let what = "the event handler of a moduledata_t";
        record.report(HANDLER, Rule::NotFunction, &[&what]);
    }
}
