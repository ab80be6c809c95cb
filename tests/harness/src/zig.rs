//! A C compiler with FreeBSD's kernel headers: `zig cc`, from PyPI's package `ziglang`.
//!
//! Version 0.15.2 has the headers of FreeBSD 14 (SDT sites that test a flag), and 0.17.1 has those of 15 (SDT sites that are
//! patched). Both are installed into the build folder only.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::time::Duration;

use crate::setup;
use crate::workspace;
use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::check;
use cargo_sdt::internal::link::{self, LinkError};
use cargo_sdt::internal::module::BuildError;
use cargo_sdt::internal::platform::FreeBsd;
use cargo_sdt::internal::process::{self, ProcessError};
use cargo_sdt::internal::progress::step;
use cargo_sdt::internal::setup::SetupError;
use cargo_sdt::internal::whole;

const COMPILE: Duration = Duration::from_secs(120);

/// A hundred megabytes have to come over the network.
const INSTALL: Duration = Duration::from_secs(600);

/// A version of the package.
struct Wheel {
    /// The major release of FreeBSD whose headers it has.
    freebsd: u32,
    version: &'static str,
    /// SHA-256 of its files for Linux on x86_64 and aarch64.
    hashes: [&'static str; 2],
}

const WHEELS: [Wheel; 2] = [
    Wheel {
        freebsd: 14,
        version: "0.15.2",
        hashes: [
            "806316453d1ede7174ed3fefb8e5348154629089c3bb5fe812dfd0e172fac130",
            "edc0aa60ec964a4cf462d40f68d7de242ddf37fd9a80f2afaee6397059463230",
        ],
    },
    Wheel {
        freebsd: 15,
        version: "0.17.1",
        hashes: [
            "ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54",
            "b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e",
        ],
    },
];

/// Why there is no compiler.
#[derive(Debug, thiserror::Error)]
pub enum ZigError {
    /// The compiler is missing and cannot be fetched, because pip or the network is missing.
    #[error("ziglang {version} is not in build/zig and cannot be fetched: {reason}")]
    Unavailable {
        /// Its version.
        version: &'static str,
        /// The error of pip or of the set-up.
        reason: String,
    },
    /// The fetched file is not the requested one.
    #[error("ziglang {version} does not match the pinned hash: {reason}")]
    OtherFile {
        /// Its version.
        version: &'static str,
        /// The error of pip.
        reason: String,
    },
    /// No version has the headers of that release.
    #[error("the headers of FreeBSD {0} are not available; use FreeBSD 14 or 15")]
    NoHeaders(u32),
    /// A file could not be read or written.
    #[error("{}: {source}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Why there is no module.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// The program does not compile.
    #[error("compiling {}: {source}", .file.display())]
    Compile {
        /// The file.
        file: PathBuf,
        /// The output of the compiler.
        source: ProcessError,
    },
    /// The module cannot be linked, or the check refuses it.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// The compiler.
#[derive(Clone, Debug)]
pub struct Zig {
    program: PathBuf,
    freebsd: u32,
}

impl Zig {
    /// The major releases of FreeBSD whose headers can be had.
    pub const HEADERS: [u32; 2] = [WHEELS[0].freebsd, WHEELS[1].freebsd];

    /// Returns the compiler with the headers of a major release of FreeBSD. Fetches it if it is not in the build folder.
    ///
    /// # Errors
    /// There are no such headers, or they cannot be fetched.
    pub fn with_headers_of(freebsd: u32) -> Result<Self, ZigError> {
        let wheel = WHEELS.iter().find(|wheel| wheel.freebsd == freebsd);
        let wheel = wheel.ok_or(ZigError::NoHeaders(freebsd))?;
        let folder = folder();
        fs::create_dir_all(&folder).map_err(|source| file_error(&folder, source))?;
        let lock = folder.join("lock");
        let _installing = locked(&lock).map_err(|source| file_error(&lock, source))?;
        let home = folder.join(wheel.version);
        let program = home.join("ziglang/zig");
        if !program.is_file() {
            install(wheel, &folder, &home)?;
        }
        Ok(Self { program, freebsd })
    }

