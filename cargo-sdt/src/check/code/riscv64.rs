//! riscv64: floating-point and vector registers are the user's (`-mabi=lp64` of `sys/conf/kern.mk`), and tp
//! has the address of this CPU's data (`sys/riscv/include/pcpu.h`). By the tables of opcodes of the RISC-V
//! unprivileged specification.

use super::Breach;
use crate::check::flow::bits;

/// x4.
const THREAD_POINTER: u32 = 4;

pub(super) fn scan(code: &[u8], report: &mut dyn FnMut(u64, Breach)) {
    let mut offset = 0;
    while let Some((word, length)) = instruction(code.get(offset..).unwrap_or_default()) {
        let code = || match length {
            2 => format!(".2byte {word:#06x}"),
            _ => format!(".4byte {word:#010x}"),
        };
        if uses_float(word) {
            let state = "floating-point or vector registers";
            report(offset as u64, Breach::Float { code: code(), state });
        }
        if writes(word, THREAD_POINTER) {
            report(offset as u64, Breach::KernelRegister { code: code(), register: "tp" });
        }
        offset += length;
    }
}

/// The first instruction, up to four bytes of it, and how long it is.
fn instruction(code: &[u8]) -> Option<(u32, usize)> {
    let half = u16::from_le_bytes(*code.first_chunk()?);
    let length = match half {
        half if half & 0b11 != 0b11 => return Some((half.into(), 2)),
        half if half & 0x1f != 0x1f => 4,
        half if half & 0x3f == 0x1f => 6,
        _ => 8,
    };
    Some((u32::from_le_bytes(*code.first_chunk()?), length))
}

fn is_compressed(word: u32) -> bool {
    word & 0b11 != 0b11
}

/// Whether an instruction uses state of the F, D or V extensions.
fn uses_float(word: u32) -> bool {
    if is_compressed(word) {
        // C.FLD and C.FSD, C.FLDSP and C.FSDSP.
        return matches!((bits(word, 0, 2), bits(word, 13, 3)), (0b00 | 0b10, 0b001 | 0b101));
    }
    match bits(word, 0, 7) {
        // LOAD-FP, STORE-FP, MADD, MSUB, NMSUB, NMADD, OP-FP, OP-V.
        0x07 | 0x27 | 0x43 | 0x47 | 0x4b | 0x4f | 0x53 | 0x57 => true,
        // CSR instructions of fflags, frm, fcsr.
        0x73 => bits(word, 12, 3) != 0 && matches!(bits(word, 20, 12), 1..=3),
        _ => false,
    }
}

