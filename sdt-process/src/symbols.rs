//! What stands at addresses, for consumers that show stacks and addresses.

use std::sync::OnceLock;

use crate::image::{Image, Named};

/// All symbols, in order of address. The file is read when this is first asked for.
fn all() -> &'static [Named] {
    static SYMBOLS: OnceLock<Vec<Named>> = OnceLock::new();
    SYMBOLS.get_or_init(|| Image::here().symbols())
}

/// What an address is in.
pub(crate) fn at(address: u64) -> Option<&'static Named> {
    find(all(), address)
}

/// What has a name in the file; or the only one that is called so in Rust, in whatever module.
pub(crate) fn named(name: &[u8]) -> Option<&'static Named> {
    named_of(all(), std::str::from_utf8(name).ok()?)
}

fn named_of<'a>(symbols: &'a [Named], name: &str) -> Option<&'a Named> {
    if let Some(exact) = symbols.iter().find(|of| &*of.name == name) {
        return Some(exact);
    }
    let is_called = |of: &&Named| {
        // A name in Rust is longer than the last part of it.
        of.name.contains(name)
            && rustc_demangle::try_demangle(&of.name).is_ok_and(|path| {
                let path = format!("{path:#}");
                path.rsplit_once("::").is_some_and(|(_, last)| last == name)
            })
    };
    let mut called = symbols.iter().filter(is_called);
    let first = called.next()?;
    called.all(|other| other.address == first.address).then_some(first)
}

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
    fn names_are_those_of_the_file_or_rusts() {
        // AddressSanitizer puts some bytes behind it.
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
    fn what_is_between_symbols_is_none() {
        let of = |address, size| Named { address, size, name: "s".into() };
        let symbols = [of(16, 4), of(32, 8)];
        let found = |address| find(&symbols, address).map(|of| of.address);
        assert_eq!(
            [15, 16, 19, 20, 31, 39, 40].map(found),
            [None, Some(16), Some(16), None, None, Some(32), None]
        );
    }
}
