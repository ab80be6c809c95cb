//! Tests of `src/check/fbt.rs`. Those of whole probes, with the returns, are in `tests/conformance`.

use super::*;

#[test]
fn entries_that_are_not_where_the_function_begins() {
    let x86_64 = |code: &[u8]| misplaced(Arch::X86_64, code);
    // push rbp; ret, and without a frame; then a test and a branch in front; a site.
    assert_eq!((x86_64(&[0x55, 0xc3]), x86_64(&[0xc3])), (None, None));
    assert_eq!(x86_64(&[0x85, 0xff, 0x74, 2, 0x55, 0xc3, 0xc3]), Some(4));
    assert_eq!(x86_64(&[0x0f, 0x1f, 0x44, 0, 0, 0xc3, 0x55]), Some(6));
    let aarch64 = |words: &[u32]| {
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        misplaced(Arch::Aarch64, &code)
    };
    // stp; bti c and stp; cbz and stp.
    assert_eq!(aarch64(&[0xa9bf_7bfd]), None);
    assert_eq!(aarch64(&[0xd503_245f, 0xa9bf_7bfd]), None);
    assert_eq!(aarch64(&[0xb400_0040, 0xa9bf_7bfd]), Some(4));
    // addi sp, sp, -16; sd ra, 8(sp), and a branch in front.
    assert_eq!(misplaced(Arch::Riscv64, &[0x41, 0x11, 0x06, 0xe4]), None);
    assert_eq!(misplaced(Arch::Riscv64, &[0x01, 0xc5, 0x41, 0x11, 0x06, 0xe4]), Some(4));
}
