//! Loads by single instructions, of memory that belongs to other functions.
//!
//! AddressSanitizer checks loads by Rust code and reports those of frames and variables of other functions. It does not see assembly.

use std::arch::asm;

/// Loads a word.
///
/// # Safety
/// The word at `address` is mapped and readable, and aligned except on x86_64.
#[inline(always)]
pub(crate) unsafe fn word(address: usize) -> usize {
    let word;
    // SAFETY: the caller guarantees that the word can be read.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, [{}]", out(reg) word, in(reg) address, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("ldr {}, [{}]", out(reg) word, in(reg) address, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        asm!("ld {}, 0({})", out(reg) word, in(reg) address, options(nostack, readonly, preserves_flags));
    }
    word
}

/// Loads a byte.
///
/// # Safety
/// The byte at `address` is mapped and readable.
#[inline(always)]
unsafe fn byte(address: usize) -> u8 {
    let byte: u32;
    // SAFETY: the caller guarantees that the byte can be read.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("movzx {:e}, byte ptr [{}]", out(reg) byte, in(reg) address, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("ldrb {:w}, [{}]", out(reg) byte, in(reg) address, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        asm!("lbu {}, 0({})", out(reg) byte, in(reg) address, options(nostack, readonly, preserves_flags));
    }
    byte as u8
}

/// Fills `into` from an address: by words, and the rest by bytes.
///
/// # Safety
/// All bytes from `address` on are mapped and readable.
pub(crate) unsafe fn copy(address: usize, into: &mut [u8]) {
    const WORD: usize = size_of::<usize>();
    let (words, rest) = into.as_chunks_mut::<WORD>();
    let mut at = address;
    for to in words {
        *to = if cfg!(target_arch = "x86_64") || at.is_multiple_of(WORD) {
            // SAFETY: the word is within the range that the caller guarantees, and aligned unless this is x86_64.
            unsafe { word(at) }.to_ne_bytes()
        } else {
            // SAFETY: the bytes are within the range that the caller guarantees.
            std::array::from_fn(|offset| unsafe { byte(at + offset) })
        };
        at += WORD;
    }
    for to in rest {
        // SAFETY: the byte is within the range that the caller guarantees.
        *to = unsafe { byte(at) };
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_the_same_bytes() {
        let bytes: [u8; 64] = std::array::from_fn(|index| index as u8);
        for start in 0..16 {
            for length in 0..32 {
                let mut copied = vec![0; length];
                // SAFETY: the range is within `bytes`.
                unsafe { copy(bytes.as_ptr().expose_provenance() + start, &mut copied) };
                assert_eq!(copied, bytes[start..][..length]);
            }
        }
    }
}
