//! Which FreeBSD this kernel stands in for, and what follows from it for the kernel itself.

use sdt_core::__private::release::{Generation, Release};

/// 15.0-RELEASE: what this kernel begins as.
pub const DEFAULT: Release = match Release::new(1_500_068) {
    Some(release) => release,
    None => unreachable!(),
};

/// Where function and argument are in a release's `struct sysinit` (`sys/kernel.h`): they are its last two fields.
pub(crate) const fn sysinit_function(release: Release) -> usize {
    release.sysinit_size() - 16
}

/// Whether a release has a symbol, of those that are not in every one.
pub const fn has_symbol(release: Release, name: &str) -> bool {
    match name.as_bytes() {
        b"sdt_probe" | b"sdt_probe6" => matches!(release.generation(), Generation::Patched),
        b"sdt_probes_enabled" => release.has_probes_enabled(),
        // There before, too; but handlers get the stack there, not the trap frame, and whoever takes
        // the one for the other writes where it must not.
        b"dtrace_invop_add" | b"dtrace_invop_remove" => release.has_trap_frame(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_from_a_release() {
        let of = |version| Release::new(version).unwrap();
        for (version, generation, function, plt32, enabled, handlers) in [
            (1_003_000, Generation::Tested, 8, false, false, false),
            (1_100_122, Generation::Tested, 8, false, false, true),
            (1_201_000, Generation::Tested, 8, true, true, true),
            (1_302_000, Generation::Tested, 8, true, true, true),
            (1_404_000, Generation::Tested, 16, true, true, true),
            (1_500_068, Generation::Patched, 16, true, true, true),
        ] {
            let release = of(version);
            assert_eq!(release.version(), version);
            assert_eq!(release.generation(), generation, "{release:?}");
            assert_eq!(sysinit_function(release), function, "{release:?}");
            assert_eq!(release.takes_plt32(), plt32, "{release:?}");
            assert_eq!(has_symbol(release, "sdt_probes_enabled"), enabled, "{release:?}");
            assert_eq!(has_symbol(release, "dtrace_invop_add"), handlers, "{release:?}");
            let tracepoints = generation == Generation::Patched;
            assert_eq!(has_symbol(release, "sdt_probe"), tracepoints, "{release:?}");
            assert!(has_symbol(release, "sdt_probe_func") && has_symbol(release, "printf"));
        }
        for version in [0, 900_000, 999_999, 1_600_000, u32::MAX] {
            assert_eq!(Release::new(version), None);
        }
    }
}
