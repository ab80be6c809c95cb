//! Module metadata: `struct mod_metadata` of `sys/sys/module.h`, found through its set.

use crate::check::finding::{Findings, Problem};
use crate::check::image::{Image, Target};
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

/// What a module says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) modules: Vec<String>,
    pub(crate) depends: Vec<String>,
    /// The kernels it is for.
    pub(crate) kernel: Option<FreeBsd>,
}

impl Metadata {
    /// Whether it depends on a module.
    pub(crate) fn depends_on(&self, module: &str) -> bool {
        self.depends.iter().any(|name| name == module)
    }
}

pub(crate) fn check(image: &Image<'_>, findings: &mut Findings) -> Metadata {
    let mut metadata = Metadata::default();
    for section in image.named(SET) {
        for offset in (0..section.size).step_by(8) {
            // Elements that are no addresses have been reported with the sets.
            if let Some(target) = image.address(section, offset) {
                record(image, target, &mut metadata, findings);
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

fn record(image: &Image<'_>, at: Target, metadata: &mut Metadata, findings: &mut Findings) {
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
    if image.address(home, at.offset.wrapping_add(DATA)).is_none() {
        wrong(DATA, Problem::NotAddress("the data of a module metadata record"));
    }
    let name =
        image.address(home, at.offset.wrapping_add(NAME)).and_then(|name| image.string(name));
    match (kind, name) {
        (MODULE, Some(name)) => metadata.modules.push(name),
        (DEPEND, Some(name)) => {
            if name == KERNEL
                && let Some(versions) = image.address(home, at.offset.wrapping_add(DATA))
            {
                metadata.kernel = kernel(image, versions, findings).or(metadata.kernel);
            }
            metadata.depends.push(name);
        }
        (MODULE_VERSION | PNP, Some(_)) => {}
        (DEPEND | MODULE | MODULE_VERSION | PNP, None) => {
            wrong(NAME, Problem::NotAddress("the name of a module metadata record"));
        }
        (found, _) => {
            let expected = "1 (depend), 2 (module), 3 (version), 4 (pnp)";
            wrong(4, Problem::Metadata { what: "type", found, expected });
        }
    }
}

/// The kernels that a `struct mod_depend` on `kernel` takes: those of one major release, from a version on, as
/// `MODULE_DEPEND` gives them (`MODULE_KERNEL_MAXVER` of `sys/sys/module.h`), or one alone (`MODULE_TIED`).
fn kernel(image: &Image<'_>, at: Target, findings: &mut Findings) -> Option<FreeBsd> {
    let home = image.section_of(at);
    let word = |index: u64| home.u32(at.offset.wrapping_add(4 * index));
    let (Some(minimum), Some(preferred), Some(maximum)) = (word(0), word(1), word(2)) else {
        let problem = Problem::NotAddress("a struct mod_depend");
        findings.offset(&home.name, at.offset, problem);
        return None;
    };
    let release = FreeBsd::exactly(minimum).ok();
    let of_one = release.is_some_and(|release| {
        preferred == minimum && (maximum == release.highest_version() || maximum == minimum)
    });
    if !of_one {
        let problem = Problem::KernelVersions { minimum, preferred, maximum };
        findings.offset(&home.name, at.offset, problem);
    }
    release
}
