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
            let (digit, is_nop) =
                (byte >> 3 & 7, opcode == 0x0f && code.get(at - 1) == Some(&0x1f));
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
