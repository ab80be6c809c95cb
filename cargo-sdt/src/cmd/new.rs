//! `cargo sdt new`: writes a crate that is a kernel module.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::output;
use crate::platform::{FreeBsd, Os, Route};
use crate::progress::note;
use crate::template::{Name, SdtCore, Template};

/// Options of `cargo sdt new`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Operating system of the kernel.
    #[arg(long, value_parser = os, value_name = "freebsd|illumos")]
    os: Os,
    /// Source of the crate's sdt-core: its folder or that of its workspace, the URL of a git repository, or a version
    /// in the registry [default: the folder from which cargo-sdt was installed, if it still exists].
    #[arg(long, value_name = "FOLDER|URL|VERSION")]
    sdt_core: Option<SdtCore>,
    /// Release of FreeBSD: a major one, 10 to 15, or an exact __FreeBSD_version [default: 15].
    #[arg(long, value_name = "RELEASE")]
    freebsd: Option<FreeBsd>,
    /// Route of the probes to the kernel's DTrace.
    #[arg(long, value_enum, default_value_t)]
    route: Route,
    /// Folder to create [default: the name, in this folder].
    #[arg(long, value_name = "FOLDER")]
    path: Option<PathBuf>,
    /// The module's name: of the package, the file, and the provider of its probe.
    name: String,
}

/// Returns the system with this name. For Linux the error names sdt-process, as programs need no module.
fn os(name: &str) -> Result<Os, String> {
    <Os as clap::ValueEnum>::from_str(name, false).map_err(|_| {
        let known = "supported are modules for freebsd and illumos".to_owned();
        match name {
            "linux" => {
                known
                    + "; to trace a program on Linux, use the crate sdt-process instead \
                        of a module"
            }
            _ => known,
        }
    })
}

impl Args {
    /// Returns the source of the new crate's sdt-core.
    fn sdt_core(&self) -> anyhow::Result<SdtCore> {
        if let Some(given) = &self.sdt_core {
            return Ok(given.clone());
        }
        let installed = SdtCore::of_installation().context(
            "no sdt-core found: the registry does not have it yet, and the folder from which \
             cargo-sdt was installed no longer exists; name the folder of sdt-core or of its \
             repository with --sdt-core FOLDER",
        )?;
        note(format_args!("sdt-core = {installed}, from which cargo-sdt was installed"));
        Ok(installed)
    }
}

/// Runs the command. Prints the path of the crate.
///
/// # Errors
/// If a module cannot have the name, the kernel is not supported, sdt-core is missing, or the folder exists or cannot
/// be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let sdt_core = args.sdt_core()?;
    let freebsd = args.os.release(args.freebsd)?;
    anyhow::ensure!(
        args.route == Route::Native || freebsd.has_provider_route(),
        "--route provider is not supported on FreeBSD {freebsd}: use --route native"
    );
    let template = Template {
        name: Name::new(&args.name, args.os)?,
        os: args.os,
        freebsd,
        route: args.route,
        sdt_core,
    };
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    template.write_to(&folder)?;
    note("a module with a probe; its README.md says how to build, load and trace it");
    output::line(folder.display())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
#[path = "../../tests/unit/cmd/new.rs"]
mod tests;
