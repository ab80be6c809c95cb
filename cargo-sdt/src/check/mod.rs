//! The check after linking: whether the kernel's loader accepts a module, and whether the kernel survives it.
//!
//! A module that fails while it is being loaded can crash the kernel. So the check applies the rules of the loaders
//! (FreeBSD's `sys/kern/link_elf_obj.c` and `sys/kern/link_elf.c`, illumos's krtld), of the linker sets and of the site
//! records before a kernel reads the file. All checks use the view in [`elf`], and the table of all rules in [`rules`].
//! If a file does not match its seal, it was changed after the link, and the check stops. A file without a seal must
//! follow the rules that a compiler, a linker or a user can break, and those whose violation crashes a loader or fbt.

mod code;
mod elf;
pub mod fbt;
mod finding;
mod freebsd;
mod functions;
pub(crate) mod illumos;
mod instruction;
mod kernel;
mod names;
mod operand;
mod record;
mod relocations;
mod rules;
mod sections;
mod summary;
mod symbols;

use elf::Elf;
pub use finding::{Finding, Place};
use functions::Functions;
pub use illumos::DRIVER;
pub use kernel::{Against, Kernel};
pub use rules::{Level, Rule};
pub use summary::{Contents, FreeBsdSummary, IllumosSummary};

use crate::link::Seal;
use crate::platform::Os;

/// Checks a module for a system.
///
/// # Errors
/// All findings, if there is an error among them.
pub fn module(os: Os, file: &[u8], against: Against<'_>) -> Result<Contents, Vec<Finding>> {
    if let Some(found) = Os::told_by(file).filter(|&found| found != os) {
        return Err(vec![Finding::new(Place::File, Rule::OtherSystem, &[&found, &os, &found])]);
    }
    match os {
        Os::FreeBsd => freebsd_module(file, against).map(Contents::FreeBsd),
        Os::Illumos => illumos_module(file, against).map(Contents::Illumos),
    }
}

/// Checks a module for FreeBSD. The file names its architecture.
///
/// # Errors
/// All findings, if there is an error among them.
pub fn freebsd_module(file: &[u8], against: Against<'_>) -> Result<FreeBsdSummary, Vec<Finding>> {
    checked(Os::FreeBsd, file, |elf, functions| freebsd::check(elf, functions, against))
        .map(|(summary, warnings)| FreeBsdSummary { warnings, ..summary })
}

/// Checks a module for illumos.
///
/// # Errors
/// All findings, if there is an error among them.
pub fn illumos_module(file: &[u8], against: Against<'_>) -> Result<IllumosSummary, Vec<Finding>> {
    checked(Os::Illumos, file, |elf, functions| illumos::check(elf, functions, against.kernel))
        .map(|(summary, warnings)| IllumosSummary { warnings, ..summary })
}

/// Applies the rules that all systems share, and those of one system. Returns the summary of the latter, and the warnings.
fn checked<S>(
    os: Os,
    file: &[u8],
    check: impl FnOnce(&Elf<'_>, &Functions<'_>) -> S,
) -> Result<(S, Vec<Finding>), Vec<Finding>> {
    if Seal::of(file) == Seal::Broken {
        return Err(vec![Finding::new(Place::File, Rule::BrokenSeal, &[])]);
    }
    let elf = Elf::parse(os, file)?;
    let functions = Functions::new(elf.all_symbols());
    sections::check(&elf);
    symbols::check(&elf, &functions);
    code::check(&elf);
    let summary = check(&elf, &functions);
    Ok((summary, elf.findings.done()?))
}

#[cfg(test)]
#[path = "../../tests/unit/rules/mod.rs"]
mod tests;
