//! C types of arguments, and what they are in Rust.

/// The type of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// In C: `struct proc *`.
    pub c: String,
    /// In Rust, where an argument of a declaration stands.
    pub rust: String,
}

/// Types that are one word or several, in any order that C allows, and Rust's.
const NUMBERS: [(&str, &str); 49] = [
    ("_Bool", "bool"),
    ("bool", "bool"),
    ("boolean_t", "i32"),
    ("char", "i8"),
    ("signed char", "i8"),
    ("unsigned char", "u8"),
    ("uchar_t", "u8"),
    ("u_char", "u8"),
    ("short", "i16"),
    ("short int", "i16"),
    ("unsigned short", "u16"),
    ("ushort_t", "u16"),
    ("u_short", "u16"),
    ("int", "i32"),
    ("signed int", "i32"),
    ("signed", "i32"),
    ("unsigned int", "u32"),
    ("unsigned", "u32"),
    ("uint_t", "u32"),
    ("u_int", "u32"),
    ("uint", "u32"),
    ("long", "i64"),
    ("long int", "i64"),
    ("unsigned long", "u64"),
    ("ulong_t", "u64"),
    ("u_long", "u64"),
    ("long long", "i64"),
    ("unsigned long long", "u64"),
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

/// The type that is written as these words, without `const` and `volatile`, and so many stars.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn of(words: &[&str], stars: usize) -> Result<Type, String> {
    let base = words.join(" ");
    let c = match stars {
        0 => base.clone(),
        stars => format!("{base} {}", "*".repeat(stars)),
    };
    let number = NUMBERS.iter().find(|(of, _)| *of == base).map(|(_, rust)| (*rust).to_owned());
    if stars == 0 {
        return match number {
            Some(rust) => Ok(Type { c, rust }),
            None if base == "string" => Ok(Type { c, rust: "&::core::ffi::CStr".into() }),
            None => Err(format!(
                "a probe cannot carry `{c}` here: take a pointer to it, or a number's type"
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
        _ => return Err(format!("`{c}` is no type that a probe can carry")),
    };
    Ok(Type { c, rust })
}

/// The name in Rust of the struct that is described as `struct packet_header`.
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
            ("struct packet_header *", "*const PacketHeader"),
            ("mblk_t *", "*const mblk_t"),
        ] {
            let (name, found) = rust(c).unwrap();
            assert_eq!((name.replace(" *", "*"), &*found), (c.replace(" *", "*"), expected));
        }
        for bad in ["struct proc", "mblk_t", "float", "unsigned float *", "union u *"] {
            assert!(rust(bad).is_err(), "{bad}");
        }
    }
}
