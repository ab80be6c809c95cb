//! The releases of FreeBSD, and what differs between them for modules. The build script is compiled with this file, too.

/// How FreeBSD's own SDT sites work: the two that there have been (`sys/sys/sdt.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generation {
    /// 10 to 14: a site tests whether its probe is enabled, and calls through `sdt_probe_func`.
    Tested,
    /// Since 15: a site is a nop, with a tracepoint record by which the kernel patches it (`_SDT_TRACEPOINT_SET`).
    Patched,
}

impl Generation {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Tested, Self::Patched];

    /// `sizeof(struct sdt_probe)`, which is also what its `version` says.
    pub const fn probe_size(self) -> u64 {
        match self {
            Self::Tested => 96,
            Self::Patched => 112,
        }
    }

    /// How many arguments a probe can have.
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
    /// The oldest major release that modules are built for.
    pub const OLDEST: u32 = 10;

    /// The newest major release that modules are built for.
    pub const NEWEST: u32 = 15;

    /// `__FreeBSD_version` counts so many for each major release.
    pub const MAJOR: u32 = 100_000;

    /// The kernel of this version; `None` if it is of no major release that modules are built for.
    pub const fn new(version: u32) -> Option<Self> {
        match version / Self::MAJOR {
            Self::OLDEST..=Self::NEWEST => Some(Self(version)),
            _ => None,
        }
    }

    /// The oldest kernel of a major release; `None` if modules are not built for that.
    pub const fn of_major(major: u32) -> Option<Self> {
        match major {
            Self::OLDEST..=Self::NEWEST => Some(Self(major * Self::MAJOR)),
            _ => None,
        }
    }

    /// `__FreeBSD_version`.
    pub const fn version(self) -> u32 {
        self.0
    }

    /// Its major release.
    pub const fn major(self) -> u32 {
        self.0 / Self::MAJOR
    }

    /// How its SDT sites work.
    pub const fn generation(self) -> Generation {
        if self.major() >= 15 { Generation::Patched } else { Generation::Tested }
    }

    /// `sizeof(struct sysinit)` (`sys/sys/kernel.h`): since 14 they are linked into a list.
    pub const fn sysinit_size(self) -> usize {
        if self.major() >= 14 { 32 } else { 24 }
    }

    /// Whether amd64's linker takes `R_X86_64_PLT32` (`elf_reloc_internal` in `sys/amd64/amd64/elf_machdep.c`, since 12).
    pub const fn takes_plt32(self) -> bool {
        self.major() >= 12
    }

    /// Whether there is `sdt_probes_enabled` (`sys/sys/sdt.h`, since 12).
    pub const fn has_probes_enabled(self) -> bool {
        self.major() >= 12
    }

    /// Whether the handlers of breakpoints get the trap frame, which the provider route needs; before 11 they get the stack.
    pub const fn has_trap_frame(self) -> bool {
        self.major() >= 11
    }
}
