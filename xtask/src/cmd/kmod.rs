//! `cargo xtask kmod`: builds a kernel module, checks it, prints where it is.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::build::{EXAMPLE, Module, Patch};
use crate::platform::{FreeBsd, Os, Route};
use crate::workspace::Arch;

/// Options of `cargo xtask kmod`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Architecture of the kernel.
    #[arg(long, value_enum, default_value_t)]
    arch: Arch,
    /// Package to build; its library becomes the module.
    #[arg(long, default_value = EXAMPLE)]
    package: String,
    /// Features of the package to turn on, one an option.
    #[arg(long, value_name = "FEATURE")]
    features: Vec<String>,
    /// Leave the package's default features off.
    #[arg(long)]
    no_default_features: bool,
    /// Operating system of the kernel.
    #[arg(long, value_enum, default_value_t)]
    os: Os,
    /// Release of FreeBSD: a major one, 10 to 15, or an exact __FreeBSD_version.
    #[arg(long, value_name = "RELEASE", default_value_t)]
    freebsd: FreeBsd,
    /// How the kernel comes to know the probes.
    #[arg(long, value_enum, default_value_t)]
    route: Route,
    /// With a provider of its own: what sites do while they are enabled [default: trap].
    #[arg(long, value_enum)]
    patch: Option<Patch>,
    /// Where to write the module [default: build/kmod/ARCH/LIBRARY.ko, in there a folder for each other
    /// option that is not the default].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// There are no such modules, the module could not be built, or it breaks a rule of the loader's.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let module = Module {
        package: args.package.clone(),
        features: args.features.clone(),
        default_features: !args.no_default_features,
        os: args.os,
        freebsd: args.freebsd,
        route: args.route,
        patch: args.patch,
        ..Module::example(args.arch)
    };
    println!("{}", module.build(args.output.as_deref())?.display());
    Ok(ExitCode::SUCCESS)
}
