//! Types in DIF, and descriptions of variables.

use core::fmt;

numbered! {
    /// Whether a type is D's string or another type (`DIF_TYPE_*`). The names are those of the disassembler.
    pub enum TypeKind: u8 {
        Ctf = 0, "D type";
        String = 1, "string";
    }
}

numbered! {
    /// The kind of a C type (`CTF_K_*`, illumos `sys/ctf.h`; FreeBSD `sys/cddl/.../sys/ctf.h`).
    pub enum CtfKind: u8 {
        Unknown = 0, "unknown";
        Integer = 1, "integer";
        Float = 2, "float";
        Pointer = 3, "pointer";
        Array = 4, "array";
        Function = 5, "function";
        Struct = 6, "struct";
        Union = 7, "union";
        Enum = 8, "enum";
        Forward = 9, "forward";
        Typedef = 10, "typedef";
        Volatile = 11, "volatile";
        Const = 12, "const";
        Restrict = 13, "restrict";
    }
}

layout! {
    /// The type of a variable, a key, or the result of a DIFO (`dtrace_diftype_t`).
    pub struct DifType {
        /// A [`TypeKind`].
        kind: u8,
        /// A [`CtfKind`].
        ckind: u8,
        /// [`BYREF`](DifType::BYREF) and [`BYUREF`](DifType::BYUREF).
        flags: u8,
        /// Zero.
        pad: u8,
        /// Size in bytes.
        size: u32,
    }
}

impl DifType {
    /// The value is an address in the kernel (`DIF_TF_BYREF`).
    pub const BYREF: u8 = 0x1;
    /// The value is an address in a process (`DIF_TF_BYUREF`; not on illumos).
    pub const BYUREF: u8 = 0x2;

    /// The type of an expression whose value is not used (`dt_void_rtype`, dt_cc.c).
    pub const VOID: Self = Self::integer(0);
    /// A 64-bit integer (`dt_int_rtype`, dt_cc.c).
    pub const INT: Self = Self::integer(8);

    /// Returns the type of an integer of `size` bytes.
    pub const fn integer(size: u32) -> Self {
        Self {
            kind: TypeKind::Ctf.number(),
            ckind: CtfKind::Integer.number(),
            flags: 0,
            pad: 0,
            size,
        }
    }

    /// Returns whether the value is an address.
    pub const fn is_by_ref(&self) -> bool {
        self.flags & (Self::BYREF | Self::BYUREF) != 0
    }

    /// Returns whether it is D's string.
    pub const fn is_string(&self) -> bool {
        self.kind == TypeKind::String.number()
    }
}

impl fmt::Display for DifType {
    /// Displays the type like the disassembler: `D type (integer) (size 4)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match TypeKind::from_number(self.kind) {
            Some(kind) => f.write_str(kind.name())?,
            None => write!(f, "{:#x}", self.kind)?,
        }
        match CtfKind::from_number(self.ckind) {
            Some(kind) => write!(f, " ({})", kind.name())?,
            None => write!(f, " ({:#x})", self.ckind)?,
        }
        if self.is_by_ref() {
            let user = if self.flags & Self::BYUREF != 0 { "user " } else { "" };
            write!(f, " by {user}ref")?;
        }
        write!(f, " (size {})", self.size)
    }
}

numbered! {
    /// Whether a variable has keys (`DIFV_KIND_*`). The names are those of the disassembler.
    pub enum VarKind: u8 {
        Array = 0, "arr";
        Scalar = 1, "scl";
    }
}

numbered! {
    /// The scope of a variable (`DIFV_SCOPE_*`). The names are those of the disassembler.
    pub enum VarScope: u8 {
        Global = 0, "glb";
        Thread = 1, "tls";
        Local = 2, "loc";
    }
}

/// The accesses of a DIFO to a variable (`DIFV_F_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VarFlags;

impl VarFlags {
    /// The program reads the variable (`DIFV_F_REF`).
    pub const REF: u16 = 0x1;
    /// The program writes the variable (`DIFV_F_MOD`).
    pub const MOD: u16 = 0x2;
}

layout! {
    /// A variable that a DIFO uses (`dtrace_difv_t`).
    pub struct Variable {
        /// Offset of its name in the table of strings.
        name: u32,
        /// Its number.
        id: u32,
        /// A [`VarKind`].
        kind: u8,
        /// A [`VarScope`].
        scope: u8,
        /// [`VarFlags`].
        flags: u16,
        /// Its type; for an associative array, the type of its values.
        ty: DifType,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_kernels() {
        assert_eq!((DifType::SIZE, Variable::SIZE), (8, 20));
    }

    #[test]
    fn types_print_as_the_disassembler_prints_them() {
        assert_eq!(DifType::integer(4).to_string(), "D type (integer) (size 4)");
        let string = DifType { kind: 1, ckind: 0, flags: DifType::BYREF, pad: 0, size: 256 };
        assert_eq!(string.to_string(), "string (unknown) by ref (size 256)");
        let user = DifType { ckind: 6, flags: DifType::BYUREF, ..DifType::integer(20) };
        assert_eq!(user.to_string(), "D type (struct) by user ref (size 20)");
    }
}
