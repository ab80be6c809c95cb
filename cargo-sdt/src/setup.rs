//! Set-up: finds the programs that the commands need, installs missing ones if it may, and otherwise prints the command to
//! run. It asks no questions.

use std::path::Path;
use std::process::Command;
use std::sync::Once;
use std::time::Duration;

use crate::arch::Arch;
use crate::process::{self, ProcessError};
use crate::progress::{note, step};
use crate::project::Project;
use crate::toolchain::{self, Lld, Toolchain};

/// Time limit of `rustup component add`, which must not delay the build if its servers cannot be reached.
const RUSTUP: Duration = Duration::from_secs(45);
/// Time limit of apt, which can wait for a slow network and for the lock of another apt.
const APT: Duration = Duration::from_secs(1800);
const SHORT: Duration = Duration::from_secs(60);
/// Oldest rustc that builds modules: `rust-version` of the manifest, which is sdt-core's, too.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// A program that the commands need is missing.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Packages are missing, and this user may not install them.
    #[error("{what} missing. Run this command, then try again:\n    {command}")]
    NotAllowed { what: String, command: String },
    /// Packages could not be installed.
    #[error("cannot install {packages}: {source}")]
    Install { packages: String, source: ProcessError },
    /// The packages are installed, and a program is still missing.
    #[error("{packages} installed, but {what} still missing")]
    StillMissing { packages: String, what: String },
    /// No toolchain is suitable, and the distribution offers none.
    #[error(
        "no toolchain here can build core for a kernel:\n{tried}\nRun this command, then try \
         again:\n    rustup component add rust-src"
    )]
    NoToolchain { tried: String },
}

/// Returns the toolchain for modules and kernels. Installs one if none is found.
///
/// # Errors
/// None is found, and none could be installed.
pub fn toolchain(project: &Project, arch: Arch) -> Result<Toolchain, SetupError> {
    let mut tried = Vec::new();
    let host = toolchain::host_sysroot().ok().map(|sysroot| sysroot.join("bin"));
    let mut attempt = |bin: &Path| match Toolchain::in_folder(bin, project, arch) {
        Ok(toolchain) => Some(toolchain),
        Err(unfit) => {
            let line = format!("  {}: {unfit}", bin.display());
            if !tried.contains(&line) {
                tried.push(line);
            }
            None
        }
    };
    // First the installed toolchains, then the network.
    for bin in host.iter().chain(&toolchain::distribution_folders()) {
        if let Some(found) = attempt(bin) {
            return Ok(found);
        }
    }
    if let Some(bin) = &host
        && add_rust_src(project)
        && let Some(found) = attempt(bin)
    {
        return Ok(found);
    }
    let Some(packages) = toolchain_packages() else {
        return Err(SetupError::NoToolchain { tried: tried.join("\n") });
    };
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    install("the source of core, with a compiler of its version, is", &packages)?;
    for bin in toolchain::distribution_folders() {
        if let Some(found) = attempt(&bin) {
            return Ok(found);
        }
    }
    Err(SetupError::NoToolchain { tried: tried.join("\n") })
}

/// Checks that clippy of a toolchain for kernels exists; installs it if it is missing.
///
/// # Errors
/// clippy is missing and could not be installed.
pub fn clippy(toolchain: &Toolchain) -> Result<(), SetupError> {
    if toolchain.has_clippy() {
        return Ok(());
    }
    let what = format!("clippy of {toolchain} is");
    let command = "rustup component add clippy".to_owned();
    let packages =
        toolchain_packages().ok_or(SetupError::NotAllowed { what: what.clone(), command })?;
    install(&what, &packages.iter().map(String::as_str).collect::<Vec<_>>())?;
    if toolchain.has_clippy() {
        return Ok(());
    }
    Err(SetupError::StillMissing { packages: packages.join(" "), what })
}

/// Returns the linker. Installs one if none is found.
///
/// # Errors
/// None is found, and none could be installed.
pub fn lld() -> Result<Lld, SetupError> {
    if let Some(lld) = toolchain::find_lld() {
        return Ok(lld);
    }
    install("the linker lld is", &["lld"])?;
    toolchain::find_lld().ok_or_else(|| SetupError::StillMissing {
        packages: "lld".into(),
        what: "the program ld.lld, version 19 or later, is".into(),
    })
}

/// Returns the path of a program. Installs its package of the distribution if it is missing.
///
/// # Errors
/// The program is missing and could not be installed.
pub fn program(name: &str, package: &str) -> Result<std::path::PathBuf, SetupError> {
    if let Some(found) = process::find(name) {
        return Ok(found);
    }
    install(&format!("{name} is"), &[package])?;
    process::find(name).ok_or_else(|| SetupError::StillMissing {
        packages: package.into(),
        what: format!("the program {name} is"),
    })
}

