//! The target files of kernel modules, which rustc wants to have on the disk.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::arch::Arch;
use crate::platform::Os;
use crate::whole;

/// Options of rustc by which code for another target has the shape that it has in a module: each function has its frame, at
/// its entry, and cold blocks lie out of line. The target files say the same.
pub const CODE_SHAPE: [&str; 2] =
    ["-Cforce-frame-pointers=yes", "-Cllvm-args=-force-loop-cold-block -enable-shrink-wrap=false"];

/// The target file of modules for a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    name: &'static str,
    text: &'static str,
}

macro_rules! target {
    ($name:literal) => {
        Target { name: $name, text: include_str!(concat!("../targets/", $name, ".json")) }
    };
}

impl Target {
    /// That of an architecture and an operating system; illumos has one architecture.
    pub const fn of(os: Os, arch: Arch) -> Self {
        match (os, arch) {
            (Os::Illumos, _) => target!("x86_64-illumos-kmod"),
            (Os::FreeBsd, Arch::X86_64) => target!("x86_64-freebsd-kmod"),
            (Os::FreeBsd, Arch::Aarch64) => target!("aarch64-freebsd-kmod"),
            (Os::FreeBsd, Arch::Riscv64) => target!("riscv64-freebsd-kmod"),
        }
    }

    /// What it says.
    pub const fn text(&self) -> &'static str {
        self.text
    }

    /// Writes it to a folder for a release of rustc, and returns where it is.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_to(&self, folder: &Path, release: &str) -> Result<PathBuf, std::io::Error> {
        write(self.text, &folder.join(format!("{}.json", self.name)), release)
    }
}

/// Writes the text of a target file to `file`, as a release of rustc takes it, and returns `file`.
///
/// # Errors
/// It cannot be written.
pub fn write(text: &str, file: &Path, release: &str) -> Result<PathBuf, std::io::Error> {
    let text = text_for(text, release);
    // Cargo builds everything anew when it is newer.
    if std::fs::read_to_string(file).is_ok_and(|there| there == text) {
        return Ok(file.into());
    }
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    whole::write(file, text.as_bytes())?;
    Ok(file.into())
}

/// The text of a target file for a release of rustc. Since 1.96, rustc wants `rustc-abi` for soft floats on aarch64; before, it
/// knows them by `abi` alone, as in its own `aarch64-unknown-none-softfloat`, and refuses `rustc-abi`.
fn text_for<'t>(text: &'t str, release: &str) -> Cow<'t, str> {
    let minor = release.strip_prefix("1.").and_then(|rest| rest.split('.').next()?.parse().ok());
    let is_older = minor.is_some_and(|minor: u32| minor < 96);
    if is_older && text.contains("\"arch\": \"aarch64\"") {
        Cow::Owned(text.replace("  \"rustc-abi\": \"softfloat\",\n", ""))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
#[path = "../tests/unit/targets.rs"]
mod tests;
