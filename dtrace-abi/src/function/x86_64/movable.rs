//! Instructions that have the same effect at another address: Intel SDM volume 2.

/// An instruction that has the same effect at another address, if the displacement that is relative to its end is adjusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Movable {
    /// The length in bytes.
    pub length: u8,
    /// The offset of the 32-bit displacement that is relative to the end of the instruction, if it has one.
    pub relative: Option<u8>,
}

/// The operands behind an opcode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// None.
    None,
    /// A ModRM byte, and this many bytes of a constant.
    ModRm(u8),
    /// A ModRM byte and a constant of 16 or 32 bits.
    ModRmLong,
    /// This many bytes of a constant.
    Constant(u8),
    /// A constant of 16 or 32 bits.
    Long,
    /// A constant of 16, 32 or 64 bits.
    Quad,
}

/// Returns the instruction at the beginning of these bytes, if it has the same effect at another address.
///
/// The list has the instructions that compilers put at the boundaries of functions. None of them jumps, waits, or depends on the
/// privilege level. Their operands in memory are on the stack, relative to the instruction, or thread-local, so that they raise no
/// exception in a sound program: a handler of exceptions would see another address.
///
/// Stores to thread-local memory are not in the list. Such a store begins a restartable sequence (rseq(2)): until its end, the kernel compares
/// the address of a thread that it interrupts with those of the sequence, and a copy of its instructions has other addresses.
pub fn movable(code: &[u8]) -> Option<Movable> {
    let (mut at, mut is_short, mut is_thread_local) = (0, false, false);
    loop {
        match code.get(at)? {
            0x66 => is_short = true,
            0x64 => is_thread_local = true,
            // `cs`, in padding. It has no effect.
            0x2e => {}
            // Operand size of SSE, and part of `endbr64`. Other instructions ignore these prefixes, or repeat.
            0xf2 | 0xf3 if matches!(code.get(at + 1..)?, [0x0f, ..] | [0x40..=0x4f, 0x0f, ..]) => {}
            _ => break,
        }
        at += 1;
    }
    let rex = code.get(at).copied().filter(|byte| byte & 0xf0 == 0x40);
    at += usize::from(rex.is_some());
    let is_quad = rex.is_some_and(|rex| rex & 8 != 0);
    let long = if is_short && !is_quad { 2 } else { 4 };
    let opcode = *code.get(at)?;
    at += 1;
    let operands = if opcode == 0x0f {
        let second = *code.get(at)?;
        at += 1;
        two_bytes(second)?
    } else {
        one_byte(opcode)?
    };
    let mut relative = None;
    let constant = match operands {
        Operands::None => 0,
        Operands::Constant(bytes) => bytes,
        Operands::Long => long,
        Operands::Quad => {
            if is_quad {
                8
            } else {
                long
            }
        }
        Operands::ModRm(_) | Operands::ModRmLong => {
            let byte = *code.get(at)?;
            let second = code.get(at - 1).copied().filter(|_| opcode == 0x0f);
            let (digit, is_nop) = (byte >> 3 & 7, second == Some(0x1f));
            let constant = group(opcode, digit, operands, long)?;
            let is_lea = opcode == 0x8d;
            let is_extended = rex.is_some_and(|rex| rex & 1 != 0);
            let place = Place::read(code, &mut at, is_extended)?;
            relative = match place {
                Place::Relative(offset) => Some(offset),
                Place::Stack | Place::Register => None,
                Place::Other if is_lea || is_nop || is_thread_local => None,
                Place::Other => return None,
            };
            if is_lea && place == Place::Register {
                return None;
            }
            let only_reads = second.map_or_else(|| one_byte_reads(opcode, digit), two_bytes_read);
            if is_thread_local && place != Place::Register && !only_reads {
                return None;
            }
            constant
        }
    };
    at += usize::from(constant);
    (at <= 15 && at <= code.len()).then_some(Movable { length: at as u8, relative })
}

/// The operand of a ModRM byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Register,
    /// Memory relative to the stack pointer or to the frame pointer.
    Stack,
    /// Memory relative to the end of the instruction; the offset of the displacement.
    Relative(u8),
    Other,
}

impl Place {
    /// Reads a ModRM byte at `at`, and the bytes of the operand behind it. With `is_extended` (REX.B), the numbers of `rsp` and `rbp`
    /// are those of `r12` and `r13`.
    fn read(code: &[u8], at: &mut usize, is_extended: bool) -> Option<Self> {
        let byte = *code.get(*at)?;
        *at += 1;
        let (mode, low) = (byte >> 6, byte & 7);
        if mode == 3 {
            return Some(Self::Register);
        }
        let mut base = low;
        if low == 4 {
            base = *code.get(*at)? & 7;
            *at += 1;
        }
        let place = match (mode, base) {
            (0, 5) if low == 5 => Self::Relative(*at as u8),
            (0, 5) => Self::Other,
            (_, 4 | 5) if !is_extended => Self::Stack,
            _ => Self::Other,
        };
        *at += match (mode, base) {
            (0, 5) | (2, _) => 4,
            (1, _) => 1,
            _ => 0,
        };
        Some(place)
    }
}

/// Returns the size of the constant of an instruction with a ModRM byte, if its `digit` selects one of the list.
fn group(opcode: u8, digit: u8, operands: Operands, long: u8) -> Option<u8> {
    let constant = match operands {
        Operands::ModRm(bytes) => bytes,
        _ => long,
    };
    match opcode {
        0x8f | 0xc6 | 0xc7 => (digit == 0).then_some(constant),
        // `test` has a constant. `not`, `neg` and multiplications have none. Divisions raise exceptions.
        0xf6 | 0xf7 => match digit {
            0 | 1 => Some(if opcode == 0xf6 { 1 } else { long }),
            2..=5 => Some(0),
            _ => None,
        },
        0xfe => (digit < 2).then_some(0),
        // `inc`, `dec`, `push`. The others call and jump.
        0xff => matches!(digit, 0 | 1 | 6).then_some(0),
        _ => Some(constant),
    }
}

