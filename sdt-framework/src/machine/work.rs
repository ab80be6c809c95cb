//! The costs of operations: every hit has a budget. A unit is about a nanosecond; each constant is what the operation
//! takes on a current processor in its worst case, rounded up. `examples/budget.rs` measures the mixes.

/// Units for all clauses of all consumers at one hit. Programs that do more are stopped with an illegal operation: no programs hold
/// a CPU for long, however many they are and whatever lengths they have computed.
pub(crate) const WORK: u32 = crate::kernel::Costs::BUDGET;

/// One instruction. A program branches forward only, so as many run as it has, at most.
pub(crate) const INSTRUCTION: u64 = 6;
/// An instruction that takes its time, besides.
pub(crate) const STEP: u64 = 24;
/// A subroutine, besides what it reads and writes.
pub(crate) const CALL: u64 = 128;
/// A number, an argument or another value that the kernel supplies.
pub(crate) const NUMBER: u64 = 96;
/// A speculation that may be free.
pub(crate) const LOOK: u64 = 8;
/// A byte of a string that is read.
pub(crate) const BYTE: u64 = 8;
/// A line of bytes that is read for [`BYTE`]s.
pub(crate) const LINE: u64 = 64;
/// Bytes that are read or written in memory of the program, in addition to one for each.
pub(crate) const OWN: u64 = 16;
/// A variable that is passed on the way to another one: it is most likely not in the cache.
pub(crate) const LINK: u32 = 64;
/// A variable that is made, besides one for each of its words and four for each CPU whose free ones may be asked for.
pub(crate) const MAKE: u32 = 64;
