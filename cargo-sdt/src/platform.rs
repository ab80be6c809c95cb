//! The target of a module without the architecture: the operating system, its release, and the route of its probes.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use dtrace_abi::freebsd::Release;
use object::{Object as _, ObjectSymbol as _, elf};

pub use dtrace_abi::freebsd::Generation;

use crate::arch::Arch;

/// Every module of FreeBSD has at least one of these sets (`sys/sys/module.h`, `sys/sys/kernel.h`).
const FREEBSD_SETS: [&str; 2] = ["set_modmetadata_set", "set_sysinit_set"];
/// The functions that every module of illumos defines (`usr/src/uts/common/sys/modctl.h`).
const ILLUMOS_FUNCTIONS: [&str; 2] = ["_init", "_info"];

/// The kernel's operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum Os {
    /// FreeBSD.
    #[default]
    #[value(name = "freebsd")]
    FreeBsd,
    /// illumos.
    Illumos,
}

impl Os {
    /// The name used on command lines and in folders.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FreeBsd => "freebsd",
            Self::Illumos => "illumos",
        }
    }

    /// Returns the operating system of a module's file; FreeBSD, if the file does not determine it.
    pub fn of_file(file: &[u8]) -> Self {
        Self::told_by(file).unwrap_or_default()
    }

    /// Returns the system for which a module's file was built. The header names it, if the linker or compiler has
    /// written it. Otherwise, sets and functions that only modules of one system have determine it.
    pub fn told_by(file: &[u8]) -> Option<Self> {
        if !file.starts_with(&elf::ELFMAG) {
            return None;
        }
        match elf::OsAbi(*file.get(7)?) {
            elf::ELFOSABI_SOLARIS => return Some(Self::Illumos),
            elf::ELFOSABI_FREEBSD => return Some(Self::FreeBsd),
            _ => {}
        }
        let parsed = object::File::parse(file).ok()?;
        if FREEBSD_SETS.iter().any(|set| parsed.section_by_name(set).is_some()) {
            return Some(Self::FreeBsd);
        }
        let defines = |name| parsed.symbol_by_name(name).is_some_and(|of| of.is_definition());
        ILLUMOS_FUNCTIONS.into_iter().all(defines).then_some(Self::Illumos)
    }

    /// Checks that the operating system supports an architecture.
    ///
    /// # Errors
    /// The operating system does not support the architecture.
    pub fn runs_on(self, arch: Arch) -> Result<(), NoSuchKernel> {
        match (self, arch) {
            (Self::FreeBsd, _) | (Self::Illumos, Arch::X86_64) => Ok(()),
            (Self::Illumos, _) => Err(NoSuchKernel::Arch(arch)),
        }
    }

    /// Returns the release to build for: the given one, or else the newest. illumos has none.
    ///
    /// # Errors
    /// One was given for illumos.
    pub fn release(self, given: Option<FreeBsd>) -> Result<FreeBsd, NoSuchKernel> {
        match (self, given) {
            (Self::Illumos, Some(release)) => Err(NoSuchKernel::Release(release)),
            (_, given) => Ok(given.unwrap_or_default()),
        }
    }

    /// The file of a module with this name.
    pub fn module_file(self, module: &str) -> String {
        match self {
            Self::FreeBsd => format!("{module}.ko"),
            Self::Illumos => module.to_owned(),
        }
    }
}

impl fmt::Display for Os {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Options that contradict each other: there are no such kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchKernel {
    /// illumos does not run on the architecture.
    #[error("illumos does not run on {0}: use --arch x86_64")]
    Arch(Arch),
    /// A release of FreeBSD for illumos.
    #[error("--freebsd {0} and --os illumos exclude each other: omit one of them")]
    Release(FreeBsd),
}

/// The route of a module's probes to the kernel's DTrace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum Route {
    /// The kernel's own sdt finds the probes in the module's file, as it does for modules in C, and patches their
    /// sites.
    #[default]
    Native,
    /// The module registers its providers with DTrace, and patches its sites.
    Provider,
}

