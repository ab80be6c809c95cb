//! `cargo xtask kmod`: builds a kernel module, checks it, prints where it is.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::build::{EXAMPLE, Module, Patch};
use crate::platform::{FreeBsd, NoSuchKernel, Os, Route};
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
    /// Release of FreeBSD: a major one, 10 to 15, or an exact __FreeBSD_version [default: 15].
    #[arg(long, value_name = "RELEASE")]
    freebsd: Option<FreeBsd>,
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

impl Args {
    fn module(&self) -> Result<Module, NoSuchKernel> {
        Ok(Module {
            package: self.package.clone(),
            features: self.features.clone(),
            default_features: !self.no_default_features,
            os: self.os,
            freebsd: self.os.release(self.freebsd)?,
            route: self.route,
            patch: self.patch,
            ..Module::example(self.arch)
        })
    }
}

/// Runs the command.
///
/// # Errors
/// There are no such modules, the module could not be built, or it breaks a rule of the loader's.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    println!("{}", args.module()?.build(args.output.as_deref())?.display());
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let module = |line: &str| {
            let line = ["kmod"].into_iter().chain(line.split(' '));
            Cli::parse_from(line).args.module()
        };
        assert_eq!(module("--freebsd 14").unwrap().freebsd.major(), 14);
        assert_eq!(module("--os illumos").unwrap().freebsd, FreeBsd::default());
        for release in ["14", "15"] {
            let error = module(&format!("--os illumos --freebsd {release}")).unwrap_err();
            let expected = format!("--freebsd {release} is a release of FreeBSD, ");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
    }
}
