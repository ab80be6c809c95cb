//! `cargo sdt kmod`: builds a kernel module, checks it, and prints its path.

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

/// Options of `cargo sdt kmod`. Without an option, the environment (`SDT_FREEBSD`, `SDT_ROUTE`, `SDT_PATCH`) decides, then
/// `[package.metadata.sdt]` of the package's manifest.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Architecture of the kernel [default: x86_64].
    #[arg(long, value_enum)]
    arch: Option<Arch>,
    /// Package to build; its library becomes the module [default: that of this folder].
    #[arg(long, short)]
    package: Option<String>,
    /// A feature of the package to enable, in addition to those in its manifest. Repeat the option for several
    /// features.
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
    /// Route of the probes to the kernel's DTrace [default: native].
    #[arg(long, value_enum)]
    route: Option<Route>,
    /// With --route provider: mode of enabled sites [default: trap].
    #[arg(long, value_enum)]
    patch: Option<Patch>,
    #[command(flatten)]
    kernel: KernelArgs,
    /// Keep the mangled names of functions that rustc generates, instead of names that users of DTrace can read and
    /// type.
    #[arg(long)]
    raw_symbols: bool,
    /// File or folder for the module [default: in the build folder, a folder for the architecture and for each option
    /// with another value than the default].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Args {
    /// Returns the module to build, and notes on how it was chosen.
    fn module(&self, found: Found, said: &Environment) -> anyhow::Result<(Module, Vec<String>)> {
        let Found { project, package, settings, .. } = found;
        let mut notes = Vec::new();
        let os = self.os.or(settings.os).unwrap_or_default();
        // The environment and the manifest may have settings for both systems.
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
            anyhow::bail!(UnusedPatch::Environment(patch));
        }
        // An option or a variable that overrides the manifest's route also overrides its patch.
        if let (Route::Native, Some(patch), None) =
            (route, settings.patch, self.route.or(said.route()?))
        {
            anyhow::bail!(UnusedPatch::Manifest(patch));
        }
        let patch = Choice {
            option: self.patch,
            variable: (environment::PATCH, patched),
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

/// A patch mode was set for the native route, on which the kernel patches the sites.
#[derive(Debug, thiserror::Error)]
enum UnusedPatch {
    #[error(
        "SDT_PATCH={0} of the environment requires --route provider: on the native route the \
         kernel patches the sites; unset SDT_PATCH, or use --route provider"
    )]
    Environment(Patch),
    #[error(
        "patch = \"{0}\" of [package.metadata.sdt] requires route = \"provider\": on the native \
         route the kernel patches the sites; remove it, or use route = \"provider\" or --route \
         provider"
    )]
    Manifest(Patch),
}

/// A choice that the option, the environment variable or the manifest can make.
struct Choice<T> {
    option: Option<T>,
    /// The name and the value of the environment variable.
    variable: (&'static str, Option<T>),
    manifest: Option<T>,
}

impl<T: Copy + PartialEq + fmt::Display> Choice<T> {
    /// Returns the first value among option, variable and manifest. Adds a note if a variable of the environment changes the
    /// result, which the user cannot see otherwise.
    fn made(self, default: Option<T>, notes: &mut Vec<String>) -> Option<T> {
        let (variable, value) = self.variable;
        if let (None, Some(value)) = (self.option, value)
            && self.manifest.or(default) != Some(value)
        {
            let instead =
                self.manifest.map(|manifest| format!(", and overrides {manifest} of the manifest"));
            notes.push(format!(
                "using {variable}={value} of the environment{}",
                instead.unwrap_or_default()
            ));
        }
        self.option.or(value).or(self.manifest)
    }
}

/// Runs the command. `find` finds the package of a name, or without a name the default package.
///
/// On illumos, it builds a module with a provider of its own and its companion. It prints the path of each module, in the order in
/// which to load them.
///
/// # Errors
/// The package does not exist, the options contradict each other, the build failed, or the check refuses the module.
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
        // The companion is written beside its module.
        let output = args.output.is_some().then(|| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            file.with_file_name(format!("{name}_dtrace"))
        });
        build(&companion, output.as_deref(), &kernel)?;
    } else {
        let (name, package) =
            (file.file_name().unwrap_or_default().to_string_lossy(), &companion.package);
        output::say(format_args!(
            "{name}: warning: a companion, {name}_dtrace, must register the provider of this \
             module, but the package {package} does not exist: create it, with the line \
             illumos_companion!({name}, \"misc\")\n"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds a module, and prints the warnings and its path.
fn build(module: &Module, output: Option<&Path>, kernel: &Kernel) -> anyhow::Result<PathBuf> {
    let (file, warnings) = module.build_for(output, kernel)?;
    say(&file.file_name().unwrap_or_default().to_string_lossy(), &warnings);
    output::line(file.display())?;
    Ok(file)
}

#[cfg(test)]
#[path = "../../tests/unit/cmd/kmod.rs"]
mod tests;
