//! The variables of a consumer's programs, and their places.
//!
//! The first program with the variable in its table declares it, and all later programs must agree. Decoding copies the
//! place of a variable into the instructions, so nothing of this is used in probe context.

use dtrace_abi::Platform;
use dtrace_abi::dif::{DifType, VAR_OTHER_MAX, VAR_OTHER_USER, VarKind, VarScope, Variable};

use super::address::{MOST, ObjectAddress, Region};
use super::invalid::Problem;
use super::memory::{Memory, Statics};
use super::op::Shape;
use super::source::Source;
use crate::base::word;

/// The largest size in bytes of a variable that is held by reference (`dtrace_statvar_maxsize`, dtrace.c).
pub const VARIABLE_SIZE: u32 = 16 * 1024;

/// An entry of a table of variables: the declaration of a variable, or free.
#[derive(Clone, Copy, Debug)]
pub struct Declared {
    state: State,
    /// Whether it has keys.
    keyed: bool,
    pub(crate) shape: Shape,
    /// The index of its word if it is a number, otherwise of the word that marks NULL, before its value.
    pub(crate) at: u32,
    /// Flags of its type, and its size.
    ty: (u8, u32),
    /// The check whose program declared it last.
    check: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// Declared by the program that is being checked.
    New,
    Kept,
}

impl Declared {
    /// The initial element of arrays.
    pub const NONE: Self =
        Self { state: State::Free, keyed: false, shape: Shape::Value, at: 0, ty: (0, 0), check: 0 };
}

/// The variables of one consumer.
///
/// The caller provides the memory: a table for each scope, whose length is the largest number of variables, and the [`Memory`]
/// for the values of variables and for all strings. Programs are checked one at a time; programs that were accepted before may
/// run meanwhile.
#[derive(Debug)]
pub struct Declarations<'a> {
    pub(crate) platform: Platform,
    pub(crate) memory: &'a Memory<'a>,
    globals: &'a mut [Declared],
    threads: &'a mut [Declared],
    locals: &'a mut [Declared],
    used: Used,
    /// The number of the current check, or of the latest one.
    check: u32,
}

/// The used part of the room, in words.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    literals: usize,
    globals: usize,
    locals: usize,
}

/// The memory for variables and strings: words, and the entries of the tables of global, thread-local and clause-local variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) literals: usize,
    pub(crate) globals: usize,
    pub(crate) locals: usize,
    pub(crate) variables: [usize; 3],
}

impl Extent {
    /// Adds the largest size that the variables and strings of a program can take. `seen` marks the counted variables of each
    /// scope.
    pub(crate) fn add(&mut self, source: &impl Source, seen: [&mut [bool]; 3]) {
        self.literals = self.literals.saturating_add(source.strings().len().div_ceil(8));
        let [globals, threads, locals] = seen;
        for variable in source.variables() {
            let Some((scope, index)) = place_of(&variable) else { continue };
            let words = match shape(&variable.ty) {
                Ok(Shape::Value) => 1,
                Ok(shape) => 1 + shape.size().div_ceil(8) as usize,
                // The program will be refused.
                Err(_) => continue,
            };
            let (seen, room) = match scope {
                VarScope::Global => (&mut *globals, &mut self.globals),
                VarScope::Local => (&mut *locals, &mut self.locals),
                VarScope::Thread => (&mut *threads, &mut 0),
            };
            if let Some(seen @ false) = seen.get_mut(index) {
                *seen = true;
                *room = room.saturating_add(words);
            }
        }
    }

    /// Increases the number of variables of each scope to the number that this program needs.
    pub(crate) fn count(&mut self, source: &impl Source) {
        for variable in source.variables() {
            let Some((scope, index)) = place_of(&variable) else { continue };
            let [globals, threads, locals] = &mut self.variables;
            let count = match scope {
                VarScope::Global => globals,
                VarScope::Thread => threads,
                VarScope::Local => locals,
            };
            *count = (*count).max(index + 1);
        }
    }
}

/// Returns the scope of a variable, and its index in the table of that scope. `None` for a variable of the kernel.
fn place_of(variable: &Variable) -> Option<(VarScope, usize)> {
    let number = u16::try_from(variable.id).ok()?;
    let index = number.checked_sub(VAR_OTHER_USER)?;
    Some((VarScope::from_number(variable.scope)?, index.into()))
}

