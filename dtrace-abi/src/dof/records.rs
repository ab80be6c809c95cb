//! The records in sections.

layout! {
    /// An enabling control block: a probe description, a predicate and actions (`dof_ecbdesc_t`).
    pub struct EcbDesc {
        /// Section of the probe's description.
        probe: u32,
        /// Section of the predicate's DIFO, or [`NO_SECTION`](super::NO_SECTION).
        predicate: u32,
        /// Section of the actions, or none.
        actions: u32,
        /// Zero.
        pad: u32,
        /// A number that the consumer chooses and gets back.
        uarg: u64,
    }
}

layout! {
    /// A description of probes (`dof_probedesc_t`).
    pub struct ProbeDesc {
        /// Section of the strings.
        strings: u32,
        /// Offset of the provider's name in the strings.
        provider: u32,
        /// Offset of the module's name in the strings.
        module: u32,
        /// Offset of the function's name in the strings.
        function: u32,
        /// Offset of the probe's name in the strings.
        name: u32,
        /// Number of the probe, or 0.
        id: u32,
    }
}

layout! {
    /// An action (`dof_actdesc_t`).
    pub struct ActDesc {
        /// Section of its DIFO, or none.
        difo: u32,
        /// Section of the strings, if `arg` is an offset in it, or none.
        strings: u32,
        /// An [`Action`](crate::action::Action).
        kind: u32,
        /// For an aggregation: the number of actions before it that are its keys, including its variable.
        keys: u32,
        /// The argument, or the offset of a format.
        arg: u64,
        /// A number that the consumer chooses and gets back.
        uarg: u64,
    }
}

layout! {
    /// An option (`dof_optdesc_t`).
    pub struct OptDesc {
        /// An [`OptionId`](crate::option::OptionId).
        option: u32,
        /// Section of the strings, if `value` is an offset in it, or none.
        strings: u32,
        /// The value.
        value: u64,
    }
}

layout! {
    /// The header of a group of relocations: their section, and the section that they change (`dof_relohdr_t`).
    pub struct RelocHeader {
        /// Section of the strings.
        strings: u32,
        /// Section of the relocations.
        relocs: u32,
        /// The section that the relocations change.
        target: u32,
    }
}

layout! {
    /// A relocation (`dof_relodesc_t`).
    pub struct Reloc {
        /// Offset of the name of the object to which the relocation refers.
        name: u32,
        /// A [`RelocKind`].
        kind: u32,
        /// The offset of the changed bytes in the target.
        offset: u64,
        /// The addend.
        data: u64,
    }
}

numbered! {
    /// The kind of a relocation (`DOF_RELO_*`).
    pub enum RelocKind: u32 {
        None = 0, "none";
        Setx = 1, "setx";
        DofRelative = 2, "dofrel";
    }
}

layout! {
    /// A provider of a process, in the DOF of its object (`dof_provider_t`, version 2).
    pub struct ProviderDesc {
        /// Section of the strings.
        strings: u32,
        /// Section of the probes.
        probes: u32,
        /// Section of the mapping of arguments.
        args: u32,
        /// Section of the offsets of sites.
        offsets: u32,
        /// Offset of the name.
        name: u32,
        /// Attributes of the provider.
        provider_attr: u32,
        /// Attributes of its modules.
        module_attr: u32,
        /// Attributes of its functions.
        function_attr: u32,
        /// Attributes of its names.
        name_attr: u32,
        /// Attributes of its arguments.
        args_attr: u32,
        /// Section of the offsets of is-enabled sites (since version 2).
        enabled_offsets: u32,
    }
}

layout! {
    /// A probe of a process (`dof_probe_t`).
    pub struct ProbeSites {
        /// Base address of the offsets.
        address: u64,
        /// Offset of the function's name.
        function: u32,
        /// Offset of the probe's name.
        name: u32,
        /// Offset of the first native argument's type.
        native_types: u32,
        /// Offset of the first translated argument's type.
        translated_types: u32,
        /// First entry in the mapping of arguments.
        arg_index: u32,
        /// First entry in the offsets of sites.
        offset_index: u32,
        /// Number of native arguments.
        native_count: u8,
        /// Number of translated arguments.
        translated_count: u8,
        /// Number of sites.
        offset_count: u16,
        /// First entry in the offsets of is-enabled sites.
        enabled_index: u32,
        /// Number of is-enabled sites.
        enabled_count: u16,
        /// Zero.
        pad1: u16,
        /// Zero.
        pad2: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dof::{Header, Section};

    #[test]
    fn sizes_are_the_kernels() {
        assert_eq!((Header::SIZE, Section::SIZE), (64, 32));
        assert_eq!((EcbDesc::SIZE, ProbeDesc::SIZE, ActDesc::SIZE), (24, 24, 32));
        assert_eq!((OptDesc::SIZE, RelocHeader::SIZE, Reloc::SIZE), (16, 12, 24));
        assert_eq!((ProviderDesc::SIZE, ProbeSites::SIZE), (44, 48));
    }
}
