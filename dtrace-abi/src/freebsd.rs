//! The releases of FreeBSD, and how they differ for kernel modules.

/// The mechanism of FreeBSD's own SDT sites. Two mechanisms exist (`sys/sys/sdt.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generation {
    /// 10 to 14: a site tests whether its probe is enabled, and calls through `sdt_probe_func`.
    Tested,
    /// Since 15: a site is a nop, with a tracepoint record by which the kernel patches it (`_SDT_TRACEPOINT_SET`).
    Patched,
}

impl Generation {
    /// Both generations.
    pub const ALL: [Self; 2] = [Self::Tested, Self::Patched];

    /// Returns `sizeof(struct sdt_probe)`, which is also the value of its field `version`.
    pub const fn probe_size(self) -> u64 {
        match self {
            Self::Tested => 96,
            Self::Patched => 112,
        }
    }

    /// Returns the greatest number of arguments of a probe.
    pub const fn arguments(self) -> usize {
        match self {
            Self::Tested => 5,
            Self::Patched => 6,
        }
    }
}

/// A FreeBSD kernel, by its `__FreeBSD_version` (`sys/sys/param.h`): major release times 100000, and a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(u32);

impl Release {
    /// The oldest major release for which modules can be built.
    pub const OLDEST: u32 = 10;

    /// The newest major release for which modules can be built.
    pub const NEWEST: u32 = 15;

    /// The number of values of `__FreeBSD_version` in a major release.
    pub const MAJOR: u32 = 100_000;

    /// Returns the kernel with this `__FreeBSD_version`, or `None` if modules cannot be built for its major release.
    pub const fn new(version: u32) -> Option<Self> {
        match version / Self::MAJOR {
            Self::OLDEST..=Self::NEWEST => Some(Self(version)),
            _ => None,
        }
    }

    /// Returns the oldest kernel of a major release, or `None` if modules cannot be built for that release.
    pub const fn of_major(major: u32) -> Option<Self> {
        match major {
            Self::OLDEST..=Self::NEWEST => Some(Self(major * Self::MAJOR)),
            _ => None,
        }
    }

    /// Returns `__FreeBSD_version`.
    pub const fn version(self) -> u32 {
        self.0
    }

    /// Returns the major release.
    pub const fn major(self) -> u32 {
        self.0 / Self::MAJOR
    }

    /// Returns how its SDT sites work.
    pub const fn generation(self) -> Generation {
        if self.major() >= 15 { Generation::Patched } else { Generation::Tested }
    }

    /// Returns `sizeof(struct sysinit)` (`sys/sys/kernel.h`): since 14 the records are linked into a list.
    pub const fn sysinit_size(self) -> usize {
        if self.major() >= 14 { 32 } else { 24 }
    }

    /// Returns whether amd64's linker accepts `R_X86_64_PLT32` (`elf_reloc_internal` in `sys/amd64/amd64/elf_machdep.c`,
    /// since 12).
    pub const fn takes_plt32(self) -> bool {
        self.major() >= 12
    }

    /// Returns whether the kernel exports `sdt_probes_enabled` (`sys/sys/sdt.h`, since 12).
    pub const fn has_probes_enabled(self) -> bool {
        self.major() >= 12
    }

    /// Returns whether a breakpoint handler gets the trap frame, which the provider route needs. Before 11 it gets the
    /// stack.
    pub const fn has_trap_frame(self) -> bool {
        self.major() >= 11
    }
}