impl<'a> Declarations<'a> {
    /// Returns empty declarations. The numbers of subroutines and of built-in variables depend on the platform for which the
    /// programs were compiled.
    pub fn new(
        platform: Platform,
        memory: &'a Memory<'a>,
        globals: &'a mut [Declared],
        threads: &'a mut [Declared],
        locals: &'a mut [Declared],
    ) -> Self {
        for declared in globals.iter_mut().chain(&mut *threads).chain(&mut *locals) {
            *declared = Declared::NONE;
        }
        // Clears the data of the previous consumer of this memory.
        let extents = memory.globals.extents.iter().chain(memory.locals.extents);
        extents.chain(memory.literals).for_each(|word| word.set(0));
        Self { platform, memory, globals, threads, locals, used: Used::default(), check: 0 }
    }

    /// Copies the declarations to new, larger memory: tables that are at least as long, and a [`Memory`] with at least as many
    /// words, which validated programs use from then on. Values are not copied, because no program has run yet.
    pub(crate) fn moved<'b>(
        &self,
        memory: &'b Memory<'b>,
        globals: &'b mut [Declared],
        threads: &'b mut [Declared],
        locals: &'b mut [Declared],
    ) -> Declarations<'b> {
        let mut moved = Declarations::new(self.platform, memory, globals, threads, locals);
        let tables = [
            (&mut *moved.globals, &*self.globals),
            (&mut *moved.threads, &*self.threads),
            (&mut *moved.locals, &*self.locals),
        ];
        for (to, from) in tables {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
        let old = self.memory;
        let words = [
            (memory.literals, old.literals),
            (memory.globals.extents, old.globals.extents),
            (memory.locals.extents, old.locals.extents),
        ];
        for (to, from) in words {
            to.iter().zip(from).for_each(|(to, from)| to.set(from.get()));
        }
        (moved.used, moved.check) = (self.used, self.check);
        moved
    }

    /// Returns the size of the declared variables, and the largest number of variables.
    pub(crate) fn extent(&self) -> Extent {
        let Used { literals, globals, locals } = self.used;
        let variables = [self.globals.len(), self.threads.len(), self.locals.len()];
        Extent { literals, globals, locals, variables }
    }

    /// Returns the declaration of a variable, with or without keys, by the program that is being checked. Declarations
    /// of other programs do not count.
    pub(crate) fn find(
        &self,
        scope: VarScope,
        number: u16,
        keyed: bool,
    ) -> Result<Declared, Problem> {
        let table = match scope {
            VarScope::Global => &self.globals,
            VarScope::Thread => &self.threads,
            VarScope::Local => &self.locals,
        };
        let index = number.checked_sub(VAR_OTHER_USER).ok_or(Problem::ReadOnly(number))?;
        match table.get(usize::from(index)) {
            Some(Declared { state: State::Free, .. }) => Err(Problem::Undeclared(number)),
            Some(declared) if declared.check != self.check => Err(Problem::Undeclared(number)),
            Some(declared) if declared.keyed != keyed => Err(Problem::Keys(number)),
            Some(declared) => Ok(*declared),
            None => Err(Problem::Undeclared(number)),
        }
    }

    /// Runs a check that declares variables and strings. If the check fails, removes its declarations.
    pub(crate) fn attempt<T, E>(
        &mut self,
        check: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let used = self.used;
        self.check = self.check.wrapping_add(1);
        let result = check(self);
        let (globals, locals) = (self.memory.globals.extents, self.memory.locals.extents);
        let tables =
            [(&mut *self.globals, globals), (&mut *self.threads, &[]), (&mut *self.locals, locals)];
        for (table, extents) in tables {
            let new =
                table.iter_mut().enumerate().filter(|(_, declared)| declared.state == State::New);
            for (index, declared) in new {
                if result.is_ok() {
                    declared.state = State::Kept;
                    continue;
                }
                *declared = Declared::NONE;
                if let Some(extent) = extents.get(index) {
                    extent.set(0);
                }
            }
        }
        if result.is_err() {
            self.used = used;
        }
        result
    }

    /// Declares a variable from an entry of the table of variables.
    pub(crate) fn declare(&mut self, variable: &Variable) -> Result<(), Problem> {
        let scope = VarScope::from_number(variable.scope).ok_or(Problem::Scope(variable.scope))?;
        let kind = VarKind::from_number(variable.kind).ok_or(Problem::Kind(variable.kind))?;
        let number = u16::try_from(variable.id).map_err(|_| Problem::Number(variable.id))?;
        const { assert!(VAR_OTHER_MAX == u16::MAX) };
        let Some(index) = number.checked_sub(VAR_OTHER_USER) else {
            // A variable of the kernel: its use is checked when it is read.
            return Ok(());
        };
        let keyed = kind == VarKind::Array;
        if keyed && scope == VarScope::Local {
            return Err(Problem::Kind(variable.kind));
        }
        let shape = shape(&variable.ty)?;
        let memory = self.memory;
        let Used { globals, locals, .. } = &mut self.used;
        let (table, statics, used) = match scope {
            VarScope::Global => (&mut self.globals, Some(&memory.globals), globals),
            VarScope::Local => (&mut self.locals, Some(&memory.locals), locals),
            VarScope::Thread => (&mut self.threads, None, globals),
        };
        let declared = table.get_mut(usize::from(index)).ok_or(Problem::TooManyVariables)?;
        let ty = (variable.ty.flags, variable.ty.size);
        if declared.state != State::Free {
            declared.check = self.check;
            return agree(declared, keyed, shape, ty);
        }
        let at = match statics {
            Some(statics) if !keyed => place(statics, used, index, shape)?,
            _ => 0,
        };
        *declared = Declared { state: State::New, keyed, shape, at, ty, check: self.check };
        Ok(())
    }

    /// Copies a table of strings to the memory. Returns the address of the copy.
    pub(crate) fn keep_strings(&mut self, strings: &[u8]) -> Result<u64, Problem> {
        let offset = self.used.literals.checked_mul(8).ok_or(Problem::NoRoomForStrings)?;
        let end = offset.checked_add(strings.len()).ok_or(Problem::NoRoomForStrings)?;
        if end > MOST as usize {
            return Err(Problem::NoRoomForStrings);
        }
        word::write(self.memory.literals, offset, strings).ok_or(Problem::NoRoomForStrings)?;
        self.used.literals = end.div_ceil(8);
        Ok(ObjectAddress { region: Region::Literals, item: 0, offset: offset as u32 }.address())
    }
}

