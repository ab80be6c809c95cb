//! The built-in types of D (dt_open.c: `_dtrace_intrinsics_64`, `_dtrace_typedefs_64`).

use super::store::Types;
use super::ty::{Special, Type, TypeId};

/// Name, bits, signed, character.
const INTEGERS: &[(&str, u32, bool, bool)] = &[
    ("void", 0, true, false),
    ("signed", 32, true, false),
    ("unsigned", 32, false, false),
    ("char", 8, true, true),
    ("short", 16, true, false),
    ("int", 32, true, false),
    ("long", 64, true, false),
    ("long long", 64, true, false),
    ("signed char", 8, true, true),
    ("signed short", 16, true, false),
    ("signed int", 32, true, false),
    ("signed long", 64, true, false),
    ("signed long long", 64, true, false),
    ("unsigned char", 8, false, true),
    ("unsigned short", 16, false, false),
    ("unsigned int", 32, false, false),
    ("unsigned long", 64, false, false),
    ("unsigned long long", 64, false, false),
    ("_Bool", 8, false, false),
];

/// Name, bits, real.
const FLOATS: &[(&str, u32, bool)] = &[
    ("float", 32, true),
    ("double", 64, true),
    ("long double", 128, true),
    ("float imaginary", 32, false),
    ("double imaginary", 64, false),
    ("long double imaginary", 128, false),
    ("float complex", 64, false),
    ("double complex", 128, false),
    ("long double complex", 256, false),
];

/// A type, and another name for it.
const TYPEDEFS: &[(&str, &str)] = &[
    ("char", "int8_t"),
    ("short", "int16_t"),
    ("int", "int32_t"),
    ("long", "int64_t"),
    ("long", "intptr_t"),
    ("long", "ssize_t"),
    ("unsigned char", "uint8_t"),
    ("unsigned short", "uint16_t"),
    ("unsigned", "uint32_t"),
    ("unsigned long", "uint64_t"),
    ("unsigned char", "uchar_t"),
    ("unsigned short", "ushort_t"),
    ("unsigned", "uint_t"),
    ("unsigned long", "ulong_t"),
    ("unsigned long long", "u_longlong_t"),
    ("long", "ptrdiff_t"),
    ("unsigned long", "uintptr_t"),
    ("unsigned long", "size_t"),
    ("int", "id_t"),
    ("int", "pid_t"),
];

impl Types {
    /// Returns the built-in types of D; a string has `strsize` bytes.
    pub fn new(strsize: u32) -> Self {
        let none = TypeId(0);
        let mut types = Self {
            types: Vec::new(),
            roots: Vec::new(),
            extents: Vec::new(),
            named: Default::default(),
            pointers: Default::default(),
            rooms: Default::default(),
            remarks: Default::default(),
            special: Special {
                void: none,
                int: none,
                int64: none,
                uint64: none,
                size: none,
                ptrdiff: none,
                string: none,
                dynamic: none,
                stack: none,
                symaddr: none,
                usymaddr: none,
                function: none,
                function_pointer: none,
            },
        };
        for &(name, bits, signed, char) in INTEGERS {
            let id = types.add(Type::Int { name: name.into(), bits, signed, char });
            types.set_name(name, id);
        }
        for &(name, bits, real) in FLOATS {
            let id = types.add(Type::Float { name: name.into(), bits, real });
            types.set_name(name, id);
        }
        for &(of, name) in TYPEDEFS {
            let of = types.named[of];
            types.typedef(name, of);
        }
        let (void, char) = (types.named["void"], types.named["char"]);
        let chars = types.array(char, strsize);
        let function = types.add(Type::Function);
        types.special = Special {
            void,
            int: types.named["int"],
            int64: types.named["int64_t"],
            uint64: types.named["uint64_t"],
            size: types.named["size_t"],
            ptrdiff: types.named["ptrdiff_t"],
            string: types.typedef("string", chars),
            dynamic: types.add(Type::Typedef("<DYN>".into(), void)),
            stack: types.typedef("stack", void),
            symaddr: types.typedef("_symaddr", void),
            usymaddr: types.typedef("_usymaddr", void),
            function,
            function_pointer: types.pointer(function),
        };
        types
    }
}
