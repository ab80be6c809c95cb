//! `cargo xtask clippy-kernels`: lints code for kernels.

use std::process::ExitCode;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{Os, Route};
use harness::workspace;

use crate::lint;

/// The packages of the modules.
const MODULES: [&str; 2] = [workspace::EXAMPLE, "kmod-test"];
/// The packages of their companions. A companion is built for illumos's native route.
const COMPANIONS: [&str; 2] = ["kmod-example-dtrace", "kmod-test-dtrace"];

/// Runs the command.
///
/// # Errors
/// If a dependency could not be built, or if clippy has findings.
pub fn run() -> anyhow::Result<ExitCode> {
    for arch in Arch::ALL {
        lint::stand_in_kernel(arch)?;
        for route in [Route::Native, Route::Provider] {
            lint::modules(&Module { route, ..workspace::example(arch) }, &MODULES)?;
        }
    }
    // Before FreeBSD 15, a site of the native route is a test: of a flag for all probes (12 to 14), or of the probe's id (10,
    // 11). Such a site passes at most five arguments.
    for release in ["14", "11"] {
        let module = Module { freebsd: release.parse()?, ..workspace::example(Arch::X86_64) };
        lint::modules(&module, &MODULES)?;
    }
    let illumos = Module { os: Os::Illumos, ..workspace::example(Arch::X86_64) };
    lint::modules(&illumos, &[MODULES, COMPANIONS].concat())?;
    lint::modules(&Module { route: Route::Provider, ..illumos }, &MODULES)?;
    Ok(ExitCode::SUCCESS)
}