const fn one_byte(opcode: u8) -> Option<Operands> {
    Some(match opcode {
        0x00..=0x3f => match opcode & 7 {
            0..=3 => Operands::ModRm(0),
            4 => Operands::Constant(1),
            5 => Operands::Long,
            _ => return None,
        },
        0x50..=0x5f | 0x90 | 0x98 | 0x99 | 0xc9 => Operands::None,
        0x63 | 0x84..=0x8b | 0x8d | 0x8f | 0xd0..=0xd3 | 0xf6 | 0xf7 | 0xfe | 0xff => {
            Operands::ModRm(0)
        }
        0x68 | 0xa9 => Operands::Long,
        0x69 | 0x81 | 0xc7 => Operands::ModRmLong,
        0x6a | 0xa8 | 0xb0..=0xb7 => Operands::Constant(1),
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => Operands::ModRm(1),
        0xb8..=0xbf => Operands::Quad,
        _ => return None,
    })
}

/// Returns whether an instruction of the list with a ModRM byte and this digit in it never writes to memory.
const fn one_byte_reads(opcode: u8, digit: u8) -> bool {
    match opcode {
        // Bit 1 is set if the register is the destination. `cmp` has none.
        0x00..=0x37 => opcode & 2 != 0,
        0x38..=0x3b | 0x63 | 0x69 | 0x6b | 0x84 | 0x85 | 0x8a | 0x8b | 0x8d => true,
        0x80 | 0x81 | 0x83 => digit == 7,
        0xf6 | 0xf7 => matches!(digit, 0 | 1 | 4 | 5),
        0xff => digit == 6,
        _ => false,
    }
}

/// Returns whether an instruction of the list with the bytes `0x0f` and this one never writes to memory. Not all of them are known.
const fn two_bytes_read(opcode: u8) -> bool {
    matches!(
        opcode,
        0x10 | 0x12
            | 0x14..=0x16
            | 0x1f
            | 0x28
            | 0x2a
            | 0x2c..=0x2f
            | 0x40..=0x4f
            | 0x51..=0x6f
            | 0xa3
            | 0xaf
            | 0xb6
            | 0xb7
            | 0xbe
            | 0xbf
    )
}

const fn two_bytes(opcode: u8) -> Option<Operands> {
    Some(match opcode {
        // SSE without `maskmovdqu` (0xf7), `cmov`, `setcc`, `bt`, `imul`, `bsf`, `bsr`, `movzx`, `movsx`, and `nop`.
        0x10..=0x17
        | 0x1e
        | 0x1f
        | 0x28..=0x2f
        | 0x40..=0x4f
        | 0x51..=0x6f
        | 0x74..=0x76
        | 0x7e
        | 0x7f
        | 0x90..=0x9f
        | 0xa3
        | 0xaf
        | 0xb6
        | 0xb7
        | 0xbc..=0xbf
        | 0xd1..=0xf6
        | 0xf8..=0xfe => Operands::ModRm(0),
        0x70 | 0xba | 0xc6 => Operands::ModRm(1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of the address of a restartable sequence is thread-local.
    #[test]
    fn thread_local_memory_is_read_only() {
        for (code, is_movable) in [
            // mov %fs:0x28, %rax; sub %fs:0x28, %rax; cmp %rax, %fs:0x28; cmpq $0, %fs:0x28
            (&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0][..], true),
            (&[0x64, 0x48, 0x2b, 0x04, 0x25, 0x28, 0, 0, 0], true),
            (&[0x64, 0x48, 0x39, 0x04, 0x25, 0x28, 0, 0, 0], true),
            (&[0x64, 0x48, 0x83, 0x3c, 0x25, 0x28, 0, 0, 0, 0], true),
            // movzwl %fs:8(%rax), %ecx; movups %fs:8(%rax), %xmm0; lea %fs:8(%rax), %rcx
            (&[0x64, 0x0f, 0xb7, 0x48, 8], true),
            (&[0x64, 0x0f, 0x10, 0x40, 8], true),
            (&[0x64, 0x48, 0x8d, 0x48, 8], true),
            // mov %rax, %fs:8; mov %rax, %fs:8(%rcx); movq $0, %fs:8; mov %rax, %fs:8(%rsp)
            (&[0x64, 0x48, 0x89, 0x04, 0x25, 8, 0, 0, 0], false),
            (&[0x64, 0x48, 0x89, 0x41, 8], false),
            (&[0x64, 0x48, 0xc7, 0x04, 0x25, 8, 0, 0, 0, 0, 0, 0, 0], false),
            (&[0x64, 0x48, 0x89, 0x44, 0x24, 8], false),
            // incl %fs:8(%rcx); addl $1, %fs:8(%rcx); pop %fs:8(%rcx); movups %xmm0, %fs:8(%rcx); sete %fs:8(%rcx)
            (&[0x64, 0xff, 0x41, 8], false),
            (&[0x64, 0x83, 0x41, 8, 1], false),
            (&[0x64, 0x8f, 0x41, 8], false),
            (&[0x64, 0x0f, 0x11, 0x41, 8], false),
            (&[0x64, 0x0f, 0x94, 0x41, 8], false),
            // mov %rax, %rcx, with the prefix
            (&[0x64, 0x48, 0x89, 0xc1], true),
        ] {
            let found = movable(code);
            assert_eq!(found.is_some(), is_movable, "{code:x?}");
            assert!(found.is_none_or(|of| usize::from(of.length) == code.len()), "{code:x?}");
        }
    }
}
