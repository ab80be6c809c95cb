//! Tests of `src/check/code/riscv64.rs`.

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
