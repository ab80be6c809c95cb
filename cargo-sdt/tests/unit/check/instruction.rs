//! Tests of `src/check/instruction.rs`.

use super::*;

#[test]
fn instructions() {
    use Arch::{Aarch64, Riscv64, X86_64};
    for (arch, word, len, straight, text) in [
        (X86_64, 0x90_u64, 1, true, "nop"),
        (X86_64, 0x0044_1f0f, 5, true, "nopl"),
        (X86_64, 0x00e5_8948, 3, true, "mov rbp, rsp"),
        (X86_64, 0xe8, 5, false, "call"),
        (X86_64, 0x1074, 2, false, "je"),
        (X86_64, 0xc3, 1, false, "ret"),
        (X86_64, 0x0b0f, 2, false, "ud2"),
        (Aarch64, 0xd503_201f, 4, true, "nop"),
        (Aarch64, 0xd503_245f, 4, true, "bti c"),
        (Aarch64, 0xd503_233f, 4, true, "paciasp"),
        (Aarch64, 0xd538_d080, 4, true, "mrs x0, tpidr_el1"),
        (Aarch64, 0xaa00_03f2, 4, true, "mov x18, x0"),
        (Aarch64, 0x9400_0004, 4, false, "bl"),
        (Aarch64, 0xd63f_0100, 4, false, "blr x8"),
        (Aarch64, 0x1400_0002, 4, false, "b"),
        (Aarch64, 0x5400_0041, 4, false, "b.ne"),
        (Aarch64, 0xb400_0052, 4, false, "cbz"),
        (Aarch64, 0xb70f_ffe0, 4, false, "tbnz"),
        (Aarch64, 0xd65f_03c0, 4, false, "ret"),
        (Aarch64, 0xd420_0020, 4, false, "brk"),
        (Riscv64, 0x13, 4, true, "nop"),
        (Riscv64, 0x0001, 2, true, "nop"),
        (Riscv64, 0x852e, 2, true, "c.mv"),
        (Riscv64, 0x0080_00ef, 4, false, "jal"),
        (Riscv64, 0x0005_0463, 4, false, "beq"),
        (Riscv64, 0x0000_8067, 4, false, "jalr"),
        (Riscv64, 0x0010_0073, 4, false, "ebreak"),
        (Riscv64, 0xa021, 2, false, "c.j"),
        (Riscv64, 0xc501, 2, false, "c.beqz"),
        (Riscv64, 0x8082, 2, false, "c.jr"),
        (Riscv64, 0x9002, 2, false, "c.ebreak"),
        (Riscv64, 0x9502, 2, false, "c.jalr"),
    ] {
        let expected = Instruction { len, straight, nop: text.starts_with("nop") };
        assert_eq!(decode(arch, &word.to_le_bytes()), Some(expected), "{text}");
    }
    for (arch, code) in [(X86_64, &[0x06][..]), (Aarch64, &[1, 0, 0, 0]), (Riscv64, &[0x13])] {
        assert_eq!(decode(arch, code), None);
    }
    assert_eq!(decode(Riscv64, &[0, 0]), None);
}
