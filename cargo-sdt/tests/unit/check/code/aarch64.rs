//! Tests of `src/check/code/aarch64.rs`.

use super::*;

#[test]
fn vector_instructions() {
    for (word, text) in WORDS_VECTOR {
        assert!(uses_vectors(word), "{text}");
    }
    for (word, text) in WORDS_GENERAL.into_iter().chain(WORDS_WRITE) {
        assert!(!uses_vectors(word), "{text}");
    }
}

#[test]
fn the_platform_register() {
    for (word, text) in WORDS_WRITE {
        assert!(writes(word, 18), "{text}");
        assert!(!writes(word, 30), "{text}");
    }
    for (word, text) in WORDS_GENERAL {
        assert!(!writes(word, 18), "{text}");
    }
}

const WORDS_VECTOR: [(u32, &str); 16] = [
    (0x1e27_0000, "fmov s0, w0"),
    (0x3dc0_0000, "ldr q0, [x0]"),
    (0x6d01_27e8, "stp d8, d9, [sp, #16]"),
    (0x4ea2_8420, "add v0.4s, v1.4s, v2.4s"),
    (0x1e62_2820, "fadd d0, d1, d2"),
    (0x4c40_7000, "ld1 {v0.16b}, [x0]"),
    (0xbc40_4420, "ldr s0, [x1], #4"),
    (0x1e60_2008, "fcmp d0, #0.0"),
    (0x6f00_e400, "movi v0.2d, #0"),
    (0x2518_e3e0, "ptrue p0.b"),
    (0xa400_a000, "ld1b {z0.b}, p0/z, [x0]"),
    (0x8080_0000, "fmopa za0.s, p0/m, p0/m, z0.s, z0.s"),
    (0xd53b_4400, "mrs x0, fpcr"),
    (0xd51b_4420, "msr fpsr, x0"),
    (0x5e02_4020, "sha256h q0, q1, v2.4s"),
    (0x5c00_0040, "ldr d0, #8"),
];

const WORDS_WRITE: [(u32, &str); 38] = [
    (0xaa00_03f2, "mov x18, x0"),
    (0x5280_0032, "mov w18, #1"),
    (0x9100_0652, "add x18, x18, #1"),
    (0x9000_0012, "adrp x18, #0"),
    (0xf940_0012, "ldr x18, [x0]"),
    (0xb940_0412, "ldr w18, [x0, #4]"),
    (0xb980_0012, "ldrsw x18, [x0]"),
    (0x3861_6812, "ldrb w18, [x0, x1]"),
    (0xa940_4be0, "ldp x0, x18, [sp]"),
    (0xa8c1_07f2, "ldp x18, x1, [sp], #16"),
    (0xf840_8e40, "ldr x0, [x18, #8]!"),
    (0xf840_8640, "ldr x0, [x18], #8"),
    (0xf800_8640, "str x0, [x18], #8"),
    (0xa9bf_0640, "stp x0, x1, [x18, #-16]!"),
    (0xd538_d092, "mrs x18, tpidr_el1"),
    (0xc85f_7c12, "ldxr x18, [x0]"),
    (0xc87f_4820, "ldxp x0, x18, [x1]"),
    (0xc812_7c20, "stxr w18, x0, [x1]"),
    (0xc832_8440, "stlxp w18, x0, x1, [x2]"),
    (0xc8df_fc12, "ldar x18, [x0]"),
    (0xc8b2_7c20, "cas x18, x0, [x1]"),
    (0x4832_7c40, "casp x18, x19, x0, x1, [x2]"),
    (0xf8e0_8032, "swpal x0, x18, [x1]"),
    (0xf820_0032, "ldadd x0, x18, [x1]"),
    (0x5800_0052, "ldr x18, #8"),
    (0xd940_0012, "ldapur x18, [x0]"),
    (0x9a81_0012, "csel x18, x0, x1, eq"),
    (0x9b01_0812, "madd x18, x0, x1, x2"),
    (0xd341_0812, "ubfx x18, x0, #1, #2"),
    (0x9240_0012, "and x18, x0, #1"),
    (0xf2a0_0032, "movk x18, #1, lsl #16"),
    (0xdac0_1012, "clz x18, x0"),
    (0x9a01_0012, "adc x18, x0, x1"),
    (0xf820_0412, "ldraa x18, [x0]"),
    (0xf840_0812, "ldtr x18, [x0]"),
    (0x9adf_1012, "irg x18, x0"),
    (0x7840_1012, "ldurh w18, [x0, #1]"),
    (0xd528_7012, "sysl x18, #0, c7, c0, #0"),
];

const WORDS_GENERAL: [(u32, &str); 40] = [
    (0xd503_201f, "nop"),
    (0xd420_81a0, "brk #0x40d"),
    (0x1400_0002, "b #8"),
    (0x9400_0004, "bl #16"),
    (0xd65f_03c0, "ret"),
    (0xd63f_0240, "blr x18"),
    (0xaa12_03e0, "mov x0, x18"),
    (0xf940_0240, "ldr x0, [x18]"),
    (0xf940_0640, "ldr x0, [x18, #8]"),
    (0xf900_0012, "str x18, [x0]"),
    (0xa901_03f2, "stp x18, x0, [sp, #16]"),
    (0xf81f_0ff2, "str x18, [sp, #-16]!"),
    (0xa9bf_4be0, "stp x0, x18, [sp, #-16]!"),
    (0xf100_025f, "cmp x18, #0"),
    (0xeb12_001f, "cmp x0, x18"),
    (0xfa42_0a40, "ccmp x18, #2, #0, eq"),
    (0xb400_0052, "cbz x18, #8"),
    (0x3608_0052, "tbz x18, #1, #8"),
    (0xd518_d092, "msr tpidr_el1, x18"),
    (0xc89f_fc12, "stlr x18, [x0]"),
    (0xc800_7c32, "stxr w0, x18, [x1]"),
    (0xc820_8452, "stlxp w0, x18, x1, [x2]"),
    (0xc8a0_7c32, "cas x0, x18, [x1]"),
    (0xf8f2_8020, "swpal x18, x0, [x1]"),
    (0xf980_0240, "prfm pldl1keep, [x18]"),
    (0xd800_0040, "prfm pldl1keep, #8"),
    (0xd900_0012, "stlur x18, [x0]"),
    (0x3821_6812, "strb w18, [x0, x1]"),
    (0xa940_0640, "ldp x0, x1, [x18]"),
    (0xd400_0001, "svc #0"),
    (0xd503_3fdf, "isb"),
    (0xd503_3b9f, "dsb ish"),
    (0xd538_d080, "mrs x0, tpidr_el1"),
    (0xd503_225f, "hint #18"),
    (0xd503_42df, "msr daifset, #2"),
    (0xd50b_7b32, "dc cvau, x18"),
    (0xf800_0812, "sttr x18, [x0]"),
    (0xba00_8642, "rmif x18, #1, #2"),
    (0xf240_025f, "tst x18, #1"),
    (0x0000, "udf #0"),
];
