//! The crate of a Rust function, from its demangled symbol.

/// Returns the first crate that a path names: the crate of the function, or of the type in `<T as Trait>::f`. Returns the crate
/// of the trait if the type has no crate, because it is a parameter or a primitive type.
pub fn first_crate(path: &str) -> Option<&str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = path;
    loop {
        let start = rest.find(is_part)?;
        let (_, from) = rest.split_at_checked(start)?;
        let end = from.find(|c| !is_part(c)).unwrap_or(from.len());
        let (word, behind) = from.split_at_checked(end)?;
        rest = behind;
        // In a path, `::` follows the name of a crate, but not `mut`, `dyn`, or a primitive type.
        if rest.starts_with("::") && !word.starts_with(|c: char| c.is_ascii_digit()) {
            return Some(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_paths() {
        for (path, krate) in [
            ("core::fmt::Write::write_fmt", Some("core")),
            ("<foo::Bar as core::clone::Clone>::clone", Some("foo")),
            ("<&mut T as core::iter::Iterator>::next", Some("core")),
            ("<u32 as shop::basket::Priced>::price", Some("shop")),
            ("main", None),
            ("", None),
            ("1::2", None),
        ] {
            assert_eq!(first_crate(path), krate, "{path}");
        }
    }
}
