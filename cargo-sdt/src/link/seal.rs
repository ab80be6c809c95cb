//! The seal of a module: the checksum of its file, behind everything that the file's tables refer to.
//!
//! Most bytes of a module can be changed into others that are as sound by every rule: a call leads to another function, a
//! number is another number. So the link appends a checksum, and the check refuses a file that does not match its own. No
//! kernel reads it, and tools that write another file (strip, objcopy) drop it: a file without one is judged by the rules
//! alone. It finds damage, not malice: whoever changes a module on purpose can seal it again.

use crc::{CRC_64_XZ, Crc, Table};

/// What the seal starts with. The checksum of all bytes in front of it follows, in little-endian order.
const MARK: [u8; 8] = *b"\nsdtseal";
/// Bytes of a seal.
pub const SEAL: usize = MARK.len() + 8;
const CRC: Crc<u64, Table<1>> = Crc::<u64, Table<1>>::new(&CRC_64_XZ);

/// Appends the seal to a linked module.
pub fn seal(image: &mut Vec<u8>) {
    let sum = CRC.checksum(image).to_le_bytes();
    image.extend([MARK, sum].concat());
}

/// Whether a file has a seal that does not match its contents.
pub(crate) fn is_broken(file: &[u8]) -> bool {
    file.split_last_chunk::<8>().is_some_and(|(rest, sum)| {
        rest.strip_suffix(&MARK).is_some_and(|sealed| CRC.checksum(sealed).to_le_bytes() != *sum)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_of_a_sealed_file_breaks_the_seal_or_removes_it() {
        let mut file = b"a module".to_vec();
        assert!(!is_broken(&file), "not sealed");
        let contents = file.len();
        seal(&mut file);
        assert!(!is_broken(&file), "whole");
        for at in 0..8 * file.len() {
            let mut changed = file.clone();
            changed[at / 8] ^= 1 << (at % 8);
            let mark = contents..contents + MARK.len();
            assert_eq!(is_broken(&changed), !mark.contains(&(at / 8)), "bit {at}");
        }
        assert!(!is_broken(&file[..contents]), "removed");
        assert!(!is_broken(b""));
    }
}
