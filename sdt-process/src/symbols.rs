//! What stands at addresses, for consumers that show stacks and addresses.

use std::sync::OnceLock;

use crate::image::{Image, Named};

/// What an address is in. The file is read when this is first asked for.
pub(crate) fn at(address: u64) -> Option<&'static Named> {
    static SYMBOLS: OnceLock<Vec<Named>> = OnceLock::new();
    find(SYMBOLS.get_or_init(|| Image::here().symbols()), address)
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
