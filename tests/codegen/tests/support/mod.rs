//! Compiles the programs that the tests disassemble.
#![allow(dead_code, reason = "every test uses its part")]

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use cargo_sdt::internal::module::lock;
use cargo_sdt::internal::project::Project;
use codegen::Image;

/// The options with which a program is compiled. The profile is always `release`, with one codegen unit.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// Package, whose program has the same name.
    pub package: &'a str,
    /// Options of rustc for the program and all its dependencies.
    pub rustflags: &'a [&'a str],
    /// Options of rustc for the program alone. They do not make cargo compile the dependencies again.
    pub own: &'a [&'a str],
    /// Settings of the profile, as in a manifest. Cargo compiles macros and build scripts again for each value of `lto`.
    pub profile: &'a [&'a str],
}

/// The options of every build. Kernels and the decoder of the tests need addresses that are fixed at link time, and no red zone.
/// The dependencies contain bitcode, so that link-time optimisation is an [option](Build::own) of the program alone. All tests
/// use the same options if they can: cargo compiles the dependencies once for each set of options.
pub const KERNEL_LIKE: [&str; 4] = [
    "-Crelocation-model=static",
    "-Cno-redzone=yes",
    "-Csymbol-mangling-version=v0",
    "-Cembed-bitcode=yes",
];

/// The profile of every build, so that cargo compiles the dependencies once.
pub const PROFILE: [&str; 3] = ["opt-level=3", "codegen-units=1", "panic=\"abort\""];

/// The workspace's root folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("tests/codegen is two down")
}

/// Returns the triple of this machine. With an explicit target, cargo does not apply `rustflags` to build scripts and macros.
fn triple() -> &'static str {
    static TRIPLE: OnceLock<String> = OnceLock::new();
    TRIPLE.get_or_init(|| {
        let output = Command::new("rustc").arg("-vV").output().expect("rustc runs");
        let text = String::from_utf8(output.stdout).expect("rustc writes UTF-8");
        let host = text.lines().find_map(|line| line.strip_prefix("host: "));
        host.expect("rustc names the host").to_owned()
    })
}

impl Build<'_> {
    /// Compiles, and calls `with` with the path of the program before another build can replace it. The target folder is that of
    /// modules, with the same compiled macros.
    pub fn then<T>(&self, with: impl FnOnce(&Path) -> T) -> T {
        self.try_then(with).unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    /// Does the same as [`then`](Self::then), but returns cargo's messages if the build fails.
    pub fn try_then<T>(&self, with: impl FnOnce(&Path) -> T) -> Result<T, String> {
        let project = Project::new(root().to_owned(), root().join("build"));
        let target = project.cargo_target();
        // Cargo writes the programs of all builds to the same place.
        let _building = lock(&project).expect("the lock can be taken");
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["rustc", "--quiet", "--release", "--package", self.package])
            .args(["--bin", self.package])
            .args(["--target", triple(), "--target-dir"])
            .arg(&target)
            .current_dir(root())
            .env("CARGO_ENCODED_RUSTFLAGS", self.rustflags.join("\u{1f}"))
            // For all programs, even those without unstable options: if it changes, cargo compiles all macros again.
            .env("RUSTC_BOOTSTRAP", "1")
            .env_remove("RUSTFLAGS");
        for setting in self.profile {
            cargo.args(["--config", &format!("profile.release.{setting}")]);
        }
        cargo.arg("--").args(self.own);
        let output = cargo.output().expect("cargo runs");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(with(&target.join(triple()).join("release").join(self.package)))
    }

    /// Compiles, and reads the program.
    pub fn image(&self) -> Image {
        let bytes = self.then(|path: &Path| std::fs::read(path).expect("the program is there"));
        Image::parse(&bytes).expect("the program can be read")
    }
}
