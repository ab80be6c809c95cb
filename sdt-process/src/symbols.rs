//! The symbols of this program, for consumers that show stacks and addresses.

use std::sync::OnceLock;

use crate::image::{Image, Named};

/// Returns all symbols in the order of their addresses. The first call reads the program's file.
fn all() -> &'static [Named] {
    static SYMBOLS: OnceLock<Vec<Named>> = OnceLock::new();
    SYMBOLS.get_or_init(|| Image::here().symbols())
}

/// Returns the symbol that contains an address.
pub(crate) fn at(address: u64) -> Option<&'static Named> {
    find(all(), address)
}

/// Returns the symbol with this name in the file, or else the only symbol whose Rust path ends with it.
pub(crate) fn named(name: &[u8]) -> Option<&'static Named> {
    named_of(all(), std::str::from_utf8(name).ok()?)
}

/// Returns the symbol of a name, as [`named`] does.
fn named_of<'a>(symbols: &'a [Named], name: &str) -> Option<&'a Named> {
    if let Some(exact) = symbols.iter().find(|of| &*of.name == name) {
        return Some(exact);
    }
    let has_last_part = |of: &&Named| {
        // Demangling is slow; a mangled name contains each part of its path.
        of.name.contains(name)
            && rustc_demangle::try_demangle(&of.name).is_ok_and(|path| {
                let path = format!("{path:#}");
                path.rsplit_once("::").is_some_and(|(_, last)| last == name)
            })
    };
    let mut matches = symbols.iter().filter(has_last_part);
    let first = matches.next()?;
    matches.all(|other| other.address == first.address).then_some(first)
}

/// Returns the symbol that contains an address, of symbols in the order of their addresses.
fn find(symbols: &[Named], address: u64) -> Option<&Named> {
    let before = symbols.partition_point(|of| of.address <= address);
    let last = symbols.get(..before)?.last()?;
    (address - last.address < last.size).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    static SOMETHING: [u8; 24] = [7; 24];

    #[test]
    fn functions_and_statics_are_found() {
        let here = functions_and_statics_are_found as *const () as u64;
        for (address, name) in [
            (here, "functions_and_statics_are_found"),
            (here + 1, "functions_and_statics_are_found"),
            ((&raw const SOMETHING).addr() as u64 + 23, "SOMETHING"),
        ] {
            assert!(at(address).unwrap().name.contains(name), "{name}");
        }
        assert!(at(0).is_none() && at(u64::MAX).is_none());
    }

    #[test]
    fn names_are_symbols_or_ends_of_rust_paths() {
        // AddressSanitizer adds bytes behind a static.
        assert!((24..=64).contains(&named(b"SOMETHING").unwrap().size));
        assert!(named(b"named_of_nothing").is_none() && named(b"\xff").is_none());
        let of = |address, name: &str| Named { address, size: 4, name: name.into() };
        let symbols =
            [of(16, "_ZN1a4SOMEE"), of(32, "_ZN1b4SOMEE"), of(48, "_ZN1b3ONEE"), of(64, "c")];
        let found = |name| named_of(&symbols, name).map(|of| of.address);
        assert_eq!(
            [found("SOME"), found("ONE"), found("c"), found("b")],
            [None, Some(48), Some(64), None]
        );
        assert_eq!(found("_ZN1b4SOMEE"), Some(32));
    }

    #[test]
    fn an_address_between_symbols_has_none() {
        let of = |address, size| Named { address, size, name: "s".into() };
        let symbols = [of(16, 4), of(32, 8)];
        let found = |address| find(&symbols, address).map(|of| of.address);
        assert_eq!(
            [15, 16, 19, 20, 31, 39, 40].map(found),
            [None, Some(16), Some(16), None, None, Some(32), None]
        );
    }
}
