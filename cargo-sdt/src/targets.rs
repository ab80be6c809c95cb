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
mod tests {
    use super::*;

    #[test]
    fn all_targets_have_one_shape_of_code() {
        let illumos = Target::of(Os::Illumos, Arch::X86_64);
        let freebsd = Arch::ALL.map(|arch| Target::of(Os::FreeBsd, arch));
        for target in freebsd.into_iter().chain([illumos]) {
            let file: serde_json::Value = serde_json::from_str(target.text()).unwrap();
            assert_eq!(file["frame-pointer"], "always", "{}", target.name);
            let llvm =
                file["llvm-args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
            let options = format!("-Cllvm-args={}", llvm.collect::<Vec<_>>().join(" "));
            assert_eq!(options, CODE_SHAPE[1], "{}", target.name);
        }
    }

    #[test]
    fn a_target_is_written_once_and_mended() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::of(Os::Illumos, Arch::X86_64);
        let write = || target.write_to(&folder.path().join("targets"), "1.96.0").unwrap();
        let file = write();
        assert!(file.ends_with("targets/x86_64-illumos-kmod.json"));
        let written = std::fs::metadata(&file).unwrap().modified().unwrap();
        assert_eq!(write(), file);
        assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), written);
        // One of another version is not left there.
        std::fs::write(&file, "{}").unwrap();
        write();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), target.text());
    }

    #[test]
    fn a_release_that_refuses_the_abi_of_aarch64_does_not_get_it() {
        let field = |arch, release| {
            let text = text_for(Target::of(Os::FreeBsd, arch).text(), release);
            let file: serde_json::Value = serde_json::from_str(&text).unwrap();
            file.get("rustc-abi").is_some()
        };
        assert!(!field(Arch::Aarch64, "1.95.0"));
        for release in ["1.96.0", "1.100.0", "1.97.0-nightly", "2.0.0", "unknown"] {
            assert!(field(Arch::Aarch64, release), "{release}");
        }
        assert!(field(Arch::X86_64, "1.95.0"));
    }
}
