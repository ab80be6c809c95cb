//! `cargo sdt kmod`: builds a kernel module, checks it, prints where it is.

use std::path::PathBuf;
use std::process::ExitCode;

use super::check::{KernelArgs, say};
use crate::arch::Arch;
use crate::module::{Module, Patch};
use crate::output;
use crate::platform::{FreeBsd, NoSuchKernel, Os, Route};
use crate::project::{Found, ProjectError};

/// Options of `cargo sdt kmod`. What is not given is as the package's manifest has it, in `[package.metadata.sdt]`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Architecture of the kernel [default: x86_64].
    #[arg(long, value_enum)]
    arch: Option<Arch>,
    /// Package to build; its library becomes the module [default: that of this folder].
    #[arg(long, short)]
    package: Option<String>,
    /// Features of the package to turn on, one an option, besides those that its manifest says.
    #[arg(long, value_name = "FEATURE")]
    features: Vec<String>,
    /// Leave the package's default features off.
    #[arg(long)]
    no_default_features: bool,
    /// Operating system of the kernel [default: freebsd].
    #[arg(long, value_enum)]
    os: Option<Os>,
    /// Release of FreeBSD: a major one, 10 to 15, or an exact __FreeBSD_version [default: 15].
    #[arg(long, value_name = "RELEASE")]
    freebsd: Option<FreeBsd>,
    /// How the kernel comes to know the probes [default: native].
    #[arg(long, value_enum)]
    route: Option<Route>,
    /// With a provider of its own: what sites do while they are enabled [default: trap].
    #[arg(long, value_enum)]
    patch: Option<Patch>,
    #[command(flatten)]
    kernel: KernelArgs,
    /// Leave functions the names that rustc has made up, instead of those that DTrace's users can read and type.
    #[arg(long)]
    raw_symbols: bool,
    /// Where to write the module [default: a folder for the architecture and for each other option that is not
    /// the default, in the build folder].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Args {
    fn module(&self, found: Found) -> Result<Module, NoSuchKernel> {
        let Found { project, package, settings } = found;
        let os = self.os.or(settings.os).unwrap_or_default();
        // A manifest may say both: what is for one system is nothing to another.
        let freebsd = self.freebsd.or(settings.freebsd.filter(|_| os == Os::FreeBsd));
        let route = self.route.or(settings.route).unwrap_or_default();
        let patch = self.patch.or(settings.patch.filter(|_| route == Route::Provider));
        let arch = self.arch.or(settings.arch).unwrap_or_default();
        let mut features = settings.features;
        features.extend(self.features.iter().cloned());
        Ok(Module {
            features,
            default_features: !self.no_default_features && settings.default_features != Some(false),
            os,
            freebsd: os.release(freebsd)?,
            route,
            patch,
            name: settings.module,
            raw_symbols: self.raw_symbols,
            ..Module::new(project, &package, arch)
        })
    }
}

/// Runs the command; `find` tells where the package is that was named, or the one that is meant when none was.
///
/// # Errors
/// There is no such package, there are no such modules, the module could not be built, or it breaks a rule of the
/// loader's.
pub fn run(
    args: &Args,
    find: impl FnOnce(Option<&str>) -> Result<Found, ProjectError>,
) -> anyhow::Result<ExitCode> {
    let kernel = args.kernel.read()?;
    let module = args.module(find(args.package.as_deref())?)?;
    let (file, warnings) = module.build_for(args.output.as_deref(), &kernel)?;
    say(&file.file_name().unwrap_or_default().to_string_lossy(), &warnings);
    output::line(file.display())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Project;
    use crate::settings::Settings;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn module(line: &str, settings: Settings) -> Result<Module, NoSuchKernel> {
        let project = Project::new("/project".into(), "/project/build".into());
        let line = ["kmod"].into_iter().chain(line.split_whitespace());
        Cli::parse_from(line).args.module(Found { project, package: "driver".into(), settings })
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let module = |line: &str| module(line, Settings::default());
        assert_eq!(module("--freebsd 14").unwrap().freebsd.major(), 14);
        assert_eq!(module("--os illumos").unwrap().freebsd, FreeBsd::default());
        for release in ["14", "15"] {
            let error = module(&format!("--os illumos --freebsd {release}")).unwrap_err();
            let expected = format!("--freebsd {release} is a release of FreeBSD, ");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn the_manifest_is_heeded_where_no_option_says_other() {
        let settings = || Settings {
            os: Some(Os::FreeBsd),
            freebsd: "13".parse().ok(),
            route: Some(Route::Provider),
            patch: Some(Patch::Jump),
            features: vec!["a".into()],
            default_features: Some(false),
            module: Some("name".into()),
            arch: Some(Arch::Aarch64),
        };
        let plain = module("", settings()).unwrap();
        assert_eq!((plain.os, plain.freebsd.major(), plain.arch), (Os::FreeBsd, 13, Arch::Aarch64));
        assert_eq!((plain.route, plain.patch), (Route::Provider, Some(Patch::Jump)));
        assert_eq!((plain.features, plain.default_features), (vec!["a".to_owned()], false));
        assert_eq!(plain.name.as_deref(), Some("name"));

        let other = module("--freebsd 14 --route native --features b --arch amd64", settings());
        let other = other.unwrap();
        assert_eq!((other.freebsd.major(), other.route, other.patch), (14, Route::Native, None));
        assert_eq!((other.features.len(), other.arch), (2, Arch::X86_64));

        let illumos = module("--os illumos --arch amd64", settings()).unwrap();
        assert_eq!((illumos.os, illumos.freebsd), (Os::Illumos, FreeBsd::default()));
    }
}
