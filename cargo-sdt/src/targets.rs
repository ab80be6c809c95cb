//! The target files of kernel modules, which rustc wants to have on the disk.

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

    /// Writes it to a folder, and returns where it is.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_to(&self, folder: &Path) -> Result<PathBuf, std::io::Error> {
        let file = folder.join(format!("{}.json", self.name));
        // Cargo builds everything anew when it is newer.
        if std::fs::read_to_string(&file).is_ok_and(|text| text == self.text) {
            return Ok(file);
        }
        std::fs::create_dir_all(folder)?;
        whole::write(&file, self.text.as_bytes())?;
        Ok(file)
    }
}

#[cfg(test)]
#[path = "../tests/unit/targets.rs"]
mod tests;
