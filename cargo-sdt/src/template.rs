//! The output of `cargo sdt new`: the files of `templates/`, with the module's name instead of `my_module`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cargo_metadata::MetadataCommand;

use crate::check::illumos;
use crate::platform::{FreeBsd, Os, Route};

/// A file of a template: its path in the new crate, and its text. In `templates/`, `Cargo.toml` and `.gitignore` have
/// other names: otherwise cargo would treat the folder as a package, and git would apply the file.
type File = (&'static str, &'static str);

macro_rules! files {
    ($($place:literal: $file:literal),* $(,)?) => {
        &[$(($place, include_str!(concat!("../templates/", $file)))),*]
    };
}

const FREEBSD: &[File] = files! {
    ".gitignore": "gitignore",
    "Cargo.toml": "freebsd/Cargo.toml.in",
    "README.md": "freebsd/README.md",
    "src/by_hand.rs": "freebsd/src/by_hand.rs",
    "src/lib.rs": "freebsd/src/lib.rs",
    "src/module.rs": "freebsd/src/module.rs",
};

const ILLUMOS: &[File] = files! {
    ".gitignore": "gitignore",
    "Cargo.toml": "illumos/Cargo.toml.in",
    "README.md": "illumos/README.md",
    "dtrace/Cargo.toml": "illumos/dtrace/Cargo.toml.in",
    "dtrace/src/lib.rs": "illumos/dtrace/src/lib.rs",
    "src/by_hand.rs": "illumos/src/by_hand.rs",
    "src/lib.rs": "illumos/src/lib.rs",
    "src/module.rs": "illumos/src/module.rs",
};

/// The placeholders in the templates for the module's name, as an identifier and as a package.
const IDENTIFIER: &str = "my_module";
const PACKAGE: &str = "my-module";
/// The placeholders for options.
const SDT_CORE: &str = "sdt-core = \"0.0.0\"";
const RELEASE: &str = "freebsd = \"15\"";
const ROUTE: &str = "route = \"native\"";

/// A module to write.
#[derive(Clone, Debug)]
pub struct Template {
    /// Its name.
    pub name: Name,
    /// The operating system.
    pub os: Os,
    /// The release of FreeBSD.
    pub freebsd: FreeBsd,
    /// The route of its probes to the kernel's DTrace.
    pub route: Route,
    /// The source of its `sdt-core`.
    pub sdt_core: SdtCore,
}

/// The new crate could not be written.
#[derive(Debug, thiserror::Error)]
pub enum NewError {
    /// The path exists.
    #[error("{} already exists: use another name, or --path FOLDER", .0.display())]
    Exists(PathBuf),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", .file.display())]
    Write { file: PathBuf, source: io::Error },
}

impl Template {
    /// Writes the crate to a folder, which must not exist: all of it, or in case of an error nothing.
    ///
    /// # Errors
    /// The folder exists already, or cannot be created.
    pub fn write_to(&self, folder: &Path) -> Result<(), NewError> {
        let failed = |file: &Path| {
            let file = file.to_owned();
            move |source| NewError::Write { file, source }
        };
        // A dangling symbolic link counts as existing.
        if folder.symlink_metadata().is_ok() {
            return Err(NewError::Exists(folder.to_owned()));
        }
        let parent = match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        std::fs::create_dir_all(parent).map_err(failed(parent))?;
        let made = tempfile::Builder::new().prefix(".cargo-sdt-new").tempdir_in(parent);
        let made = made.map_err(failed(parent))?;
        // The crate has ordinary permissions, unlike the temporary folder around it.
        let inner = made.path().join("crate");
        for (place, text) in self.files() {
            let file = inner.join(place);
            let folder = file.parent().unwrap_or(&inner);
            std::fs::create_dir_all(folder).map_err(failed(folder))?;
            std::fs::write(&file, text).map_err(failed(&file))?;
        }
        std::fs::rename(&inner, folder).map_err(failed(folder))
    }

    /// Returns its files, and their paths.
    fn files(&self) -> impl Iterator<Item = (&'static str, String)> {
        let files = match self.os {
            Os::FreeBsd => FREEBSD,
            Os::Illumos => ILLUMOS,
        };
        files.iter().map(|&(place, text)| {
            let mut text = text
                .replace(IDENTIFIER, &self.name.identifier())
                .replace(PACKAGE, self.name.package());
            if place.ends_with("Cargo.toml") {
                text = text
                    .replace(SDT_CORE, &format!("sdt-core = {}", self.sdt_core))
                    .replace(RELEASE, &format!("freebsd = \"{}\"", self.freebsd))
                    .replace(ROUTE, &format!("route = \"{}\"", self.route));
            }
            (place, text)
        })
    }
}

/// The name of a new module: of its package, its file, its provider, and the sysctl or kstat that fires its probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

/// A module cannot have the name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` cannot be a module's name: {reason}")]
pub struct BadName {
    name: String,
    reason: String,
}

/// Keywords of Rust, which cannot be identifiers.
const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Crates that every module sees.
const CRATES: [&str; 6] = ["alloc", "core", "proc_macro", "sdt_core", "std", "test"];

/// The modules of a crate from `templates/`, except the provider.
const MODULES: [&str; 3] = ["by_hand", "module", "tests"];

/// DTrace's own modules and providers, of both systems (`sdt-macros` refuses the providers), and the kernels'.
const TAKEN: [&str; 14] = [
    "dtmalloc", "dtrace", "fasttrap", "fbt", "genunix", "kernel", "kinst", "profile", "sdt",
    "syscall", "systrace", "tick", "unix", "zfs",
];

