//! QEMU: its program and its options for each architecture.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::process;
use cargo_sdt::internal::setup::{self, SetupError};

const SHORT: Duration = Duration::from_secs(60);

/// QEMU's program for the machine.
pub const fn program(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "qemu-system-x86_64",
        Arch::Aarch64 => "qemu-system-aarch64",
        Arch::Riscv64 => "qemu-system-riscv64",
    }
}

/// Returns the packages of distributions that contain [`program`], in order of preference.
const fn packages(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &["qemu-system-x86"],
        Arch::Aarch64 => &["qemu-system-arm"],
        // Newer releases have split it off.
        Arch::Riscv64 => &["qemu-system-riscv", "qemu-system-misc"],
    }
}

/// Firmware that QEMU needs, in its data folder, and the package that has it.
const fn firmware(arch: Arch) -> Option<(&'static str, &'static str)> {
    match arch {
        Arch::X86_64 | Arch::Aarch64 => None,
        Arch::Riscv64 => Some(("opensbi-riscv64-generic-fw_dynamic.bin", "opensbi")),
    }
}

/// Returns QEMU's options for the machine, including the device through which a failing kernel sets the exit status.
pub const fn machine_options(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &["-cpu", "max", "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"],
        Arch::Aarch64 => &[
            "-machine",
            "virt,gic-version=3",
            "-cpu",
            "max",
            "-semihosting-config",
            "enable=on,target=native",
        ],
        // The device that sets the exit status is part of this machine.
        Arch::Riscv64 => &["-machine", "virt", "-bios", "default"],
    }
}

/// Size of RAM, in bytes.
pub const RAM: u64 = 256 << 20;
/// Distance of the kernel's symbols from the start of RAM, equal to the kernel's constant `SYMBOLS`.
pub const SYMBOLS: u64 = 240 << 20;

/// Physical address of the kernel's symbols.
pub const fn symbols_address(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 => SYMBOLS,
        Arch::Aarch64 => (1 << 30) + SYMBOLS,
        Arch::Riscv64 => (2 << 30) + SYMBOLS,
    }
}

/// QEMU's exit status when the kernel has powered the machine off in order.
pub const fn powered_off(arch: Arch) -> i32 {
    match arch {
        // The exit status: twice the value that the kernel writes to `isa-debug-exit`, plus one.
        Arch::X86_64 => 33,
        Arch::Aarch64 | Arch::Riscv64 => 0,
    }
}

/// Returns QEMU's path for an architecture. Installs QEMU if it is missing.
///
/// # Errors
/// QEMU is missing and could not be installed.
pub fn find(arch: Arch) -> Result<PathBuf, SetupError> {
    let qemu = match process::find(program(arch)) {
        Some(found) => found,
        None => setup::program(program(arch), &package(arch))?,
    };
    if let Some((file, package)) = firmware(arch) {
        // The folders that QEMU searches, relative to its program; a link to a missing package is ignored.
        let folder = qemu.parent().and_then(Path::parent).map(|prefix| prefix.join("share/qemu"));
        if folder.is_some_and(|folder| folder.is_dir() && !folder.join(file).exists()) {
            setup::install(&format!("the firmware {file} is"), &[package])?;
        }
    }
    Ok(qemu)
}

/// Returns the first package that the distribution offers among those that may contain QEMU for an architecture.
fn package(arch: Arch) -> String {
    setup::update_lists();
    let known = |package: &&&str| {
        let written = process::run(Command::new("apt-cache").args(["policy", package]), SHORT);
        written.is_ok_and(|written| has_candidate(&String::from_utf8_lossy(&written.stdout)))
    };
    let packages = packages(arch);
    packages.iter().find(known).or(packages.last()).map_or_else(String::new, ToString::to_string)
}

/// Returns whether `apt-cache policy` shows a package that can be installed.
fn has_candidate(policy: &str) -> bool {
    let candidate = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: "));
    candidate.is_some_and(|version| version != "(none)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_without_a_candidate_are_none() {
        assert!(has_candidate("qemu-system-misc:\n  Installed: (none)\n  Candidate: 1:7.2\n"));
        assert!(!has_candidate("qemu-system-riscv:\n  Installed: (none)\n  Candidate: (none)\n"));
        assert!(!has_candidate(""), "what apt does not know");
    }

    #[test]
    fn kernels_have_targets() {
        for arch in Arch::ALL {
            assert!(crate::kernel::target_file(arch).is_file(), "{arch}");
        }
    }
}
