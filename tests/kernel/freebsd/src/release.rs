//! Which FreeBSD this kernel stands in for, and what follows from it.

use core::fmt;

/// A FreeBSD kernel's `__FreeBSD_version` (`sys/param.h`): major release times 100000, and a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(i32);

/// How probes of modules are fired and enabled (`sys/sdt.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// 10 to 14: a module tests the probe's id and calls through `sdt_probe_func`.
    Flag,
    /// 15: a module has nops that the kernel makes jumps (`_SDT_TRACEPOINT_SET`).
    Tracepoint,
}

impl Release {
    /// 15.0-RELEASE.
    pub const DEFAULT: Self = Self(1_500_068);

    /// The release with this version: one of a major release from 10 to 15.
    pub const fn new(version: i32) -> Option<Self> {
        match version / 100_000 {
            10..=15 => Some(Self(version)),
            _ => None,
        }
    }

    /// `__FreeBSD_version`.
    pub const fn version(self) -> i32 {
        self.0
    }

    const fn since(self, major: i32) -> bool {
        self.0 >= major * 100_000
    }

    /// What its SDT is.
    pub const fn generation(self) -> Generation {
        if self.since(15) { Generation::Tracepoint } else { Generation::Flag }
    }

    /// Where function and argument are in its `struct sysinit` (`sys/kernel.h`), behind two `u32`s and,
    /// since 14, a link; the argument is the last field.
    pub(crate) const fn sysinit_function(self) -> usize {
        if self.since(14) { 16 } else { 8 }
    }

    /// Whether its linker for amd64 knows `R_X86_64_PLT32` (`elf_reloc_internal` in
    /// `sys/amd64/amd64/elf_machdep.c`).
    pub const fn knows_plt32(self) -> bool {
        self.since(12)
    }

    /// Whether it has the symbol, of those that are not in every release.
    pub fn has_symbol(self, name: &str) -> bool {
        match name {
            "sdt_probe" | "sdt_probe6" => self.since(15),
            "sdt_probes_enabled" => self.since(12),
            // There before, too; but handlers get the stack there, not the trap frame, and whoever takes
            // the one for the other writes where it must not.
            "dtrace_invop_add" | "dtrace_invop_remove" => self.since(11),
            _ => true,
        }
    }
}

impl Default for Release {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FreeBSD {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_from_a_release() {
        let of = |version| Release::new(version).unwrap();
        for (version, generation, function, plt32, enabled, handlers) in [
            (1_003_000, Generation::Flag, 8, false, false, false),
            (1_100_122, Generation::Flag, 8, false, false, true),
            (1_201_000, Generation::Flag, 8, true, true, true),
            (1_302_000, Generation::Flag, 8, true, true, true),
            (1_404_000, Generation::Flag, 16, true, true, true),
            (1_500_068, Generation::Tracepoint, 16, true, true, true),
        ] {
            let release = of(version);
            assert_eq!(release.version(), version);
            assert_eq!(release.generation(), generation, "{release}");
            assert_eq!(release.sysinit_function(), function, "{release}");
            assert_eq!(release.knows_plt32(), plt32, "{release}");
            assert_eq!(release.has_symbol("sdt_probes_enabled"), enabled, "{release}");
            assert_eq!(release.has_symbol("dtrace_invop_add"), handlers, "{release}");
            let tracepoints = generation == Generation::Tracepoint;
            assert_eq!(release.has_symbol("sdt_probe"), tracepoints, "{release}");
            assert!(release.has_symbol("sdt_probe_func") && release.has_symbol("printf"));
        }
        for version in [0, -1, 900_000, 999_999, 1_600_000, i32::MAX] {
            assert_eq!(Release::new(version), None);
        }
    }
}
