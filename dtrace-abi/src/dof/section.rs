//! Headers of sections.

/// The index that means "no section" (`DOF_SECIDX_NONE`).
pub const NO_SECTION: u32 = u32::MAX;
/// The offset that means "no string" (`DOF_STRIDX_NONE`).
pub const NO_STRING: u32 = u32::MAX;
/// The section is loaded (`DOF_SECF_LOAD`).
pub const LOAD: u32 = 1;

numbered! {
    /// The kind of a section (`DOF_SECT_*`).
    pub enum SectionKind: u32 {
        None = 0, "none";
        Comments = 1, "comments";
        Source = 2, "source";
        EcbDesc = 3, "ecbdesc";
        ProbeDesc = 4, "probedesc";
        ActDesc = 5, "actdesc";
        DifoHdr = 6, "difohdr";
        Dif = 7, "dif";
        Strtab = 8, "strtab";
        Vartab = 9, "vartab";
        Reltab = 10, "reltab";
        Typtab = 11, "typtab";
        Urelhdr = 12, "urelhdr";
        Krelhdr = 13, "krelhdr";
        OptDesc = 14, "optdesc";
        Provider = 15, "provider";
        Probes = 16, "probes";
        Prargs = 17, "prargs";
        Proffs = 18, "proffs";
        Inttab = 19, "inttab";
        Utsname = 20, "utsname";
        Xltab = 21, "xltab";
        Xlmembers = 22, "xlmembers";
        Xlimport = 23, "xlimport";
        Xlexport = 24, "xlexport";
        Prexport = 25, "prexport";
        Prenoffs = 26, "prenoffs";
    }
}

impl SectionKind {
    /// Returns whether kernels load a section of this kind (`DOF_SEC_ISLOADABLE`).
    pub const fn is_loadable(self) -> bool {
        !matches!(self, Self::None | Self::Comments | Self::Source | Self::Utsname)
    }

    /// Returns the alignment that a kernel requires of a section before it reads it; `None` if it requires none.
    pub const fn alignment(self) -> Option<u32> {
        match self {
            Self::EcbDesc | Self::ActDesc | Self::OptDesc | Self::Inttab => Some(8),
            Self::ProbeDesc | Self::DifoHdr | Self::Dif | Self::Vartab => Some(4),
            _ => None,
        }
    }

    /// Returns whether a section may be part of a program. Providers, their probes, and relocations by the address of
    /// an object belong to the DOF of processes.
    pub const fn is_for_programs(self) -> bool {
        !matches!(
            self,
            Self::Provider
                | Self::Probes
                | Self::Prargs
                | Self::Proffs
                | Self::Prenoffs
                | Self::Urelhdr
        )
    }
}

layout! {
    /// A section's header (`dof_sec_t`).
    pub struct Section {
        /// A [`SectionKind`].
        kind: u32,
        /// The alignment of its offset: a power of two.
        align: u32,
        /// [`LOAD`], or 0.
        flags: u32,
        /// The size of one entry in bytes, if it is a table.
        entry_size: u32,
        /// The offset of its data.
        offset: u64,
        /// The size of its data in bytes.
        size: u64,
    }
}

impl Section {
    /// Returns whether the section has the flag [`LOAD`].
    pub const fn is_loaded(&self) -> bool {
        self.flags & LOAD != 0
    }
}
