//! The frame in which an evaluator runs.

use core::ffi::c_void;

/// The frame of the thunk that called an evaluator.
#[derive(Debug)]
#[repr(transparent)]
pub struct Frame(pub(super) *const c_void);
