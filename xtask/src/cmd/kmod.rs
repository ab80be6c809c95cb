//! `cargo xtask kmod`: builds a kernel module, checks it, prints where it is.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::build::{EXAMPLE, Module, Patch};
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
    /// What its sites do while they are enabled.
    #[arg(long, value_enum, default_value_t)]
    patch: Patch,
    /// Where to write the module [default: build/kmod/ARCH/LIBRARY.ko, or .../ARCH/PATCH/LIBRARY.ko].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The module could not be built, or breaks a rule of the loader's.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let module =
        Module { package: args.package.clone(), patch: args.patch, ..Module::example(args.arch) };
    println!("{}", module.build(args.output.as_deref())?.display());
    Ok(ExitCode::SUCCESS)
}
