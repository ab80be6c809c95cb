//! Strings of arguments, which the actions of a clause store without the machine: a text with its length, as a `&str`, and a
//! text that ends with a NUL.

use dtrace_abi::dif::{DifType, Subr};

use super::access::nul;
use super::op::{Cond, Op, Slot};
use super::simple::indexed_argument;
use super::subr::MEMSTR;
use super::validate::Program;

/// A string that a program reads from an argument of the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentText {
    /// The argument with this index is the address of a text that ends with a NUL.
    Terminated(u8),
    /// The arguments are the address of a text and its length in bytes (`memstr`).
    Sized {
        address: u8,
        length: u8,
        /// The greatest number of bytes of the text that are used.
        most: u16,
        /// The replacement for each NUL in the text; not 0.
        instead: u8,
    },
}

/// The number of bytes that are read at once, a power of two.
const PART: usize = 64;

impl ArgumentText {
    /// Reads the text with `load`, and calls `put` with the position and the bytes of each piece, in order. Returns the length of
    /// the text: without its NUL, and at most `size`.
    ///
    /// Returns `None` if only the machine knows the result: if `load` returns `None`, because it cannot read all of the memory, if
    /// the hit does not contain the argument, or if a text with a length does not fit into `size` bytes.
    #[inline(always)]
    pub(crate) fn read(
        self,
        args: &[u64],
        size: usize,
        mut load: impl FnMut(u64, &mut [u8]) -> Option<()>,
        mut put: impl FnMut(usize, &[u8]),
    ) -> Option<usize> {
        let arg = |index: u8| args.get(usize::from(index)).copied();
        let mut part = [0; PART];
        let mut at = 0;
        match self {
            Self::Terminated(index) => {
                let start = arg(index)?;
                while at < size {
                    let address = start.wrapping_add(at as u64);
                    // The line may contain the end of readable memory.
                    let line = PART - address as usize % PART;
                    let part = part.get_mut(..line.min(size - at))?;
                    load(address, part)?;
                    let end = nul(part);
                    let piece = part.get(..end.unwrap_or(part.len()))?;
                    put(at, piece);
                    at += piece.len();
                    if end.is_some() {
                        break;
                    }
                }
            }
            Self::Sized { address, length, most, instead } => {
                let start = arg(address)?;
                let length = arg(length)?.min(most.into()) as usize;
                if length >= size {
                    return None;
                }
                while at < length {
                    let part = part.get_mut(..PART.min(length - at))?;
                    load(start.wrapping_add(at as u64), part)?;
                    if nul(part).is_some() {
                        part.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = instead);
                    }
                    put(at, part);
                    at += part.len();
                }
            }
        }
        Some(at)
    }
}

impl Program<'_> {
    /// Returns the string that is the result of the program, if the program only reads it from an argument of the probe.
    pub(crate) fn argument_text(&self) -> Option<ArgumentText> {
        let returns = self.returns();
        let is_kernels = returns.is_by_ref() && returns.flags & DifType::BYUREF == 0;
        if returns.is_string() && is_kernels { text(self.ops) } else { None }
    }
}

/// Returns the string that fused instructions read from an argument of the probe.
fn text(ops: &[Slot]) -> Option<ArgumentText> {
    if let [Slot(Op::ReturnArg(index)), ..] = *ops {
        return Some(ArgumentText::Terminated(index));
    }
    if let [first, second, Slot(Op::Ret(returned))] = *ops {
        let (index, register) = indexed_argument([first, second])?;
        return (register == returned).then_some(ArgumentText::Terminated(index));
    }
    // The compiler generates this for a text with its length (`text` in its `codegen`).
    let [
        first,
        second,
        third,
        fourth,
        Slot(Op::SetCompareBranch(compared, limit, Cond::LessEqualUnsigned, 8, most)),
        Slot(Op::Cmp(..)),
        Slot(Op::Branch(..)),
        Slot(Op::Mov(limited, shortened)),
        Slot(Op::Set(one, 1)),
        Slot(Op::Add(summand, added, sum)),
        Slot(Op::Set(character, instead)),
        Slot(Op::Flush),
        Slot(Op::PushValue(pushed_address)),
        Slot(Op::PushValue(pushed_character)),
        Slot(Op::PushValue(pushed_size)),
        Slot(Op::Call(Subr::Memstr, result)),
        Slot(Op::Ret(returned)),
    ] = *ops
    else {
        return None;
    };
    let (address, start) = indexed_argument([first, second])?;
    let (length, size) = indexed_argument([third, fourth])?;
    let is_size = [compared, shortened, summand, sum, pushed_size].iter().all(|it| *it == size);
    let is_kept = [limit, one, character].iter().all(|it| *it != start && *it != size);
    let is_text = start != size
        && is_size
        && is_kept
        && (limited, added, pushed_address) == (limit, one, start)
        && (pushed_character, returned) == (character, result);
    let (most, instead) = (u16::try_from(most).ok()?, instead as u8);
    (is_text && u64::from(most) < MEMSTR && instead != 0).then_some(ArgumentText::Sized {
        address,
        length,
        most,
        instead,
    })
}
