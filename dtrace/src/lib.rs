//! dtrace(1), as a library.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod render;