/// Nodes at the top of FreeBSD's tree of sysctls (`SYSCTL_ROOT_NODE` of `sys/kern/kern_mib.c`, `sys/kern/subr_bus.c`,
/// `sys/cddl/compat/opensolaris/kern/opensolaris_kstat.c`; 10 to 15). The module adds one with its own name.
const SYSCTLS: [&str; 15] = [
    "compat",
    "debug",
    "dev",
    "hw",
    "kern",
    "kstat",
    "machdep",
    "net",
    "p1003_1b",
    "regression",
    "security",
    "sysctl",
    "user",
    "vfs",
    "vm",
];

/// Returns the greatest length of a module's name in bytes that the kernel does not cut. FreeBSD: `MAXMODNAME` of
/// `sys/sys/module.h` less the NUL. illumos: krtld reads 30 bytes of `misc/NAME` in a companion, and `MODMAXNAMELEN` of
/// `sys/modctl.h` has 31 for `NAME_dtrace`.
const fn longest(os: Os) -> usize {
    match os {
        Os::FreeBsd => 31,
        Os::Illumos => 24,
    }
}

impl Name {
    /// Checks that a module for this system can have this name.
    ///
    /// # Errors
    /// Cargo, Rust, DTrace or the kernel would refuse the name, cut it, or confuse it with an existing name.
    pub fn new(name: &str, os: Os) -> Result<Self, BadName> {
        let bad = |reason: String| Err(BadName { name: name.into(), reason });
        if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
            return bad("it must begin with a letter from a to z".into());
        }
        let odd =
            |c: &char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'));
        if let Some(c) = name.chars().find(odd) {
            return bad(format!(
                "it can contain letters from a to z, digits, `-` and `_`, but not \
                 {c:?}"
            ));
        }
        let this = Self(name.to_owned());
        let identifier = this.identifier();
        if KEYWORDS.contains(&&*identifier) {
            return bad("it is a keyword of Rust".into());
        }
        if CRATES.contains(&&*identifier) {
            return bad("every module contains a crate of that name".into());
        }
        if MODULES.contains(&&*identifier) {
            return bad("the new crate has a module of that name".into());
        }
        if os == Os::FreeBsd && SYSCTLS.contains(&&*identifier) {
            return bad("FreeBSD has a sysctl node of that name".into());
        }
        if TAKEN.contains(&&*identifier) {
            return bad("the kernel or DTrace uses that name".into());
        }
        if identifier.starts_with("dtrace_") {
            return bad("fbt skips functions that begin with `dtrace_`".into());
        }
        if os == Os::Illumos && illumos::has_provider(&identifier) {
            return bad(
                "illumos has a provider of that name, and would list the probes under it".into()
            );
        }
        if name.len() > longest(os) {
            let longest = longest(os);
            return bad(format!("it has {} bytes, and {os} shows only {longest}", name.len()));
        }
        Ok(this)
    }

    /// Returns the name of the package.
    pub fn package(&self) -> &str {
        &self.0
    }

    /// Returns the name in Rust, the kernel and DTrace.
    pub fn identifier(&self) -> String {
        self.0.replace('-', "_")
    }
}

/// The source of a new crate's `sdt-core`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SdtCore {
    /// A version in the registry.
    Version(String),
    /// A git repository.
    Git(String),
    /// The folder of its sources, by its absolute path.
    Folder(PathBuf),
}

/// The given place has no `sdt-core`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no sdt-core in {place}: {reason}")]
pub struct NoSdtCore {
    place: String,
    reason: String,
}

impl FromStr for SdtCore {
    type Err = NoSdtCore;

    fn from_str(text: &str) -> Result<Self, NoSdtCore> {
        if text.contains("://") || text.starts_with("git@") {
            return Ok(Self::Git(text.into()));
        }
        let version = text.strip_prefix(['^', '~', '=']).unwrap_or(text);
        if version.starts_with(|first: char| first.is_ascii_digit()) && !Path::new(text).exists() {
            return Ok(Self::Version(text.into()));
        }
        Self::in_folder(Path::new(text))
    }
}

impl SdtCore {
    /// Returns the sdt-core of the sources from which this program was installed, if they still exist.
    pub fn of_installation() -> Option<Self> {
        Self::beside(Path::new(env!("CARGO_MANIFEST_DIR")))
    }

    /// Returns the sdt-core in the repository of a package.
    fn beside(package: &Path) -> Option<Self> {
        Self::in_folder(&package.parent()?.join("sdt-core")).ok()
    }

    /// Returns the sdt-core in a folder, or in the workspace with this root folder.
    fn in_folder(folder: &Path) -> Result<Self, NoSdtCore> {
        let none = |reason: String| NoSdtCore { place: folder.display().to_string(), reason };
        let manifest = folder.join("Cargo.toml");
        if !manifest.is_file() {
            return Err(none("it has no Cargo.toml".into()));
        }
        let metadata = MetadataCommand::new()
            .manifest_path(manifest)
            .no_deps()
            .other_options(["--offline".into()])
            .exec();
        let metadata = metadata.map_err(|error| none(error.to_string()))?;
        let found = metadata.packages.iter().find(|package| package.name == "sdt-core");
        let found = found.ok_or_else(|| none("it is another package".into()))?;
        let folder = found.manifest_path.parent().unwrap_or(&found.manifest_path);
        Ok(Self::Folder(folder.as_std_path().to_owned()))
    }
}

impl fmt::Display for SdtCore {
    /// Displays it in the syntax of a manifest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // For the characters of paths and addresses, Debug escapes like TOML's basic strings.
        match self {
            Self::Version(version) => write!(f, "{version:?}"),
            Self::Git(url) => write!(f, "{{ git = {url:?} }}"),
            Self::Folder(folder) => write!(f, "{{ path = {:?} }}", folder.display().to_string()),
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/template.rs"]
mod tests;
