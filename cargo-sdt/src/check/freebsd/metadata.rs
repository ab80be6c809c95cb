//! Module metadata: `struct mod_metadata` of `sys/sys/module.h`, found through its set.

use crate::check::finding::Findings;
use crate::check::freebsd::Problem;
use crate::check::functions::Functions;
use crate::check::image::{Image, Section, Target};
use crate::platform::FreeBsd;

const SET: &str = "set_modmetadata_set";
const SYSINITS: &str = "set_sysinit_set";
const DATA: u64 = 8;
const NAME: u64 = 16;

/// The name by which a module depends on the kernel itself.
const KERNEL: &str = "kernel";

const VERSION: i32 = 1;
const DEPEND: i32 = 1;
const MODULE: i32 = 2;
const MODULE_VERSION: i32 = 3;
const PNP: i32 = 4;

/// `moduledata_t`: the module's name, its event handler, and what that is given besides.
const MODULE_DATA: u64 = 24;
const HANDLER: u64 = 8;

/// What a module says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) modules: Vec<String>,
    /// Where the `moduledata_t` of each is.
    pub(crate) records: Vec<Target>,
    pub(crate) depends: Vec<String>,
    /// The interfaces that it is (`MODULE_VERSION`).
    versions: Vec<String>,
    /// The kernels it is for, if it says so.
    pub(crate) release: Option<FreeBsd>,
    /// The lowest and the highest `__FreeBSD_version` of kernels that take it.
    pub(crate) kernels: Option<(u32, u32)>,
}

impl Metadata {
    /// Whether it depends on a module.
    pub(crate) fn depends_on(&self, module: &str) -> bool {
        self.depends.iter().any(|name| name == module)
    }

    /// Whether it is a module, or an interface, of this name. What is on a bus has that in front: `pci/em`.
    pub(crate) fn is(&self, name: &str) -> bool {
        let mut names = self.modules.iter().chain(&self.versions);
        names.any(|of| of.rsplit('/').next() == Some(name))
    }
}

pub(crate) fn check(
    image: &Image<'_>,
    functions: &Functions<'_>,
    findings: &mut Findings,
) -> Metadata {
    let mut metadata = Metadata::default();
    for section in image.named(SET) {
        for offset in section.elements(8) {
            // Elements that are no addresses have been reported with the sets.
            if let Some(target) = image.address(section, offset) {
                record(image, functions, target, &mut metadata, findings);
            }
        }
    }
    if !metadata.depends_on(KERNEL) {
        findings.file(Problem::NoKernel);
    }
    if metadata.modules.is_empty() {
        findings.file(Problem::NoModule);
    } else if image.named(SYSINITS).all(|section| section.size == 0) {
        findings.file(Problem::NoSysinit);
    }
    metadata
}

fn record(
    image: &Image<'_>,
    functions: &Functions<'_>,
    at: Target,
    metadata: &mut Metadata,
    findings: &mut Findings,
) {
    let home = image.section_of(at);
    let mut wrong =
        |offset, problem| findings.offset(&home.name, at.offset.wrapping_add(offset), problem);
    let number = |offset| home.u32(at.offset.wrapping_add(offset)).map(u32::cast_signed);
    let (Some(version), Some(kind)) = (number(0), number(4)) else {
        return wrong(0, Problem::NotAddress("a module metadata record"));
    };
    if version != VERSION {
        return wrong(0, Problem::Metadata { what: "version", found: version, expected: "1" });
    }
    let data = image.address(home, at.offset.wrapping_add(DATA));
    if data.is_none() {
        wrong(DATA, Problem::NotAddress("the data of a module metadata record"));
    }
    let name =
        image.address(home, at.offset.wrapping_add(NAME)).and_then(|name| image.string(name));
    match (kind, name) {
        (MODULE, Some(name)) => {
            metadata.modules.push(name);
            if let Some(data) = data {
                metadata.records.push(data);
                module(image, functions, data, findings);
            }
        }
        (DEPEND, Some(name)) => {
            if let Some(versions) = data {
                depend(image, versions, name == KERNEL, metadata, findings);
            }
            metadata.depends.push(name);
        }
        (MODULE_VERSION, Some(name)) => {
            let whole = data.map(|data| (data, image.section_of(data)));
            if let Some((data, home)) = whole
                && home.bytes(data.offset, 4).is_none()
            {
                let problem = Problem::RecordOutside { what: "a struct mod_version", size: 4 };
                findings.offset(&home.name, data.offset, problem);
            }
            metadata.versions.push(name);
        }
        (PNP, Some(_)) => {}
        (DEPEND | MODULE | MODULE_VERSION | PNP, None) => {
            wrong(NAME, Problem::NotAddress("the name of a module metadata record"));
        }
        (found, _) => {
            let expected = "1 (depend), 2 (module), 3 (version), 4 (pnp)";
            wrong(4, Problem::Metadata { what: "type", found, expected });
        }
    }
}

