//! How costly argument expressions leave no trace in the hot path.
//!
//! A call in a cold block makes the compiler keep live values in registers that survive calls, and
//! so save those in the *hot* prologue. So an expression that may call something is not evaluated
//! in the cold block: it is compiled as a function of its own, an *evaluator*, which the cold block
//! reaches through a thunk that preserves every register. What the expression uses of the function's
//! locals is handed over by value, in words, because taking a local's address would force it onto
//! the stack, again on the hot path.
//!
//! The evaluator is a closure, so that whatever the expression names is what it names where it stands. The macro
//! takes from the closure's captures only names of which it is certain: it wraps each of them in a [`Local`], where
//! and as the expression names it, and asks for its capture. Method resolution picks, by the local's type: a copy, if
//! it is `Copy`; the pointer, if it is a `&mut`; else its address, which is right for every type and merely not free.
//! What the closure captures besides goes the same way, as the bits of the closure.
//!
//! # Lifetimes
//!
//! A copy lives as long as the evaluator runs, and what is borrowed from it no longer: its lifetime is that of the
//! [`Frame`] the evaluator is given. What goes by address is borrowed as the compiler sees it, a local for as long as
//! the function lets it, a static for ever.

use core::mem::MaybeUninit;

mod evaluator;
mod handed;
mod local;
#[cfg(test)]
mod tests;

pub(crate) use evaluator::evaluate;
pub use evaluator::{AMacroInAnArgumentMustNotReturn, Evaluate, Evaluator, Frame, Trampoline};
pub use handed::{Borrowed, Capture, Captures, Copied, CopyPlace};
pub use local::{Local, NotCopy, Other, Stack};

/// A word that may be partly padding.
pub type Word = MaybeUninit<u64>;

/// A local as the evaluator gets it.
pub type Words = [Word; 2];
