//! The emulators of aarch64 and riscv64: encodings from an assembler, results by the manuals.

use std::collections::BTreeMap;

use dtrace_abi::function::{Stack, aarch64, riscv64};

/// A memory that records the stored values. Its signature of a pointer is a visible pattern.
#[derive(Debug, Default, PartialEq, Eq)]
struct Memory(BTreeMap<u64, u64>);

impl Stack for Memory {
    fn load(&mut self, address: u64) -> u64 {
        self.0.get(&address).copied().unwrap_or(0)
    }

    fn store(&mut self, address: u64, value: u64) {
        self.0.insert(address, value);
    }
}

impl aarch64::Machine for Memory {
    fn sign(&mut self, pointer: u64, modifier: u64, key_b: bool) -> u64 {
        pointer ^ modifier << 48 ^ u64::from(key_b) << 63
    }
}

const PC: u64 = 0xffff_0000_0012_3458;
const SP: u64 = 0xffff_0000_0010_0100;

/// `x0` is 0x1000, `x1` is 0x1001, and so on.
fn arm() -> aarch64::Registers {
    let x = std::array::from_fn(|at| 0x1000 + at as u64);
    aarch64::Registers { x, sp: SP, pc: PC, pstate: 0x3c5 | 3 << 10 }
}

#[test]
fn aarch64_as_the_manual_says() {
    type Change = fn(&mut aarch64::Registers);
    const N: u64 = 1 << 31;
    const Z: u64 = 1 << 30;
    const C: u64 = 1 << 29;
    let cases: [(u32, &str, Change); 36] = [
        (0xd503_201f, "nop", |_| {}),
        (0xd503_245f, "bti c", |_| {}),
        (0xa9be_7bfd, "stp x29, x30, [sp, #-32]!", |of| of.sp -= 32),
        (0xa9a0_0fff, "stp xzr, x3, [sp, #-512]!", |of| of.sp -= 512),
        (0xf81f_0ffe, "str x30, [sp, #-16]!", |of| of.sp -= 16),
        (0xd101_03ff, "sub sp, sp, #64", |of| of.sp -= 64),
        (0xd140_07ff, "sub sp, sp, #1, lsl #12", |of| of.sp -= 0x1000),
        (0x9100_43ff, "add sp, sp, #16", |of| of.sp += 16),
        (0x9100_03fd, "mov x29, sp", |of| of.x[29] = SP),
        (0x9100_0420, "add x0, x1, #1", |of| of.x[0] = 0x1002),
        (0x5100_0820, "sub w0, w1, #2", |of| of.x[0] = 0x0fff),
        (0x5140_1020, "sub w0, w1, #4, lsl #12", |of| of.x[0] = 0xffff_d001),
        (0xaa01_03e0, "mov x0, x1", |of| of.x[0] = 0x1001),
        (0x2a1f_03e2, "mov w2, wzr", |of| of.x[2] = 0),
        (0xd280_0540, "mov x0, #42", |of| of.x[0] = 42),
        (0x12a0_0000, "mov w0, #-1 (movn, lsl 16)", |of| of.x[0] = 0xffff_ffff),
        (0x9280_0000, "mov x0, #-1", |of| of.x[0] = u64::MAX),
        (0xd2e0_0020, "mov x0, #1 << 48", |of| of.x[0] = 1 << 48),
        (0x5282_4680, "mov w0, #0x1234", |of| of.x[0] = 0x1234),
        (0x1000_0040, "adr x0, #8", |of| of.x[0] = PC + 8),
        (0xb000_0000, "adrp x0, #4096", |of| of.x[0] = (PC & !0xfff) + 0x1000),
        (0x90ff_ffe0, "adrp x0, #-16384", |of| of.x[0] = (PC & !0xfff) - 0x4000),
        (0xf140_043f, "cmp x1, #1, lsl #12", |of| of.pstate |= C),
        (0xf140_041f, "cmp x0, #1, lsl #12", |of| of.pstate |= Z | C),
        (0x7144_001f, "cmp w0, #0x100, lsl #12", |of| of.pstate |= N),
        (0xd503_233f, "paciasp", |of| of.x[30] ^= SP << 48),
        (0xd503_237f, "pacibsp", |of| of.x[30] ^= SP << 48 ^ 1 << 63),
        (0xd65f_03c0, "ret", |of| of.pc = 0x101e),
        (0xd65f_0020, "ret x1", |of| of.pc = 0x1001),
        (0xd61f_0200, "br x16", |of| of.pc = 0x1010),
        (0x1400_0002, "b #8", |of| of.pc = PC + 8),
        (0x17ff_ffff, "b #-4", |of| of.pc = PC - 4),
        (0xb400_0040, "cbz x0, #8", |_| {}),
        (0x3500_0040, "cbnz w0, #8", |of| of.pc = PC + 8),
        (0x3700_0041, "tbnz w1, #0, #8", |of| of.pc = PC + 8),
        (0x3600_0041, "tbz w1, #0, #8", |_| {}),
    ];
    for (word, text, change) in cases {
        let instruction = aarch64::decode(word).unwrap_or_else(|| panic!("{text}"));
        let (mut registers, mut memory) = (arm(), Memory::default());
        instruction.emulate(&mut registers, &mut memory);
        let mut expected = arm();
        expected.pstate &= !(3 << 10);
        change(&mut expected);
        if expected.pc == PC {
            expected.pc += 4;
        }
        assert_eq!(registers, expected, "{text}");
        let stored: Vec<_> = memory.0.into_iter().collect();
        let expected: &[(u64, u64)] = match word {
            0xa9be_7bfd => &[(SP - 32, 0x101d), (SP - 24, 0x101e)],
            0xa9a0_0fff => &[(SP - 512, 0), (SP - 504, 0x1003)],
            0xf81f_0ffe => &[(SP - 16, 0x101e)],
            _ => &[],
        };
        assert_eq!(stored, expected, "{text}");
        assert_eq!(
            instruction.below_stack(),
            if stored.is_empty() { 0 } else { SP - registers.sp }
        );
    }
}