/// Tries to add the sources of `core` to rustup's active toolchain.
fn add_rust_src(project: &Project) -> bool {
    let Some(rustup) = process::find("rustup") else { return false };
    let mut command = Command::new(rustup);
    command.args(["component", "add", "rust-src"]).current_dir(project.root());
    let added = step("adding the source of core to rustup's toolchain (rust-src)", || {
        process::run(&mut command, RUSTUP)
    });
    match added {
        Ok(_) => true,
        Err(error) => {
            let error = error.to_string();
            // rustup may print a backtrace after its reason.
            let reason = error.lines().find(|line| line.starts_with("error: "));
            let reason = reason.or(error.lines().next()).unwrap_or_default();
            note(format_args!("not added: {reason}"));
            false
        }
    }
}

/// Returns the distribution's packages that make one matching toolchain, from its lists.
fn toolchain_packages() -> Option<Vec<String>> {
    // Outdated lists may contain only old toolchains.
    update_lists();
    let mut search = Command::new("apt-cache");
    search.args(["search", "--names-only", r"^rustc(-web|-1\.[0-9]+)?$"]);
    let found = process::run(&mut search, SHORT).ok()?;
    let candidate = |package: &str| {
        let mut policy = Command::new("apt-cache");
        let written = process::run(policy.args(["policy", package]), SHORT).ok()?;
        candidate_minor(&String::from_utf8_lossy(&written.stdout))
    };
    pick_toolchain(&String::from_utf8_lossy(&found.stdout), candidate)
}

/// Returns the minor version of the candidate in the output of `apt-cache policy`: 96 of `1.96.0+dfsg1-1~deb12u2`.
fn candidate_minor(policy: &str) -> Option<u32> {
    let line = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    line.strip_prefix("1.")?.split('.').next()?.parse().ok()
}

/// Selects the packages of the toolchain to install from the output of `apt-cache search`: Debian's `-web` (kept
/// current in its stable releases), else Ubuntu's newest versioned toolchain. `candidate` returns the minor version of
/// a package that would be installed.
fn pick_toolchain(listed: &str, candidate: impl Fn(&str) -> Option<u32>) -> Option<Vec<String>> {
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    let oldest = OLDEST.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0);
    let new_enough = |&minor: &u32| minor >= oldest;
    if names.contains(&"rustc-web") && candidate("rustc-web").filter(new_enough).is_some() {
        return Some(
            ["rustc-web", "cargo-web", "rust-web-src", "rust-web-clippy"].map(String::from).into(),
        );
    }
    let versioned = names.iter().filter_map(|name| name.strip_prefix("rustc-1.")?.parse().ok());
    let minor = versioned.filter(new_enough).max()?;
    Some(vec![
        format!("rustc-1.{minor}"),
        format!("cargo-1.{minor}"),
        format!("rust-1.{minor}-src"),
        format!("rust-1.{minor}-clippy"),
    ])
}

/// Installs packages of the distribution.
///
/// # Errors
/// This user may not install packages, or the installation failed.
pub fn install(what: &str, packages: &[&str]) -> Result<(), SetupError> {
    let list = packages.join(" ");
    let not_allowed = || SetupError::NotAllowed {
        what: what.to_owned(),
        command: format!("sudo apt-get update && sudo apt-get install -y {list}"),
    };
    if process::find("apt-get").is_none() {
        return Err(not_allowed());
    }
    let rights = rights().ok_or_else(not_allowed)?;
    note(format_args!("{what} missing: installing {list}"));
    update_lists();
    let mut command = rights.apt_get();
    command.args(["install", "-y", "--no-install-recommends"]).args(packages);
    step(&format!("apt-get install {list}"), || process::run(&mut command, APT))
        .map_err(|source| SetupError::Install { packages: list.clone(), source })?;
    Ok(())
}

/// Fetches the lists of packages, once. Ignores a failure: with old lists the installation can still succeed.
pub fn update_lists() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Some(rights) = rights() else { return };
        let mut command = rights.apt_get();
        command.arg("update");
        if let Err(error) = step("apt-get update", || process::run(&mut command, APT)) {
            note(error);
        }
    });
}

/// The means by which this user can install packages.
#[derive(Debug)]
enum Rights {
    Root,
    Sudo,
}

impl Rights {
    fn apt_get(&self) -> Command {
        let mut command = match self {
            Self::Root => Command::new("env"),
            Self::Sudo => {
                let mut command = Command::new("sudo");
                command.args(["-n", "env"]);
                command
            }
        };
        // Through env(1), since sudo does not pass variables on.
        command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]);
        command.args(["-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=2"]);
        command
    }
}

fn rights() -> Option<Rights> {
    // SAFETY: `geteuid` takes no arguments, and only returns a number.
    if unsafe { libc::geteuid() } == 0 {
        return Some(Rights::Root);
    }
    process::run(Command::new("sudo").args(["-n", "true"]), SHORT).ok().map(|_| Rights::Sudo)
}

#[cfg(test)]
#[path = "../tests/unit/setup.rs"]
mod tests;
