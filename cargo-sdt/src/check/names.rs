//! The names of the sets that have special rules, and the rules by which DTrace and a kernel's sdt check and change the names
//! of providers and probes.

use crate::platform::Os;

/// The set of sites that the module patches itself (`sdt_core::patch`).
pub(super) const SITES: &str = "sdt_sites";
/// The set of sites that FreeBSD's sdt patches.
pub(super) const TRACEPOINTS: &str = "set_sdt_tracepoint_set";
/// The set of is-enabled sites on illumos, which `_init` processes (`sdt_core::illumos::native`).
pub(super) const ENABLED: &str = "sdt_is_enabled";

/// Returns why DTrace would reject or cut a name (`dtrace_badname` and the lengths of `sys/dtrace.h`). FreeBSD's also
/// accepts dots. The limit includes the NUL.
pub(super) fn unusable(os: Os, name: &str, limit: usize) -> Option<String> {
    if name.is_empty() {
        return Some("is empty".into());
    }
    if name.len() >= limit {
        return Some(format!("is longer than {} bytes", limit - 1));
    }
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        return Some("starts with a digit".into());
    }
    let fine = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || c == '.' && os == Os::FreeBsd
    };
    let bad = name.chars().find(|&c| !fine(c))?;
    Some(format!("contains {bad:?}, which a probe description cannot contain"))
}

/// Returns a probe's name as a kernel's sdt makes it from that of a record or a symbol (`sdt_create_probe` of FreeBSD's
/// `sys/cddl/dev/sdt/sdt.c`, illumos's `sdt_provide_module`): C's identifiers have no dashes.
pub(super) fn translated(name: &str) -> String {
    name.replace("__", "-")
}

#[cfg(test)]
#[path = "../../tests/unit/check/names.rs"]
mod tests;