/// Whether an instruction writes a general register that is not among the eight of the short encodings.
fn writes(word: u32, register: u32) -> bool {
    let destination = bits(word, 7, 5) == register;
    if is_compressed(word) {
        return destination
            && match (bits(word, 0, 2), bits(word, 13, 3)) {
                // C.ADDI, C.ADDIW, C.LI, C.LUI; C.SLLI, C.LWSP, C.LDSP.
                (0b01, 0b000..=0b011) | (0b10, 0b000 | 0b010 | 0b011) => true,
                // C.MV and C.ADD; without a second operand they are jumps.
                (0b10, 0b100) => bits(word, 2, 5) != 0,
                _ => false,
            };
    }
    // All but STORE, STORE-FP and BRANCH.
    destination && !matches!(bits(word, 0, 7), 0x23 | 0x27 | 0x63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float_instructions() {
        for (word, text) in WORDS_FLOAT {
            assert!(uses_float(word), "{text}");
        }
        for (word, text) in WORDS_GENERAL.into_iter().chain(WORDS_WRITE) {
            assert!(!uses_float(word), "{text}");
        }
    }

    #[test]
    fn the_thread_pointer() {
        for (word, text) in WORDS_WRITE {
            assert!(writes(word, 4), "{text}");
        }
        for (word, text) in WORDS_GENERAL {
            assert!(!writes(word, 4), "{text}");
        }
    }

    #[test]
    fn instructions_of_all_lengths() {
        let lengths = |bytes: &[u8]| instruction(bytes).map(|(_, length)| length);
        assert_eq!(lengths(&[0x01, 0x00]), Some(2));
        assert_eq!(lengths(&[0x13, 0, 0, 0]), Some(4));
        assert_eq!(lengths(&[0x1f, 0, 0, 0, 0, 0]), Some(6));
        assert_eq!(lengths(&[0x3f, 0, 0, 0, 0, 0, 0, 0]), Some(8));
        assert_eq!(lengths(&[0x13, 0]), None);
        assert_eq!(lengths(&[0x13]), None);
    }

    const WORDS_FLOAT: [(u32, &str); 16] = [
        (0x02c5_f553, "fadd.d fa0, fa1, fa2"),
        (0x2502, "fld fa0, 0(sp)"),
        (0x2508, "fld fa0, 8(a0)"),
        (0xa508, "fsd fa0, 8(a0)"),
        (0xa822, "fsd fs0, 16(sp)"),
        (0x0045_2507, "flw fa0, 4(a0)"),
        (0x00a5_2227, "fsw fa0, 4(a0)"),
        (0x6ac5_f543, "fmadd.d fa0, fa1, fa2, fa3"),
        (0x68c5_f54b, "fnmsub.s fa0, fa1, fa2, fa3"),
        (0xe205_0553, "fmv.x.d a0, fa0"),
        (0x0030_2573, "csrr a0, fcsr"),
        (0x0015_1073, "csrw fflags, a0"),
        (0x0010_2573, "frflags a0"),
        (0x0c05_f557, "vsetvli a0, a1, e8, m1, ta, ma"),
        (0x0211_0057, "vadd.vv v0, v1, v2"),
        (0x0205_0007, "vle8.v v0, (a0)"),
    ];

    const WORDS_WRITE: [(u32, &str); 19] = [
        (0x822a, "mv tp, a0"),
        (0x0005_3203, "ld tp, 0(a0)"),
        (0x0085_0213, "addi tp, a0, 8"),
        (0x6205, "lui tp, 1"),
        (0x0217, "auipc tp, 0"),
        (0x6222, "ld tp, 8(sp)"),
        (0x4222, "lw tp, 8(sp)"),
        (0x4205, "li tp, 1"),
        (0x922a, "add tp, tp, a0"),
        (0x020a, "slli tp, tp, 2"),
        (0x2205, "addiw tp, tp, 1"),
        (0x0080_026f, "jal tp, 8"),
        (0x1400_2273, "csrr tp, sscratch"),
        (0x00a5_b22f, "amoadd.d tp, a0, (a1)"),
        (0x1005_322f, "lr.d tp, (a0)"),
        (0x18a5_b22f, "sc.d tp, a0, (a1)"),
        (0x02b5_0233, "mul tp, a0, a1"),
        (0x00b5_3233, "sltu tp, a0, a1"),
        (0x1402_1273, "csrrw tp, sscratch, tp"),
    ];

    const WORDS_GENERAL: [(u32, &str); 24] = [
        (0x0001, "nop"),
        (0x9002, "ebreak"),
        (0x8082, "ret"),
        (0x8512, "mv a0, tp"),
        (0x0082_3503, "ld a0, 8(tp)"),
        (0x0045_3423, "sd tp, 8(a0)"),
        (0xe412, "sd tp, 8(sp)"),
        (0x00a2_0263, "beq tp, a0, 4"),
        (0x00a2_2223, "sw a0, 4(tp)"),
        (0x8202, "jr tp"),
        (0x9202, "jalr tp"),
        (0x1402_1073, "csrw sscratch, tp"),
        (0x100f, "fence.i"),
        (0x0073, "ecall"),
        (0x1200_0073, "sfence.vma"),
        (0x1050_0073, "wfi"),
        (0x0330_000f, "fence rw, rw"),
        (0x0028, "c.addi4spn a0, sp, 8"),
        (0x4188, "c.lw a0, 0(a1)"),
        (0x8d0d, "c.sub a0, a1"),
        (0xa011, "c.j 4"),
        (0x00a5_8223, "sb a0, 4(a1)"),
        (0x00b5_6463, "bltu a0, a1, 8"),
        (0xc000_2573, "csrr a0, cycle"),
    ];
}
