//! Properties of the kernel that depend on the release of FreeBSD.

use dtrace_abi::freebsd::{Generation, Release};

use crate::loader::Machine;

/// 15.0-RELEASE, the default release of the stand-in kernel.
pub const DEFAULT: Release = match Release::new(1_500_068) {
    Some(release) => release,
    None => unreachable!(),
};

/// Returns the offset of function and argument in a release's `struct sysinit` (`sys/kernel.h`): its last two fields.
pub(crate) const fn sysinit_function(release: Release) -> usize {
    release.sysinit_size() - 16
}

/// 13.0-RELEASE's `__FreeBSD_version`.
const RELEASE_13_0: u32 = 1_300_139;

/// The first version that is treated like main where 13.0-RELEASE and main differ on arm64 and riscv.
///
/// It is not known in which version between the two each difference appeared. We have read only parts of one source tree, a
/// stable branch from after August 2023: its arm64 has `arm64_get_writable_addr`, its riscv does not emulate `c.nop`. All other
/// versions before this one are treated like 13.0-RELEASE, which emulates less and has fewer symbols: a module that works there
/// works on the newer releases, too.
const LIKE_MAIN: u32 = 1_500_000;

/// Returns whether `dtrace_invop_start` emulates `nop` on arm64 and `c.nop` on riscv.
///
/// `sys/cddl/dev/dtrace/aarch64/dtrace_subr.c`, `sys/cddl/dev/dtrace/riscv/dtrace_subr.c`: 13.0-CURRENT of 1300010 and
/// 13.0-RELEASE do not; main does.
pub const fn emulates_nop(release: Release) -> bool {
    release.version() >= LIKE_MAIN
}

/// Returns whether the text of modules is writable at the address at which it is executed.
///
/// That is so on arm64 in 1300010 and 13.0-RELEASE, where fbt stores directly to the text (`fbt_patch_tracepoint` in
/// `sys/cddl/dev/fbt/aarch64/fbt_isa.c`). In main, fbt obtains a writable alias from `arm64_get_writable_addr`.
pub const fn has_writable_text(release: Release, machine: Machine) -> bool {
    matches!(machine, Machine::Aarch64) && release.version() < LIKE_MAIN
}

/// Returns whether a symbol is a function pointer (a variable) in `release`, although it is a function in other releases.
///
/// `arm64_icache_sync_range`: a function in 1300010, a variable in 13.0-RELEASE and main (`sys/arm64/include/cpufunc.h`).
pub const fn is_variable(release: Release, name: &str) -> bool {
    matches!(name.as_bytes(), b"arm64_icache_sync_range") && release.version() >= RELEASE_13_0
}

/// Returns whether a release has a symbol; `true` for symbols that do not depend on the release.
pub const fn has_symbol(release: Release, name: &str) -> bool {
    match name.as_bytes() {
        b"sdt_probe" | b"sdt_probe6" => matches!(release.generation(), Generation::Patched),
        b"sdt_probes_enabled" => release.has_probes_enabled(),
        // `sys/arm64/arm64/machdep.c`: main has it, 1300010 and 13.0-RELEASE do not.
        b"arm64_get_writable_addr" => release.version() >= LIKE_MAIN,
        // Older kernels have these functions, too, but pass the stack instead of the trap frame to the handler. A handler that
        // expects a trap frame would corrupt memory.
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
        for (version, nop, writable_text, variable) in [
            (1_300_010, false, true, false),
            (1_300_139, false, true, true),
            (1_302_001, false, true, true),
            (1_500_068, true, false, true),
        ] {
            let release = of(version);
            assert_eq!(emulates_nop(release), nop, "{release:?}");
            assert_eq!(has_writable_text(release, Machine::Aarch64), writable_text, "{release:?}");
            assert!(!has_writable_text(release, Machine::X86_64));
            assert_eq!(has_symbol(release, "arm64_get_writable_addr"), !writable_text);
            assert_eq!(is_variable(release, "arm64_icache_sync_range"), variable, "{release:?}");
            assert!(!is_variable(release, "printf"));
        }
        for version in [0, 900_000, 999_999, 1_600_000, u32::MAX] {
            assert_eq!(Release::new(version), None);
        }
    }
}