/// Returns the kind of value of a variable of this type.
fn shape(ty: &DifType) -> Result<Shape, Problem> {
    const KNOWN: u8 = DifType::BYREF | DifType::BYUREF;
    if ty.kind > 1 {
        return Err(Problem::Type(ty.kind));
    }
    if ty.flags & !KNOWN != 0 {
        return Err(Problem::Flags(ty.flags));
    }
    if ty.flags & DifType::BYREF == 0 {
        // Data in a process are not copied: the variable contains the address.
        let fits = ty.size <= 8 || ty.flags & DifType::BYUREF != 0;
        return if fits { Ok(Shape::Value) } else { Err(Problem::ValueSize(ty.size)) };
    }
    match ty.size {
        0 => Err(Problem::NoSize),
        size if size > VARIABLE_SIZE => Err(Problem::Oversized(size)),
        size if ty.is_string() => Ok(Shape::String(size)),
        size => Ok(Shape::Bytes(size)),
    }
}

/// Checks that a new declaration of a variable agrees with the existing one. A size of 0 agrees with every size, as in DTrace.
fn agree(declared: &Declared, keyed: bool, shape: Shape, ty: (u8, u32)) -> Result<(), Problem> {
    if declared.keyed != keyed {
        return Err(Problem::ChangedKind);
    }
    let is_same = matches!(
        (declared.shape, shape),
        (Shape::Value, Shape::Value)
            | (Shape::Bytes(_), Shape::Bytes(_))
            | (Shape::String(_), Shape::String(_))
    );
    let ((flags_before, size_before), (flags, size)) = (declared.ty, ty);
    if !is_same || flags_before != flags {
        return Err(Problem::ChangedType);
    }
    if size != 0 && size_before != size { Err(Problem::ChangedSize) } else { Ok(()) }
}

/// Allocates and clears the words of a variable: one word for a number; for a value by reference, one word that marks NULL, and
/// the words of the value. Returns the index of the first word.
fn place(
    statics: &Statics<'_>,
    used: &mut usize,
    index: u16,
    shape: Shape,
) -> Result<u32, Problem> {
    let at = *used;
    let words = match shape {
        Shape::Value => 1,
        Shape::Bytes(size) | Shape::String(size) => 1 + size.div_ceil(8) as usize,
    };
    let end = at.checked_add(words).ok_or(Problem::NoRoomForValues)?;
    let first = u32::try_from(at).map_err(|_| Problem::NoRoomForValues)?;
    if !statics.clear(at, end) {
        return Err(Problem::NoRoomForValues);
    }
    if shape != Shape::Value {
        let extent = statics.extents.get(usize::from(index)).ok_or(Problem::TooManyVariables)?;
        extent.set(u64::from(shape.size()) << 32 | u64::from(first));
    }
    *used = end;
    Ok(first)
}
