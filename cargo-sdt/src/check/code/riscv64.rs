//! riscv64: floating-point and vector registers belong to user processes (`-mabi=lp64` of `sys/conf/kern.mk`), and tp has the
//! address of this CPU's data (`sys/riscv/include/pcpu.h`). The checks follow the tables of opcodes of the RISC-V unprivileged
//! specification.

use super::Breach;
use crate::check::instruction::bits;

/// The register tp, which is x4.
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

/// Returns the first instruction, at most four bytes of it, and its length.
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

/// Returns whether an instruction uses state of the F, D or V extensions.
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

/// Returns whether an instruction writes a general register. The register must not be one of the eight that short encodings can
/// name.
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
#[path = "../../../tests/unit/check/code/riscv64.rs"]
mod tests;
