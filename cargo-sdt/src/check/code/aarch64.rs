//! aarch64: vector registers belong to user processes (`-mgeneral-regs-only` of `sys/conf/kern.mk`), and x18 has the address of
//! this CPU's data (`-ffixed-x18`). The checks follow the encoding tables of the Arm ARM, C4.1.

use super::Breach;
use crate::check::instruction::bits;

const PLATFORM_REGISTER: u32 = 18;

pub(super) fn scan(code: &[u8], report: &mut dyn FnMut(u64, Breach)) {
    for (index, bytes) in code.as_chunks().0.iter().enumerate() {
        let word = u32::from_le_bytes(*bytes);
        let code = || format!(".inst {word:#010x}");
        let offset = 4 * index as u64;
        if uses_vectors(word) {
            report(offset, Breach::Float { code: code(), state: "vector registers" });
        }
        if writes(word, PLATFORM_REGISTER) {
            report(offset, Breach::KernelRegister { code: code(), register: "x18" });
        }
    }
}

/// Returns whether an instruction uses SIMD, floating-point, SVE or SME state.
fn uses_vectors(word: u32) -> bool {
    // SIMD and floating point, and loads and stores of their registers.
    bits(word, 26, 2) == 0b11
        // SVE.
        || bits(word, 25, 4) == 0b0010
        // SME.
        || (bits(word, 25, 4) == 0b0000 && bits(word, 31, 1) == 1)
        // MSR and MRS of FPCR and FPSR.
        || matches!(word & 0xffdf_ffe0, 0xd51b_4400 | 0xd51b_4420)
}

/// Returns whether an instruction writes a general register, which must not be register 31. A field counts only if it is a
/// destination. For instructions that no compiler emits, every occurrence of the register counts.
fn writes(word: u32, register: u32) -> bool {
    let is = |low| bits(word, low, 5) == register;
    let (d, n, t2, s) = (is(0), is(5), is(10), is(16));
    match bits(word, 25, 4) {
        // Data processing. (Conditional compares have flags in this field. These are less than 16, so they never equal x18.)
        0b1000 | 0b1001 | 0b0101 | 0b1101 => d,
        // Of branches and system instructions only MRS and SYSL.
        0b1010 | 0b1011 => d && word & 0xffe0_0000 == 0xd520_0000,
        0b0100 | 0b1100 => match bits(word, 27, 3) {
            0b001 if bits(word, 24, 2) == 0b00 => {
                let (compares, pair, load) =
                    (bits(word, 23, 1), bits(word, 21, 1), bits(word, 22, 1));
                match (compares, pair, load) {
                    // CAS.
                    (1, 1, _) => s,
                    // CASP.
                    (0, 1, _) if bits(word, 31, 1) == 0 => s,
                    // STXR, STXP: the status.
                    (0, _, 0) => s,
                    // STLR.
                    (1, _, 0) => false,
                    (_, pair, _) => d || (pair == 1 && t2),
                }
            }
            // LDR (literal); not PRFM.
            0b011 if bits(word, 24, 2) == 0b00 => d && bits(word, 30, 2) != 0b11,
            // LDAPUR and STLUR.
            0b011 if bits(word, 21, 1) == 0 && bits(word, 10, 2) == 0b00 => d && is_load(word),
            // Memory tags, copies, fills.
            0b011 => d || n || s,
            // Pairs.
            0b101 => (bits(word, 22, 1) == 1 && (d || t2)) || (bits(word, 23, 1) == 1 && n),
            // One register.
            0b111 => match (bits(word, 24, 1), bits(word, 21, 1), bits(word, 10, 2)) {
                (1, _, _) | (0, 0, 0b00 | 0b10) | (0, 1, 0b10) => d && is_load(word),
                (0, 0, _) => n || (d && is_load(word)),
                // Atomic operations.
                (0, _, 0b00) => d,
                // Loads with authentication.
                _ => d || n,
            },
            _ => d || n,
        },
        _ => false,
    }
}

/// Returns whether a load or store of one register is a load: neither a store nor PRFM.
fn is_load(word: u32) -> bool {
    let (size, operation) = (bits(word, 30, 2), bits(word, 22, 2));
    operation != 0b00 && (size, operation) != (0b11, 0b10)
}

#[cfg(test)]
#[path = "../../../tests/unit/check/code/aarch64.rs"]
mod tests;
