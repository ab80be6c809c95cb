//! Evaluates costly argument expressions without adding instructions to the hot path.
//!
//! A call in a cold block makes the compiler keep live values in registers that survive calls, and
//! therefore save those registers in the *hot* prologue. So the macro does not evaluate an expression that may call
//! something in the cold block. It compiles the expression as a function of its own, an *evaluator*, which the cold block
//! reaches through a thunk that preserves every register. The evaluator gets the locals that the expression uses by
//! value, in words, because taking a local's address would force it onto the stack, again on the hot path.
//!
//! The evaluator is a closure, so every name in the expression has the same meaning as at the site. The macro removes a
//! name from the closure's captures only if the name is certainly a local's. It wraps that local in a [`Local`], with
//! the expression's own token, and calls its method `capture`. Method resolution selects the capture by the local's
//! type: a copy if the type is `Copy`, the pointer if it is a `&mut`, and otherwise the address, which is correct for
//! every type but has a cost. The other captures of the closure reach the evaluator as the bits of the closure.
//!
//! # Lifetimes
//!
//! A copy lives as long as the evaluator runs, and so does every borrow of it: its lifetime is that of the
//! [`Frame`] of the evaluator. A local that is passed by address is borrowed as the compiler sees it: for as long as the
//! function permits, or forever if it is a static.

use core::mem::MaybeUninit;

mod evaluator;
mod frame;
mod handed;
mod local;
#[cfg(test)]
mod tests;

pub(crate) use evaluator::evaluate;
pub use evaluator::{AMacroInAnArgumentMustNotReturn, Evaluate, Evaluator, Trampoline};
pub use frame::Frame;
pub use handed::{Borrowed, Capture, Captures, Copied, CopyAccess};
pub use local::{Local, NotCopy, Other, Stack};

/// A word. Part of it may be padding.
pub type Word = MaybeUninit<u64>;

/// A local, or the address of one, in the form in which an evaluator gets it.
pub type Words = [Word; 2];
