//! The costs of operations in the budget of a hit. A unit is about a nanosecond. Each constant is the time of the operation on a
//! current processor in the worst case, rounded up. `examples/budget.rs` measures programs that combine these operations.

/// The units for all clauses of all consumers at one hit. A program that needs more is stopped with an illegal operation. So
/// programs cannot hold a CPU for long, whatever their number and the lengths that they compute.
pub(crate) const WORK: u32 = crate::kernel::Costs::BUDGET;

/// An instruction. A program branches forward only, so each of its instructions runs at most once.
pub(crate) const INSTRUCTION: u64 = 6;
/// An instruction that takes longer (`Firing::step`), in addition to [`INSTRUCTION`].
pub(crate) const STEP: u64 = 24;
/// A subroutine, in addition to the bytes that it reads and writes.
pub(crate) const CALL: u64 = 128;
/// A number, an argument or another value that the kernel supplies.
pub(crate) const NUMBER: u64 = 96;
/// A speculation that `speculation()` checks.
pub(crate) const LOOK: u64 = 8;
/// A byte of a string that is read.
pub(crate) const BYTE: u64 = 8;
/// A line of bytes that is read into a `Cursor`.
pub(crate) const LINE: u64 = 64;
/// Bytes that are read or written in memory of the program, in addition to one for each.
pub(crate) const OWN: u64 = 16;
/// A variable that a search passes: it is probably not in the cache.
pub(crate) const LINK: u32 = 64;
/// The creation of a variable, in addition to one unit for each word of a chunk, and four units for each CPU, whose lists may be
/// searched.
pub(crate) const MAKE: u32 = 64;
