//! `cargo sdt kmod`: builds a kernel module, checks it, prints where it is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::check::{KernelArgs, say};
use crate::arch::Arch;
use crate::check::Kernel;
use crate::environment::{self, Environment};
use crate::module::Module;
use crate::output;
use crate::platform::{FreeBsd, Os, Patch, Route};
use crate::progress::note;
use crate::project::{Found, ProjectError};

/// Options of `cargo sdt kmod`. What is not given is as the environment has it (`SDT_FREEBSD`, `SDT_ROUTE`, `SDT_PATCH`),
/// or else the package's manifest, in `[package.metadata.sdt]`.
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
    /// The module to build, and what is worth saying of how it was chosen.
    fn module(&self, found: Found, said: &Environment) -> anyhow::Result<(Module, Vec<String>)> {
        let Found { project, package, settings, .. } = found;
        let mut notes = Vec::new();
        let os = self.os.or(settings.os).unwrap_or_default();
        // The others may say both: what is for one system is nothing to another.
        let freebsd = Choice {
            option: self.freebsd,
            variable: (environment::FREEBSD, said.freebsd()?.filter(|_| os == Os::FreeBsd)),
            manifest: settings.freebsd.filter(|_| os == Os::FreeBsd),
        };
        let freebsd = freebsd.made(Some(FreeBsd::default()), &mut notes);
        let route = Choice {
            option: self.route,
            variable: (environment::ROUTE, said.route()?),
            manifest: settings.route,
        };
        let route = route.made(Some(Route::default()), &mut notes).unwrap_or_default();
        let patched = said.patch()?;
        if let (Route::Native, Some(patch)) = (route, patched) {
            let unheeded = UnheededPatch(patch);
            // Who says it of this very build knows.
            anyhow::ensure!(self.route.is_some(), unheeded);
            notes.push(unheeded.to_string());
        }
        let patch = Choice {
            option: self.patch,
            variable: (environment::PATCH, patched.filter(|_| route == Route::Provider)),
            manifest: settings.patch.filter(|_| route == Route::Provider),
        };
        let patch = patch.made(None, &mut notes);
        let arch = self.arch.or(settings.arch).unwrap_or_default();
        let mut features = settings.features;
        features.extend(self.features.iter().cloned());
        let module = Module {
            features,
            default_features: !self.no_default_features && settings.default_features != Some(false),
            os,
            freebsd: os.release(freebsd)?,
            route,
            patch,
            name: settings.module,
            raw_symbols: self.raw_symbols,
            ..Module::new(project, &package, arch)
        };
        Ok((module, notes))
    }
}

/// The environment says how sites are patched, and it is the kernel that patches them.
#[derive(Debug, thiserror::Error)]
#[error(
    "SDT_PATCH={0} of the environment is not heeded: it is for --route provider, and on the native route it is the kernel \
     that patches, as it does; take --route provider, or unset SDT_PATCH, or say --route native to build all the same"
)]
struct UnheededPatch(Patch);

