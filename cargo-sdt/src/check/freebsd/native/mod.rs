//! The records of the kernel's own sdt (`sys/sys/sdt.h`), as `sys/cddl/dev/sdt/sdt.c` takes them: by their
//! addresses, without a look at what is there.

mod arguments;
mod probes;
mod providers;
mod record;
mod tracepoints;

use super::metadata::Metadata;
use super::records::Count;
use crate::check::finding::Findings;
use crate::check::freebsd::Problem;
use crate::check::image::Image;
use crate::platform::FreeBsd;

pub(super) use probes::{generation, open_probe};

const PROVIDERS: &str = "set_sdt_providers_set";
const PROBES: &str = "set_sdt_probes_set";
const ARGUMENTS: &str = "set_sdt_argtypes_set";

/// Checks the records and returns how many there are. `own` are those of providers of the module's own.
pub(super) fn check(
    image: &Image<'_>,
    release: FreeBsd,
    metadata: &Metadata,
    own: Count,
    findings: &mut Findings,
) -> Count {
    let providers = providers::check(image, findings);
    let probes = probes::check(image, release, metadata, &providers, findings);
    arguments::check(image, &probes, findings);
    tracepoints::check(image, release, &providers, &probes, findings);
    let count = Count { providers: providers.len() as u64, probes: probes.len() as u64 };
    if count != Count::default() && own == Count::default() && metadata.depends_on("dtrace") {
        findings.file(Problem::DependsOnDtrace);
    }
    count
}
