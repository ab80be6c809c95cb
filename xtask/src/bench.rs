//! The kernel of a command: its selection, its modules, and its boot.

use std::path::{Path, PathBuf};

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::{BuildError, Module};
use cargo_sdt::internal::platform::{FreeBsd, Os, Patch, Route};
use harness::session::{Session, SessionError};
use harness::workspace;

use crate::needs::Needs;

/// Options that select the kernel and the modules that it loads.
#[derive(Clone, Debug, clap::Args)]
pub struct Bench {
    /// Architecture of the kernel.
    #[arg(long, value_enum, default_value_t)]
    pub arch: Arch,
    /// CPUs of the machine.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub cpus: u32,
    /// Operating system of the kernel.
    #[arg(long, value_enum, default_value_t)]
    pub os: Os,
    /// Release of FreeBSD: a major one, 10 to 15, or an exact __FreeBSD_version [default: 15].
    #[arg(long, value_name = "RELEASE")]
    pub freebsd: Option<FreeBsd>,
    /// Route of the example module's probes to the kernel's DTrace.
    #[arg(long, value_enum, default_value_t)]
    pub route: Route,
    /// Mode of enabled sites of the example module, with its own provider [default: trap].
    #[arg(long, value_enum)]
    pub patch: Option<Patch>,
    /// Kernel module to load, several if given several times [default: the example module].
    #[arg(long, value_name = "FILE.ko", conflicts_with_all = ["route", "patch"])]
    pub module: Vec<PathBuf>,
}

/// The reason why there is no kernel with these modules.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The options contradict each other.
    #[error(transparent)]
    Options(#[from] anyhow::Error),
    /// A module could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A file cannot be one of the kernel's modules.
    #[error("failed to load {}: {why}", .module.display())]
    File {
        /// The file.
        module: PathBuf,
        /// The reason.
        why: String,
    },
    /// The kernel refused a module.
    #[error(
        "failed to load {}: {error}{}",
        .module.display(),
        .advice.as_ref().map(|of| format!("; {of}")).unwrap_or_default()
    )]
    Load {
        /// The module.
        module: PathBuf,
        /// The error.
        error: Box<SessionError>,
        /// Advice, if the cause is known.
        advice: Option<String>,
    },
    /// The kernel failed.
    #[error("{0}")]
    Kernel(#[from] SessionError),
}

impl Bench {
    /// Checks the options. Returns the release.
    ///
    /// # Errors
    /// If they contradict each other.
    pub fn check(&self) -> anyhow::Result<FreeBsd> {
        self.os.runs_on(self.arch)?;
        Ok(self.os.release(self.freebsd)?)
    }

    /// Checks that a file can be read, and is for the kernel's architecture and system.
    fn check_file(&self, module: &Path) -> Result<(), LoadError> {
        let refused = |why| LoadError::File { module: module.into(), why };
        let file = std::fs::read(module).map_err(|error| refused(error.to_string()))?;
        let of = Needs::of(&file);
        match of.wrong_arch(self.arch).or_else(|| of.wrong_system(self.os)) {
            Some(why) => Err(refused(why)),
            None => Ok(()),
        }
    }

    /// Boots the kernel without modules.
    ///
    /// # Errors
    /// Any step failed.
    pub fn boot_bare(&self, console: bool) -> Result<Session, LoadError> {
        let freebsd = self.check()?;
        let mut session = Session::boot(self.arch, self.cpus, console)?;
        match self.os {
            Os::FreeBsd => session.freebsd(freebsd.kernel_version() as i32)?,
            Os::Illumos => session.illumos()?,
        }
        Ok(session)
    }

    /// Boots the kernel and loads the modules. Returns their names, in the order of loading. Calls `warn` for a module
    /// without probes, with the reason.
    ///
    /// # Errors
    /// Any step failed.
    pub fn boot(
        &self,
        console: bool,
        mut warn: impl FnMut(String),
    ) -> Result<(Session, Vec<String>), LoadError> {
        let freebsd = self.check()?;
        let modules = if self.module.is_empty() {
            let (os, route, patch) = (self.os, self.route, self.patch);
            let example = Module { os, freebsd, route, patch, ..workspace::example(self.arch) };
            // A companion needs its module, which is loaded before and unloaded after it.
            let companion = example.companion();
            let both = std::iter::once(example).chain(companion);
            both.map(|module| module.build(None)).collect::<Result<_, _>>()?
        } else {
            // Before the kernel is built, which takes minutes.
            self.module.iter().try_for_each(|module| self.check_file(module))?;
            self.module.clone()
        };
        let mut session = self.boot_bare(console)?;
        let (mut loaded, mut all) = (Vec::new(), Vec::new());
        for module in modules {
            // The session reports a file that cannot be read.
            let needs = Needs::of(&std::fs::read(&module).unwrap_or_default());
            match session.kldload_file(&module) {
                Ok(name) => loaded.push(name),
                Err(error) => {
                    let advice = needs.missing_module(&loaded);
                    return Err(LoadError::Load { module, error: Box::new(error), advice });
                }
            }
            all.push(needs);
        }
        for (name, needs) in loaded.iter().zip(&all) {
            if let Some(advice) = needs.missing_companion(&loaded) {
                warn(format!("warning: {name} has no probes: {advice}"));
            }
        }
        Ok((session, loaded))
    }
}