/// `moduledata_t`: the kernel reads the name and calls the handler.
fn module(image: &Image<'_>, functions: &Functions<'_>, at: Target, findings: &mut Findings) {
    let home = image.section_of(at);
    let mut wrong =
        |offset, problem| findings.offset(&home.name, at.offset.wrapping_add(offset), problem);
    // One in `.bss` has nothing in it.
    if home.bytes(at.offset, MODULE_DATA).is_none() {
        return wrong(0, Problem::RecordOutside { what: "a moduledata_t", size: MODULE_DATA });
    }
    let name = image.address(home, at.offset).and_then(|name| image.string(name));
    if name.is_none() {
        wrong(0, Problem::NotAddress("the name in a moduledata_t"));
    }
    if !function_at(image, functions, home, at.offset + HANDLER, true) {
        wrong(HANDLER, Problem::NotFunction("the event handler of a moduledata_t"));
    }
}

/// Whether a word is the address of a function, this module's or another's; or of none, if there may be none.
pub(super) fn function_at(
    image: &Image<'_>,
    functions: &Functions<'_>,
    home: &Section<'_>,
    at: u64,
    or_none: bool,
) -> bool {
    let none = home.u64(at) == Some(0) && !home.relocations.contains_key(&at);
    match image.address(home, at) {
        Some(target) => {
            image.section_of(target).is_code()
                && (!functions.are_known_in(target.section)
                    || functions.starts_at((target.section, target.offset)))
        }
        None => {
            image.import(home, at).is_some() || or_none && (none || image.is_weak_import(home, at))
        }
    }
}

/// A `struct mod_depend`. Of one on `kernel`: it takes those of one major release, from a version on, as
/// `MODULE_DEPEND` gives them (`MODULE_KERNEL_MAXVER` of `sys/sys/module.h`), or one alone (`MODULE_TIED`).
fn depend(
    image: &Image<'_>,
    at: Target,
    on_kernel: bool,
    metadata: &mut Metadata,
    findings: &mut Findings,
) {
    let home = image.section_of(at);
    let word = |index: u64| home.u32(at.offset.wrapping_add(4 * index));
    let (Some(minimum), Some(preferred), Some(maximum)) = (word(0), word(1), word(2)) else {
        let problem = Problem::NotAddress("a struct mod_depend");
        return findings.offset(&home.name, at.offset, problem);
    };
    if !on_kernel {
        return;
    }
    metadata.kernels = Some((minimum, maximum));
    let Ok(release) = FreeBsd::exactly(minimum) else {
        let newest = FreeBsd::default();
        let newer = minimum > newest.highest_version();
        let judged = if newer { newest } else { FreeBsd::oldest() };
        metadata.release = Some(judged);
        let problem = Problem::OtherRelease { found: minimum, judged };
        return findings.offset(&home.name, at.offset, problem);
    };
    // Of the first version of a release, like 1500000, `MODULE_KERNEL_MAXVER` makes the one before it.
    let highest = maximum == release.highest_version() || maximum == minimum.saturating_sub(1);
    if preferred != minimum || !highest && maximum != minimum {
        let problem = Problem::KernelVersions { minimum, preferred, maximum };
        findings.offset(&home.name, at.offset, problem);
    }
    metadata.release = Some(release);
}