/// Something that can be said in three places.
struct Choice<T> {
    option: Option<T>,
    /// The variable, and what it says.
    variable: (&'static str, Option<T>),
    manifest: Option<T>,
}

impl<T: Copy + PartialEq + fmt::Display> Choice<T> {
    /// What the first of the places says that says anything. An option and a manifest are seen; that a variable of the
    /// environment makes a difference is worth saying.
    fn made(self, default: Option<T>, notes: &mut Vec<String>) -> Option<T> {
        let (variable, value) = self.variable;
        if let (None, Some(value)) = (self.option, value)
            && self.manifest.or(default) != Some(value)
        {
            let instead =
                self.manifest.map(|manifest| format!(", not {manifest} as the manifest has it"));
            notes.push(format!(
                "{variable}={value} of the environment decides{}",
                instead.unwrap_or_default()
            ));
        }
        self.option.or(value).or(self.manifest)
    }
}

/// Runs the command; `find` tells where the package is that was named, or the one that is meant when none was.
///
/// On illumos, a module with a provider of its own is built with its companion. Printed is where they are, in the order in
/// which they are loaded.
///
/// # Errors
/// There is no such package, there are no such modules, the module could not be built, or it breaks a rule of the
/// loader's.
pub fn run(
    args: &Args,
    find: impl FnOnce(Option<&str>) -> Result<Found, ProjectError>,
) -> anyhow::Result<ExitCode> {
    let kernel = args.kernel.read()?;
    let found = find(args.package.as_deref())?;
    let has_companion = found.has_companion;
    let (module, notes) = args.module(found, &Environment::of(Path::new(".")))?;
    notes.iter().for_each(note);
    let file = build(&module, args.output.as_deref(), &kernel)?;
    let Some(companion) = module.companion() else { return Ok(ExitCode::SUCCESS) };
    if has_companion {
        // It goes where its module goes.
        let output = args.output.is_some().then(|| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            file.with_file_name(format!("{name}_dtrace"))
        });
        build(&companion, output.as_deref(), &kernel)?;
    } else {
        let (name, package) =
            (file.file_name().unwrap_or_default().to_string_lossy(), &companion.package);
        output::say(format_args!(
            "{name}: warning: its provider is registered by a companion, {name}_dtrace, and there is no package {package} \
             here to be that: a crate of one line, illumos_companion!({name}, \"misc\")\n"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds a module and says what came of it.
fn build(module: &Module, output: Option<&Path>, kernel: &Kernel) -> anyhow::Result<PathBuf> {
    let (file, warnings) = module.build_for(output, kernel)?;
    say(&file.file_name().unwrap_or_default().to_string_lossy(), &warnings);
    output::line(file.display())?;
    Ok(file)
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

    fn module(line: &str, settings: Settings) -> anyhow::Result<Module> {
        Ok(module_in(&Environment::default(), line, settings)?.0)
    }

    fn module_in(
        environment: &Environment,
        line: &str,
        settings: Settings,
    ) -> anyhow::Result<(Module, Vec<String>)> {
        let project = Project::new("/project".into(), "/project/build".into());
        let line = ["kmod"].into_iter().chain(line.split_whitespace());
        let found = Found { project, package: "driver".into(), settings, has_companion: false };
        Cli::parse_from(line).args.module(found, environment)
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

    #[test]
    fn the_environment_is_before_the_manifest_and_says_so() {
        let environment = Environment::said(&[
            ("SDT_FREEBSD", "14"),
            ("SDT_ROUTE", "provider"),
            ("SDT_PATCH", "jump"),
        ]);
        let settings = || Settings { freebsd: "13".parse().ok(), ..Settings::default() };
        let build = |line| module_in(&environment, line, settings()).unwrap();
        let (module, notes) = build("");
        assert_eq!(
            (module.freebsd.major(), module.route, module.patch),
            (14, Route::Provider, Some(Patch::Jump))
        );
        assert_eq!(
            notes,
            [
                "SDT_FREEBSD=14 of the environment decides, not 13 as the manifest has it",
                "SDT_ROUTE=provider of the environment decides",
                "SDT_PATCH=jump of the environment decides",
            ]
        );
        // Options are before both, and what does not come into it is not spoken of.
        let (module, notes) = build("--freebsd 15 --route native");
        assert_eq!((module.freebsd.major(), module.route, module.patch), (15, Route::Native, None));
        assert_eq!(notes, [UnheededPatch(Patch::Jump).to_string()]);
        let (module, notes) = build("--os illumos --route provider --patch gate");
        assert_eq!((module.freebsd, module.patch), (FreeBsd::default(), Some(Patch::Gate)));
        assert_eq!(notes, [""; 0]);
        let environment = Environment::said(&[("SDT_FREEBSD", "13"), ("SDT_ROUTE", "native")]);
        assert_eq!(
            module_in(&environment, "", settings()).unwrap().1,
            [""; 0],
            "what all agree in"
        );
        let gate = ("SDT_PATCH", "gate");
        for said in [&[gate][..], &[gate, ("SDT_ROUTE", "native")]] {
            let environment = Environment::said(said);
            let error = module_in(&environment, "", Settings::default()).unwrap_err().to_string();
            let expected = "SDT_PATCH=gate of the environment is not heeded: it is for --route ";
            assert!(error.starts_with(expected), "{error}");
            let illumos = module_in(&environment, "--os illumos", Settings::default());
            assert!(illumos.is_err());
            assert!(module_in(&environment, "--route provider", Settings::default()).is_ok());
        }
        let environment = Environment::said(&[("SDT_FREEBSD", "9")]);
        assert!(module_in(&environment, "", settings()).is_err());
    }
}
