//! Faults of programs.

use core::fmt;

use dtrace_abi::fault::Fault;

/// The fault that stopped a program: the arguments of `dtrace:::ERROR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason.
    pub fault: Fault,
    /// The instruction, as an offset in bytes in the program's DIF.
    pub offset: u32,
    /// The address that could not be used, or 0.
    pub address: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:#x}) at DIF offset {}", self.fault.name(), self.address, self.offset)
    }
}

impl core::error::Error for Failure {}

/// A fault of the instruction that is being executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The reason.
    pub fault: Fault,
    /// The address that could not be used, or 0.
    pub address: u64,
}

impl Stop {
    /// A fault without an address.
    #[cold]
    pub(crate) const fn new(fault: Fault) -> Self {
        Self { fault, address: 0 }
    }

    /// A fault at an address.
    #[cold]
    pub(crate) const fn at(fault: Fault, address: u64) -> Self {
        Self { fault, address }
    }

    pub(crate) const fn failure(self, instruction: usize) -> Failure {
        Failure {
            fault: self.fault,
            offset: (instruction as u32).wrapping_mul(4),
            address: self.address,
        }
    }
}