    /// Like [`with_headers_of`](Self::with_headers_of), for tests: returns `None` and prints a warning if the compiler cannot be
    /// fetched.
    ///
    /// # Errors
    /// The fetched file has another checksum, or cannot be stored.
    pub fn for_tests(freebsd: u32) -> Result<Option<Self>, ZigError> {
        match Self::with_headers_of(freebsd) {
            Ok(zig) => Ok(Some(zig)),
            Err(error @ ZigError::Unavailable { .. }) => {
                static SAID: Once = Once::new();
                SAID.call_once(|| skipped(&error));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the command that compiles C as FreeBSD compiles kernel modules (`sys/conf/kern.mk`, `sys/conf/kmod.mk`), without
    /// branch protection, stack protectors and sanitizers, which modules in Rust do not have either. The caller adds the source
    /// and the output.
    pub fn cc(&self, arch: Arch) -> Command {
        let mut command = self.command("cc");
        command.arg("-target").arg(format!("{}-freebsd.{}.0", arch.name(), self.freebsd));
        // The value for all kernels of the release, as for modules in Rust; zig defines the value of a later kernel.
        // (For 1500000, `MODULE_KERNEL_MAXVER` would be 1499999.)
        command.arg("-U__FreeBSD_version");
        command.arg(format!("-D__FreeBSD_version={}00001", self.freebsd));
        command.args(["-D_KERNEL", "-DKDTRACE_HOOKS", "-DKLD_MODULE", "-ffreestanding", "-O2"]);
        command.args(["-std=gnu17", "-fwrapv", "-fno-common", "-fno-asynchronous-unwind-tables"]);
        command.args(["-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"]);
        command.args(["-fno-stack-protector", "-fno-sanitize=all", "-Wall", "-Werror"]);
        let of_arch: &[&str] = match arch {
            Arch::X86_64 => &[
                "-mcpu=x86_64-mmx-sse-sse2+soft_float",
                "-mcmodel=kernel",
                "-mno-red-zone",
                "-fno-pic",
            ],
            Arch::Aarch64 => {
                &["-mcpu=generic-neon-fp_armv8+reserve_x18", "-mgeneral-regs-only", "-fPIC"]
            }
            Arch::Riscv64 => {
                &["-mcpu=generic_rv64+m+a+c", "-mabi=lp64", "-mcmodel=medany", "-fPIC"]
            }
        };
        command.args(of_arch);
        command
    }

    /// Compiles a module from one C file, and links and checks it like modules in Rust. Writes it to `build/kmod/ARCH/c-MAJOR`,
    /// under the file's name.
    ///
    /// # Errors
    /// It does not compile, link or pass the checks.
    pub fn module(&self, arch: Arch, source: &Path) -> Result<PathBuf, ModuleError> {
        let folder = workspace::build_dir().join("kmod").join(arch.name());
        let folder = folder.join(format!("c-{}", self.freebsd));
        fs::create_dir_all(&folder).map_err(|source| module_file_error(&folder, source))?;
        // All builds use the same names for object and library, so only one runs at a time.
        let lock = folder.join("lock");
        let _building = locked(&lock).map_err(|source| module_file_error(&lock, source))?;
        let stem = folder.join(source.file_stem().unwrap_or_default());
        let (object, library) = (stem.with_extension("o"), stem.with_extension("a"));
        let mut cc = self.cc(arch);
        cc.arg("-c").arg(source).arg("-o").arg(&object);
        let mut ar = self.command("ar");
        ar.arg("rcs").arg(&library).arg(&object);
        for mut command in [cc, ar] {
            let file = source.to_owned();
            process::run(&mut command, COMPILE)
                .map_err(|source| ModuleError::Compile { file, source })?;
        }
        let output = stem.with_extension("ko");
        let file = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let freebsd = FreeBsd::major_release(self.freebsd).expect("there are modules for it");
        let lld = cargo_sdt::internal::setup::lld().map_err(BuildError::from)?;
        let image = link::freebsd::module(&lld, arch, freebsd, &library, &folder)
            .map_err(|source: LinkError| BuildError::Link { file: file.clone(), source })?;
        check::freebsd_module(&image, check::Against::default())
            .map_err(|findings| BuildError::Check { file, findings })?;
        whole::write(&output, &image).map_err(|source| module_file_error(&output, source))?;
        Ok(output)
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.program);
        let cache = folder().join("cache");
        command.env("ZIG_GLOBAL_CACHE_DIR", &cache).env("ZIG_LOCAL_CACHE_DIR", cache);
        command.arg(subcommand).current_dir(workspace::root());
        command
    }
}

/// Waits for the lock of the file, and holds it until the result is dropped.
fn locked(file: &Path) -> io::Result<File> {
    let held = File::create(file)?;
    held.lock()?;
    Ok(held)
}

fn folder() -> PathBuf {
    workspace::build_dir().join("zig")
}

/// Prints a warning directly to standard error, because the test harness hides the captured output of tests that pass.
fn skipped(error: &ZigError) {
    let line = "=".repeat(72);
    let text = format!("\n{line}\nSKIPPED: the comparison with C. {error}\n{line}\n");
    // A closed standard error is no reason to fail.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn module_file_error(file: &Path, source: io::Error) -> ModuleError {
    BuildError::File { file: file.into(), source }.into()
}

fn file_error(file: &Path, source: io::Error) -> ZigError {
    ZigError::File { file: file.into(), source }
}

/// Fetches a version and unpacks it to `home`.
fn install(wheel: &Wheel, folder: &Path, home: &Path) -> Result<(), ZigError> {
    let version = wheel.version;
    let mut pip = setup::pip().map_err(|error: SetupError| ZigError::Unavailable {
        version,
        reason: error.to_string(),
    })?;
    let requirement = folder.join(format!("{version}.txt"));
    fs::write(&requirement, wheel.requirement())
        .map_err(|source| file_error(&requirement, source))?;
    // The rename at the end makes the folder appear complete.
    let partial = folder.join(format!("{version}.partial"));
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(|source| file_error(&partial, source))?;
    }
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]);
    pip.args(["--no-compile", "--only-binary=:all:", "--retries=1", "--require-hashes"]);
    pip.arg("--requirement").arg(&requirement).arg("--target").arg(&partial);
    let what = format!("fetching ziglang {version}, for the headers of FreeBSD {}", wheel.freebsd);
    step(&what, || process::run(&mut pip, INSTALL)).map_err(|error| wheel.refused(&error))?;
    fs::rename(&partial, home).map_err(|source| file_error(home, source))
}

impl Wheel {
    /// Returns the requirement for pip, with checksums.
    fn requirement(&self) -> String {
        let hashes = self.hashes.map(|hash| format!(" --hash=sha256:{hash}")).concat();
        format!("ziglang=={}{hashes}\n", self.version)
    }

