//! Checks a DIFO as a whole, and creates a [`Program`].

use dtrace_abi::dif::{Builtin, DifType, Subr, TypeKind, VarScope};

use super::declare::Declarations;
use super::decode::Decoder;
use super::fuse::fuse;
use super::invalid::{Invalid, InvalidPlace, Problem};
use super::op::{Op, Slot};
use super::source::Source;

/// A program that can do no harm and ends.
///
/// It is valid only with the [`Memory`](super::Memory) for which it was checked. With another one, its results are wrong, or it
/// ends with a fault.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    pub(crate) ops: &'a [Slot],
    returns: DifType,
    cacheable: bool,
    chunk: u32,
}

impl<'a> Program<'a> {
    /// Checks a DIFO, decodes it into `room`, which needs one slot for each instruction, and declares its variables and
    /// strings.
    ///
    /// # Errors
    ///
    /// Returns the first error found. In this case nothing is declared.
    pub fn new(
        source: &impl Source,
        declarations: &mut Declarations<'_>,
        destructive: bool,
        room: &'a mut [Slot],
    ) -> Result<Self, Invalid> {
        let at = |place| move |problem| Invalid { place, problem };
        let length = source.instructions().len();
        if length == 0 {
            return Err(at(InvalidPlace::Whole)(Problem::Empty));
        }
        let long = at(InvalidPlace::Whole)(Problem::Long(length, room.len()));
        let room = room.get_mut(..length).ok_or(long)?;
        let count = u32::try_from(length).map_err(|_| long)?;
        check_return(&source.returns()).map_err(at(InvalidPlace::Whole))?;
        declarations.attempt(|declarations| {
            for (index, variable) in source.variables().enumerate() {
                declarations
                    .declare(&variable)
                    .map_err(at(InvalidPlace::Variable(index as u32)))?;
            }
            let strings = source.strings();
            if strings.last().is_some_and(|&last| last != 0) {
                return Err(at(InvalidPlace::Whole)(Problem::Unterminated));
            }
            let strings = declarations.keep_strings(strings).map_err(at(InvalidPlace::Whole))?;
            let mut decoder = Decoder::new(source, declarations, count, strings, destructive);
            let mut decoded = 0;
            for ((pc, instr), slot) in (0..).zip(source.instructions()).zip(&mut *room) {
                *slot = Slot(decoder.decode(pc, instr).map_err(at(InvalidPlace::Instruction(pc)))?);
                decoded = pc + 1;
            }
            if decoded != count {
                // The source returned fewer instructions than it announced.
                return Err(at(InvalidPlace::Instruction(decoded))(Problem::NoReturn));
            }
            let chunk = u32::try_from(decoder.sizes.largest).unwrap_or(u32::MAX);
            let cacheable = decoder.cacheable && globals_are_the_threads(source);
            if !matches!(room.last(), Some(Slot(Op::Ret(_)))) {
                return Err(at(InvalidPlace::Instruction(count - 1))(Problem::NoReturn));
            }
            fuse(room);
            Ok(Self { ops: room, returns: source.returns(), cacheable, chunk })
        })
    }

    /// The type of its result.
    pub const fn returns(&self) -> DifType {
        self.returns
    }

    /// Returns whether it calls `speculation()`.
    pub(crate) fn asks_for_speculation(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Slot(Op::Call(Subr::Speculation, _))))
    }

    /// Returns whether, as a predicate, it has the same value as long as a thread assigns none of its variables
    /// (`dtrace_difo_cacheable`).
    pub(crate) const fn is_cacheable(&self) -> bool {
        self.cacheable
    }

    /// The number of words of the largest dynamic variable that it stores, as computed from its code; 0 if it stores
    /// none (`dtrace_difo_chunksize`). A larger one at run time is a drop.
    pub const fn chunk_words(&self) -> usize {
        self.chunk as usize
    }
}

fn check_return(ty: &DifType) -> Result<(), Problem> {
    if TypeKind::from_number(ty.kind).is_none() {
        return Err(Problem::Type(ty.kind));
    }
    if ty.flags & !(DifType::BYREF | DifType::BYUREF) != 0 {
        return Err(Problem::Flags(ty.flags));
    }
    match ty.size {
        0 | 1 | 2 | 4 | 8 => Ok(()),
        _ if ty.is_by_ref() => Ok(()),
        size => Err(Problem::ValueSize(size)),
    }
}

/// Returns whether all globals are variables of the kernel that do not change while a thread runs.
fn globals_are_the_threads(source: &impl Source) -> bool {
    use Builtin::{Curthread, Execname, Pid, Tid, Zonename};
    source.variables().filter(|variable| variable.scope == VarScope::Global.number()).all(
        |variable| {
            [Curthread, Pid, Tid, Execname, Zonename]
                .iter()
                .any(|it| u32::from(it.number()) == variable.id)
        },
    )
}
