//! The C types of arguments, and the Rust types that replace them.

/// The type of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// In C: `struct proc *`.
    pub c: String,
    /// The type in the Rust declaration of an argument.
    pub rust: String,
}

/// C's built-in integer types, as D writes them, with their Rust types.
const NUMBERS: [(&str, &str); 11] = [
    ("char", "i8"),
    ("signed char", "i8"),
    ("unsigned char", "u8"),
    ("short", "i16"),
    ("unsigned short", "u16"),
    ("int", "i32"),
    ("unsigned int", "u32"),
    ("long", "i64"),
    ("unsigned long", "u64"),
    ("long long", "i64"),
    ("unsigned long long", "u64"),
];

/// Names of integer types that need no declaration, with their Rust types.
const NAMES: [(&str, &str); 33] = [
    ("_Bool", "bool"),
    ("bool", "bool"),
    ("boolean_t", "i32"),
    ("uchar_t", "u8"),
    ("u_char", "u8"),
    ("ushort_t", "u16"),
    ("u_short", "u16"),
    ("uint_t", "u32"),
    ("u_int", "u32"),
    ("uint", "u32"),
    ("ulong_t", "u64"),
    ("u_long", "u64"),
    ("longlong_t", "i64"),
    ("u_longlong_t", "u64"),
    ("int8_t", "i8"),
    ("int16_t", "i16"),
    ("int32_t", "i32"),
    ("int64_t", "i64"),
    ("uint8_t", "u8"),
    ("uint16_t", "u16"),
    ("uint32_t", "u32"),
    ("uint64_t", "u64"),
    ("size_t", "usize"),
    ("ssize_t", "isize"),
    ("intptr_t", "isize"),
    ("uintptr_t", "usize"),
    ("pid_t", "i32"),
    ("id_t", "i32"),
    ("uid_t", "u32"),
    ("gid_t", "u32"),
    ("off_t", "i64"),
    ("hrtime_t", "i64"),
    ("zoneid_t", "i32"),
];

/// Returns the integer type that these words name, as D writes it, with its Rust type. C accepts the words in any
/// order: `long unsigned int` is `unsigned long`.
fn number(words: &[&str]) -> Option<(String, &'static str)> {
    let count = |word| words.iter().filter(|of| **of == word).count();
    let (signed, unsigned) = (count("signed"), count("unsigned"));
    let (int, char, short, long) = (count("int"), count("char"), count("short"), count("long"));
    let is_all = signed + unsigned + int + char + short + long == words.len();
    let is_one = signed + unsigned <= 1 && int + char <= 1 && long <= 2;
    if words.is_empty() || !is_all || !is_one || short > 1 {
        return None;
    }
    let base = match (char, short, long) {
        (0, 0, 0) => "int",
        (1, 0, 0) => "char",
        (0, 1, 0) => "short",
        (0, 0, 1) => "long",
        (0, 0, 2) => "long long",
        _ => return None,
    };
    let c = match (unsigned, signed) {
        (1, _) => format!("unsigned {base}"),
        // `signed char` and `char` are different types; for all other types, `signed` is the default.
        (_, 1) if base == "char" => "signed char".to_owned(),
        _ => base.to_owned(),
    };
    let rust = NUMBERS.iter().find(|(of, _)| *of == c)?.1;
    Some((c, rust))
}

/// Returns the type for these words, without `const` and `volatile`, and this number of stars.
///
/// # Errors
/// The fault of the type.
pub(crate) fn of(words: &[&str], stars: usize) -> Result<Type, String> {
    let number = number(words).or_else(|| {
        let [name] = words else { return None };
        NAMES.iter().find(|(of, _)| of == name).map(|(of, rust)| ((*of).to_owned(), *rust))
    });
    let base = number.as_ref().map_or_else(|| words.join(" "), |(c, _)| c.clone());
    let number = number.map(|(_, rust)| rust.to_owned());
    let c = match stars {
        0 => base.clone(),
        stars => format!("{base} {}", "*".repeat(stars)),
    };
    if stars == 0 {
        return match number {
            Some(rust) => Ok(Type { c, rust }),
            None if base == "string" => Ok(Type { c, rust: "&::core::ffi::CStr".into() }),
            None => Err(format!(
                "`{c}` cannot be an argument of a probe: use a pointer to it, or an integer type"
            )),
        };
    }
    let pointers = "*const ".repeat(stars - 1);
    let rust = match (words, number) {
        (["char"], _) if stars == 1 => "&::core::ffi::CStr".to_owned(),
        (["char"], _) => format!("{pointers}*const ::core::ffi::c_char"),
        (["void"], _) => format!("{pointers}*const ::core::ffi::c_void"),
        (_, Some(number)) => format!("{pointers}*const {number}"),
        (["struct", name], None) => format!("{pointers}*const {}", camel_case(name)),
        ([name], None) => format!("{pointers}*const {name}"),
        _ => return Err(format!("`{c}` is not a type that an argument of a probe can have")),
    };
    Ok(Type { c, rust })
}

/// Returns the Rust name of a C struct: `PacketHeader` for `packet_header`.
fn camel_case(name: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.split('_').map(capital).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_rusts() {
        let rust = |c: &str| {
            let words: Vec<_> = c.split_whitespace().filter(|word| *word != "*").collect();
            of(&words, c.matches('*').count()).map(|of| (of.c, of.rust))
        };
        for (c, expected) in [
            ("int", "i32"),
            ("unsigned long long", "u64"),
            ("string", "&::core::ffi::CStr"),
            ("char *", "&::core::ffi::CStr"),
            ("char * *", "*const *const ::core::ffi::c_char"),
            ("void *", "*const ::core::ffi::c_void"),
            ("uint8_t *", "*const u8"),
            ("zoneid_t", "i32"),
            ("struct packet_header *", "*const PacketHeader"),
            ("mblk_t *", "*const mblk_t"),
        ] {
            let (name, found) = rust(c).unwrap();
            assert_eq!((name.replace(" *", "*"), &*found), (c.replace(" *", "*"), expected));
        }
        for (words, d, expected) in [
            ("long long unsigned", "unsigned long long", "u64"),
            ("long unsigned int", "unsigned long", "u64"),
            ("int long signed long", "long long", "i64"),
            ("short int unsigned", "unsigned short", "u16"),
            ("char unsigned", "unsigned char", "u8"),
            ("unsigned", "unsigned int", "u32"),
            ("signed", "int", "i32"),
        ] {
            assert_eq!(rust(words), Ok((d.into(), expected.into())));
        }
        for bad in [
            "long long long",
            "unsigned signed",
            "short long",
            "int int",
            "char short",
            "unsigned size_t",
        ] {
            assert!(rust(bad).is_err(), "{bad}");
        }
        for bad in ["struct proc", "mblk_t", "float", "unsigned float *", "union u *"] {
            assert!(rust(bad).is_err(), "{bad}");
        }
    }
}
