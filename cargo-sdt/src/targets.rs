//! The target files of kernel modules, which rustc reads from the disk.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::arch::Arch;
use crate::platform::Os;
use crate::whole;

/// The options of rustc with which code for another target gets the same shape as in a module: each function sets up
/// its frame at its entry, and cold blocks are out of line. The target files contain the same settings.
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
    /// Returns the target of an architecture and an operating system; illumos has one architecture.
    pub const fn of(os: Os, arch: Arch) -> Self {
        match (os, arch) {
            (Os::Illumos, _) => target!("x86_64-illumos-kmod"),
            (Os::FreeBsd, Arch::X86_64) => target!("x86_64-freebsd-kmod"),
            (Os::FreeBsd, Arch::Aarch64) => target!("aarch64-freebsd-kmod"),
            (Os::FreeBsd, Arch::Riscv64) => target!("riscv64-freebsd-kmod"),
        }
    }

    /// Returns its contents.
    pub const fn text(&self) -> &'static str {
        self.text
    }

    /// Writes the target file for a release of rustc to a folder, and returns its path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_to(&self, folder: &Path, release: &str) -> Result<PathBuf, std::io::Error> {
        write(self.text, &folder.join(format!("{}.json", self.name)), release)
    }
}

/// Writes the text of a target file to `file`, in the form for a release of rustc, and returns `file`.
///
/// # Errors
/// The file cannot be written.
pub fn write(text: &str, file: &Path, release: &str) -> Result<PathBuf, std::io::Error> {
    let text = text_for(text, release);
    // The file is not rewritten if it is unchanged: cargo would rebuild everything.
    if std::fs::read_to_string(file).is_ok_and(|there| there == text) {
        return Ok(file.into());
    }
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    whole::write(file, text.as_bytes())?;
    Ok(file.into())
}

/// Returns the text of a target file for a release of rustc. For soft floats on aarch64, rustc requires `rustc-abi`
/// since 1.96. Earlier releases need only `abi`, as in their own `aarch64-unknown-none-softfloat`, and refuse
/// `rustc-abi`.
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
