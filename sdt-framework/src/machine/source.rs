//! Programs before validation.

use dtrace_abi::dif::{DifType, Instr, Variable};
use dtrace_abi::dof;

/// A program before validation.
pub trait Source {
    /// Its instructions.
    fn instructions(&self) -> impl ExactSizeIterator<Item = Instr>;
    /// The integer with an index, if there is one.
    fn integer(&self, index: u16) -> Option<u64>;
    /// Its strings, each with its terminating zero.
    fn strings(&self) -> &[u8];
    /// Its table of variables.
    fn variables(&self) -> impl Iterator<Item = Variable>;
    /// The type of its result.
    fn returns(&self) -> DifType;
}

impl Source for dof::Difo<'_> {
    fn instructions(&self) -> impl ExactSizeIterator<Item = Instr> {
        Self::instructions(self)
    }

    fn integer(&self, index: u16) -> Option<u64> {
        self.integers().get(index.into())
    }

    fn strings(&self) -> &[u8] {
        Self::strings(self)
    }

    fn variables(&self) -> impl Iterator<Item = Variable> {
        Self::variables(self)
    }

    fn returns(&self) -> DifType {
        self.returns
    }
}

/// A program in slices, as a compiler has it.
#[derive(Clone, Copy, Debug)]
pub struct Difo<'a> {
    /// The instructions.
    pub code: &'a [Instr],
    /// Integers.
    pub integers: &'a [u64],
    /// Strings, each with the zero that ends it.
    pub strings: &'a [u8],
    /// Variables.
    pub variables: &'a [Variable],
    /// The type of its result.
    pub returns: DifType,
}

impl Source for Difo<'_> {
    fn instructions(&self) -> impl ExactSizeIterator<Item = Instr> {
        self.code.iter().copied()
    }

    fn integer(&self, index: u16) -> Option<u64> {
        self.integers.get(usize::from(index)).copied()
    }

    fn strings(&self) -> &[u8] {
        self.strings
    }

    fn variables(&self) -> impl Iterator<Item = Variable> {
        self.variables.iter().copied()
    }

    fn returns(&self) -> DifType {
        self.returns
    }
}
