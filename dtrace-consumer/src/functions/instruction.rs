//! The effect of an instruction on the flow of control.

/// The effect of an instruction on the flow of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Continues with the next instruction.
    Next,
    /// Calls, and continues after the return.
    Call(Option<u64>),
    /// Continues at an address.
    Jump(u64),
    /// Continues at an address, or with the next instruction.
    Branch(u64),
    /// Continues at an address that comes from a table in this function.
    Table,
    /// Continues at an address that is known to be the beginning of a function.
    TailCall,
    /// Continues at an unknown address.
    Indirect,
    /// Returns.
    Return,
    /// Does not continue.
    Stop,
}

/// An instruction of a function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instruction {
    pub(super) address: u64,
    pub(super) length: usize,
    pub(super) flow: Flow,
}