/// `x1` is 0x1001, and so on; `x10` is negative.
fn riscv() -> riscv64::Registers {
    let mut x = std::array::from_fn(|at| if at == 0 { 0 } else { 0x1000 + at as u64 });
    x[10] = -2_i64 as u64;
    riscv64::Registers { x, pc: PC }
}

#[test]
fn riscv64_as_the_manual_says() {
    type Change = fn(&mut riscv64::Registers);
    let cases: [(u32, &str, Change); 34] = [
        (0x0000_0013, "nop", |_| {}),
        (0xfe01_0113, "addi sp, sp, -32", |of| of.x[2] = 0x1002 - 32),
        (0x0000_1101, "c.addi sp, -32", |of| of.x[2] = 0x1002 - 32),
        (0x0000_7139, "c.addi16sp sp, -64", |of| of.x[2] = 0x1002 - 64),
        (0x0000_1800, "c.addi4spn s0, sp, 48", |of| of.x[8] = 0x1002 + 48),
        (0x0000_4501, "c.li a0, 0", |of| of.x[10] = 0),
        (0x0000_557d, "c.li a0, -1", |of| of.x[10] = u64::MAX),
        (0x0000_852e, "c.mv a0, a1", |of| of.x[10] = 0x100b),
        (0x0000_0505, "c.addi a0, 1", |of| of.x[10] = u64::MAX),
        (0x0000_2505, "c.addiw a0, 1", |of| of.x[10] = u64::MAX),
        (0x0015_859b, "addiw a1, a1, 1", |of| of.x[11] = 0x100c),
        (0x0ff5_7513, "andi a0, a0, 255", |of| of.x[10] = 0xfe),
        (0x0000_8979, "c.andi a0, 30", |of| of.x[10] = 30),
        (0x0205_1513, "slli a0, a0, 32", |of| of.x[10] = 0xffff_fffe_0000_0000),
        (0x0205_5513, "srli a0, a0, 32", |of| of.x[10] = 0xffff_ffff),
        (0x0000_1502, "c.slli a0, 32", |of| of.x[10] = 0xffff_fffe_0000_0000),
        (0x0000_9101, "c.srli a0, 32", |of| of.x[10] = 0xffff_ffff),
        (0x8000_0537, "lui a0, 0x80000", |of| of.x[10] = 0xffff_ffff_8000_0000),
        (0x0000_6505, "c.lui a0, 1", |of| of.x[10] = 0x1000),
        (0x0000_1517, "auipc a0, 1", |of| of.x[10] = PC + 0x1000),
        (0x0000_0463, "beqz zero, 8", |of| of.pc = PC + 8),
        (0x00b5_4463, "blt a0, a1, 8", |of| of.pc = PC + 8),
        (0x00b5_6463, "bltu a0, a1, 8", |_| {}),
        (0x00b5_5463, "bge a0, a1, 8", |_| {}),
        (0x00b5_7463, "bgeu a0, a1, 8", |of| of.pc = PC + 8),
        (0x00b5_1463, "bne a0, a1, 8", |of| of.pc = PC + 8),
        (0x0000_c501, "c.beqz a0, 8", |_| {}),
        (0x0000_e501, "c.bnez a0, 8", |of| of.pc = PC + 8),
        (0x0080_006f, "j 8", |of| of.pc = PC + 8),
        (0x0000_a021, "c.j 8", |of| of.pc = PC + 8),
        (0x0000_8082, "ret", |of| of.pc = 0x1000),
        (0x0000_8067, "ret, of 4 bytes", |of| of.pc = 0x1000),
        (0x0000_80e7, "jalr ra, 0(ra)", |of| (of.pc, of.x[1]) = (0x1000, PC + 4)),
        (0x0103_0067, "jr 16(t1)", |of| of.pc = 0x1016),
    ];
    for (word, text, change) in cases {
        let decoded = riscv64::decode(&word.to_le_bytes()).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(decoded.length == 2, word & 3 != 3, "{text}");
        let mut registers = riscv();
        decoded.emulate(&mut registers);
        let mut expected = riscv();
        change(&mut expected);
        if expected.pc == PC {
            expected.pc += u64::from(decoded.length);
        }
        assert_eq!(registers, expected, "{text}");
    }
}
