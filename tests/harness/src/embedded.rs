//! The embedded example: building it, and running it on a board in QEMU.

use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use cargo_sdt::internal::module::{self, BuildError};
use cargo_sdt::internal::setup::{self, SetupError};
use tempfile::TempDir;

use crate::workspace;

const PACKAGE: &str = "embedded-example";
/// The variable by which cargo passes options to rustc.
const RUSTFLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";

/// The processor that it is built for. The board has an Armv7-M, which also executes the code for Armv6-M.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// A Cortex-M3.
    #[default]
    Armv7m,
    /// A Cortex-M0, which has no compare-and-swap.
    Armv6m,
    /// A Cortex-M3, with the framework built without its DIF interpreter.
    WithoutInterpreter,
}

impl Target {
    /// The name of its target in rustc.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Armv7m | Self::WithoutInterpreter => "thumbv7m-none-eabi",
            Self::Armv6m => "thumbv6m-none-eabi",
        }
    }
}

/// Why the board does not run.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// A program or file that it needs is missing.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The example could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// QEMU could not be started.
    #[error("cannot run QEMU: {0}")]
    Start(#[from] io::Error),
}

/// Builds the example and returns a command that runs it on the board in QEMU. The board's console is standard error, and its
/// serial line is this socket, to which other processes can connect.
///
/// # Errors
/// Set-up or the build failed.
pub fn command(target: Target, socket: &Path) -> Result<Command, EmbeddedError> {
    let mut command = Command::new(setup::program("qemu-system-arm", "qemu-system-arm")?);
    command.args(["-machine", "lm3s6965evb", "-display", "none", "-monitor", "none"]);
    command.args(["-semihosting-config", "enable=on,target=native", "-serial"]);
    command.arg(format!("unix:{},server=on,wait=off", socket.display()));
    command.arg("-kernel").arg(build(target)?);
    Ok(command)
}

/// A running board. Dropping this ends it.
#[derive(Debug)]
pub struct Board {
    qemu: Child,
    console: BufReader<ChildStderr>,
    folder: TempDir,
}

impl Board {
    /// Builds the example and starts it.
    ///
    /// # Errors
    /// See [`EmbeddedError`].
    pub fn boot(target: Target) -> Result<Self, EmbeddedError> {
        let folder = tempfile::tempdir()?;
        let mut command = command(target, &folder.path().join("line"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut qemu = command.spawn()?;
        let console =
            qemu.stderr.take().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(Self { qemu, console: BufReader::new(console), folder })
    }

    /// Returns the path of the socket of its serial line. The socket exists once the board has printed something.
    pub fn line(&self) -> PathBuf {
        self.folder.path().join("line")
    }

    /// The next line that it prints on its console; empty when it has ended.
    ///
    /// # Errors
    /// Reading failed.
    pub fn printed(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.console.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // If QEMU cannot be killed, there is nothing left to do.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Returns cargo's `rustc` command for the example, optimised for size. The caller adds the target of the package.
fn cargo(target: Target) -> Result<Command, BuildError> {
    let mut command = crate::setup::cargo_for("rustc", target.name(), "core")?;
    // Every crate contains the bitcode for link-time optimisation, but only the program enables it. With a setting of
    // the profile, cargo would recompile all macros, which builds of kernel modules have compiled already.
    let flags = command.get_envs().find(|(name, _)| *name == RUSTFLAGS);
    let flags = flags.and_then(|(_, flags)| flags?.to_str()).unwrap_or_default().split('\u{1f}');
    let flags = flags.filter(|flag| !flag.is_empty()).chain(["-Cembed-bitcode=yes"]);
    let flags = flags.collect::<Vec<_>>().join("\u{1f}");
    command.env(RUSTFLAGS, flags);
    // Also for libraries: cargo compiles all crates again if their linker changes.
    command.env(module::linker_variable(Path::new(target.name())), setup::lld()?.program());
    command.args(["--release", "--package", PACKAGE, "--target", target.name()]);
    // Small, as its flash is.
    command.args(["--config", "profile.release.opt-level='s'"]);
    command.arg("--target-dir").arg(workspace::project().cargo_target());
    Ok(command)
}

/// Builds the library of this name in the package's `examples`, and returns its path.
///
/// # Errors
/// Set-up or cargo failed.
pub fn build_example(target: Target, name: &str) -> Result<PathBuf, BuildError> {
    let mut command = cargo(target)?;
    command.args(["--example", name]);
    let target = Path::new(target.name());
    let artifacts =
        module::run_cargo(&mut command, "building the embedded example", PACKAGE, target)?;
    let built = artifacts.into_iter().filter(|artifact| artifact.target.name == name);
    let built = built.flat_map(|artifact| artifact.filenames).next();
    built
        .map(PathBuf::from)
        .ok_or_else(|| BuildError::NoArtifact { what: "library", package: PACKAGE.into() })
}

/// Builds the example, and returns its path.
///
/// # Errors
/// Set-up or cargo failed.
pub fn build(target: Target) -> Result<PathBuf, BuildError> {
    let mut command = cargo(target)?;
    if target == Target::WithoutInterpreter {
        command.arg("--no-default-features");
    }
    let target = Path::new(target.name());
    command.args(["--features", "board", "--bin", PACKAGE]);
    let (lto, what) = (["-Clto=fat"], "building the embedded example");
    let artifacts = module::run_cargo_rustc(&mut command, &lto, what, PACKAGE, target)?;
    let built = artifacts.into_iter().rev().find_map(|artifact| artifact.executable);
    let built = built
        .ok_or_else(|| BuildError::NoArtifact { what: "executable", package: PACKAGE.into() })?;
    Ok(built.into())
}