impl Route {
    /// The name used on command lines, in folders, and in `SDT_ROUTE`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Provider => "provider",
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The mode of a module's enabled sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Patch {
    /// A breakpoint is patched over the nop.
    #[default]
    Trap,
    /// A jump is patched over the nop if it reaches the site's cold block, or else a breakpoint.
    Jump,
    /// No code is patched: sites test a flag.
    Gate,
}

impl Patch {
    /// The name used on command lines, in folders, and in `SDT_PATCH`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Jump => "jump",
            Self::Gate => "gate",
        }
    }
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A release of FreeBSD, as far as modules depend on it: a major one, or an exact `__FreeBSD_version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FreeBsd(
    /// The oldest kernel that the release includes.
    Release,
);

/// Modules cannot be built for the release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a supported release of FreeBSD: use a major release, {oldest} to {newest}, or an \
     exact __FreeBSD_version, such as {newest}00000",
    oldest = Release::OLDEST,
    newest = Release::NEWEST
)]
pub struct NotARelease(String);

impl FreeBsd {
    /// Returns any kernel of the oldest release.
    pub const fn oldest() -> Self {
        Self(Release::of_major(Release::OLDEST).expect("the oldest release is a supported one"))
    }

    /// Returns any kernel of a major release.
    ///
    /// # Errors
    /// If modules cannot be built for it.
    pub fn major_release(major: u32) -> Result<Self, NotARelease> {
        Release::of_major(major).map(Self).ok_or_else(|| NotARelease(major.to_string()))
    }

    /// Returns the kernels of a major release from an exact `__FreeBSD_version` on.
    ///
    /// # Errors
    /// If modules cannot be built for its release.
    pub fn exactly(version: u32) -> Result<Self, NotARelease> {
        Release::new(version).map(Self).ok_or_else(|| NotARelease(version.to_string()))
    }

    /// Returns the number of the major release.
    pub const fn major(self) -> u32 {
        self.0.major()
    }

    /// The lowest `__FreeBSD_version` of these kernels.
    pub const fn version(self) -> u32 {
        self.0.version()
    }

    /// Returns the highest `__FreeBSD_version` of these kernels: the last of the major release (`MODULE_KERNEL_MAXVER`
    /// of `sys/sys/module.h`).
    pub const fn highest_version(self) -> u32 {
        self.major() * Release::MAJOR + (Release::MAJOR - 1)
    }

    /// Returns the `__FreeBSD_version` of a kernel for testing modules. For a major release, it is high enough for all
    /// modules of that release, including modules in C, which require a kernel at least as new as their headers.
    pub const fn kernel_version(self) -> u32 {
        if self.is_major() { self.highest_version() } else { self.version() }
    }

    /// Returns whether it stands for a whole major release.
    const fn is_major(self) -> bool {
        self.version().is_multiple_of(Release::MAJOR)
    }

    /// Returns the generation of its SDT sites.
    pub const fn generation(self) -> Generation {
        self.0.generation()
    }

    /// `sizeof(struct sysinit)`.
    pub const fn sysinit_size(self) -> u64 {
        self.0.sysinit_size() as u64
    }

    /// Returns whether amd64's loader supports `R_X86_64_PLT32`.
    pub const fn takes_plt32(self) -> bool {
        self.0.takes_plt32()
    }

    /// Returns whether the provider route exists.
    pub const fn has_provider_route(self) -> bool {
        self.0.has_trap_frame()
    }
}

impl Default for FreeBsd {
    /// The newest major release.
    fn default() -> Self {
        Self(Release::of_major(Release::NEWEST).expect("the newest release is a supported one"))
    }
}

impl FromStr for FreeBsd {
    type Err = NotARelease;

    fn from_str(text: &str) -> Result<Self, NotARelease> {
        let error = || NotARelease(text.into());
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(error());
        }
        let number: u32 = text.parse().map_err(|_| error())?;
        let of = if number < Release::MAJOR { Self::major_release } else { Self::exactly };
        of(number).map_err(|_| error())
    }
}

impl fmt::Display for FreeBsd {
    /// Displays it in the form that is parsed; a major release by its short name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", if self.is_major() { self.major() } else { self.version() })
    }
}

#[cfg(test)]
#[path = "../tests/unit/platform.rs"]
mod tests;
