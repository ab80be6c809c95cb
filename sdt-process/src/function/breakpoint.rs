//! Tells breakpoints from other instructions, also those that this project does not store: a program may have breakpoints of its own,
//! which no site explains.

use std::ptr;

/// Returns whether there is a breakpoint at an address. Async-signal-safe.
///
/// # Safety
/// The address is that of an instruction in mapped text.
pub(super) unsafe fn is_at(address: usize) -> bool {
    // SAFETY: `is` reads no further than the instruction.
    is(|offset| unsafe { ptr::with_exposed_provenance::<u8>(address + offset).read_volatile() })
}

/// Returns whether an instruction is a breakpoint; `byte` reads one of its bytes.
fn is(byte: impl Fn(usize) -> u8) -> bool {
    if cfg!(target_arch = "x86_64") {
        // `int3`
        byte(0) == 0xcc
    } else if cfg!(target_arch = "aarch64") {
        // `brk`, with any constant
        let word = u32::from_le_bytes([0, 1, 2, 3].map(byte));
        word & 0xffe0_001f == 0xd420_0000
    } else {
        // `c.ebreak`, `ebreak`
        let first = [0, 1].map(&byte);
        first == [0x02, 0x90] || first == [0x73, 0x00] && [2, 3].map(&byte) == [0x10, 0x00]
    }
}

#[cfg(test)]
mod tests {
    use sdt_core::site::ENCODING;

    use super::*;

    #[test]
    fn breakpoints_are_recognised() {
        let is_breakpoint = |code: &[u8]| is(|offset| code[offset]);
        assert!(is_breakpoint(ENCODING.breakpoint.as_bytes()));
        assert!(!is_breakpoint(ENCODING.nop.as_bytes()));
        #[cfg(target_arch = "aarch64")]
        assert!(is_breakpoint(&0xd420_0020_u32.to_le_bytes()), "brk #1");
        #[cfg(target_arch = "riscv64")]
        for (code, expected) in [
            (&[0x02, 0x90][..], true),
            (&[0x73, 0x00, 0x10, 0x00], true),
            (&[0x73, 0x00, 0x00, 0x00], false),
        ] {
            assert_eq!(is_breakpoint(code), expected, "{code:02x?}");
        }
    }
}