    /// Returns the error for a failure of pip.
    fn refused(&self, error: &ProcessError) -> ZigError {
        let (version, reason) = (self.version, error.to_string());
        if reason.contains("DO NOT MATCH THE HASHES") {
            ZigError::OtherFile { version, reason }
        } else {
            ZigError::Unavailable { version, reason }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_is_pinned() {
        for wheel in &WHEELS {
            let requirement = wheel.requirement();
            let hashes = requirement.matches(" --hash=sha256:").count();
            assert!(requirement.starts_with("ziglang==0.") && hashes == 2, "{requirement}");
        }
    }

    #[test]
    fn another_file_is_no_missing_network() {
        let fails = |says: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("echo '{says}' >&2; exit 1")]);
            WHEELS[0].refused(&process::run(&mut command, INSTALL).unwrap_err())
        };
        let other =
            fails("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.");
        assert!(matches!(other, ZigError::OtherFile { .. }), "{other}");
        let offline = fails("ERROR: Could not find a version that satisfies the requirement");
        assert!(matches!(offline, ZigError::Unavailable { .. }), "{offline}");
    }

    #[test]
    fn there_are_two_sets_of_headers() {
        let error = Zig::with_headers_of(13).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the headers of FreeBSD 13 are not available; use FreeBSD 14 or 15"
        );
    }
}
