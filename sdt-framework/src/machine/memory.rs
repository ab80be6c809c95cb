//! The memory of programs: that of a consumer, the work space of a CPU, the probe that fires, and the access rights.

use core::fmt;

use super::dynamic::Dynamic;
use crate::base::word::Word;

/// The state that one consumer's programs keep between hits. All CPUs share it.
#[derive(Debug)]
pub struct Memory<'a> {
    /// Strings of programs.
    pub literals: &'a [Word],
    /// Global variables.
    pub globals: Statics<'a>,
    /// Clause-local variables, a copy for each CPU.
    pub locals: Statics<'a>,
    /// Thread-local variables and associative arrays.
    pub dynamic: Dynamic<'a>,
    /// Bytes of a string, the zero at its end included (`strsize`). At most 2^24 - 1.
    pub string_size: u32,
}

/// Variables that keep their place until the consumer closes.
#[derive(Debug)]
pub struct Statics<'a> {
    /// For each possible variable that is held by reference, its first word and its size in bytes.
    pub extents: &'a [Word],
    /// The values of variables.
    pub words: &'a [Word],
    /// The number of CPUs that share `words`, each with a copy of every variable; 1 if they share one copy.
    pub copies: usize,
}

impl<'a> Statics<'a> {
    fn stride(&self) -> usize {
        self.words.len().checked_div(self.copies).unwrap_or(0)
    }

    /// The words of a CPU.
    fn of(&self, copy: usize) -> &'a [Word] {
        let stride = self.stride();
        let start = copy.checked_mul(stride);
        start.and_then(|start| self.words.get(start..)?.get(..stride)).unwrap_or_default()
    }

    /// Clears words for all CPUs. Returns `false` if there are not enough words.
    pub(crate) fn clear(&self, start: usize, end: usize) -> bool {
        (0..self.copies.max(1)).all(|copy| {
            let words = self.of(copy).get(start..end);
            words.is_some_and(|words| {
                words.iter().for_each(|word| word.set(0));
                true
            })
        })
    }

    /// Returns the word of a variable that is a number.
    #[inline]
    pub(crate) fn value(&self, copy: usize, at: u32) -> Option<&'a Word> {
        if self.copies == 1 {
            return self.words.get(at as usize);
        }
        self.of(copy).get(at as usize)
    }

    /// Returns the value of a variable: the word that marks NULL, the other words, and the bytes.
    pub(super) fn referred(&self, copy: usize, index: u32) -> Option<(&'a Word, &'a [Word], u32)> {
        let extent = self.extents.get(index as usize)?.get();
        let (first, size) = (extent as u32 as usize, (extent >> 32) as u32);
        if size == 0 {
            // The variable is not declared, or not held by reference.
            return None;
        }
        let (null, rest) = self.of(copy).get(first..)?.split_first()?;
        Some((null, rest.get(..size.div_ceil(8) as usize)?, size))
    }
}

/// The work space of a hit on one CPU.
#[derive(Debug)]
pub struct Room<'a> {
    /// Scratch space. At most 2^24 - 1 bytes of it are used, because offsets have 24 bits. A subroutine can read data that an
    /// earlier clause has written there, so consumers do not share scratch space.
    pub scratch: &'a mut [u8],
    /// The buffer for keys of dynamic variables: as many words as a chunk has.
    pub key: &'a mut [u64],
}

/// The probe that fires.
#[derive(Clone, Copy)]
pub struct Probe<'a> {
    /// Its number.
    pub id: u32,
    /// Its names, which few programs use.
    pub names: &'a dyn Names,
    /// The arguments that came with the hit.
    pub args: &'a [u64],
}

impl fmt::Debug for Probe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe")
            .field("id", &self.id)
            .field("args", &self.args)
            .finish_non_exhaustive()
    }
}

/// The names of a probe.
pub trait Names {
    /// Returns provider, module, function or name, by its position in this list, without zero bytes. It does not change while the
    /// probe fires. Probe context.
    fn name(&self, item: usize) -> Option<&[u8]>;
}

impl Names for [&[u8]; 4] {
    fn name(&self, item: usize) -> Option<&[u8]> {
        self.get(item).copied()
    }
}

/// The access rights of programs while a probe fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// To read all of the kernel's memory, and its built-in variables.
    pub kernel: bool,
    /// To read the arguments of this probe.
    pub args: bool,
    /// To read properties of the running process.
    pub process: bool,
    /// To write to the memory of the running process.
    pub control: bool,
}

impl Access {
    /// All rights.
    pub const ALL: Self = Self { kernel: true, args: true, process: true, control: true };
}
