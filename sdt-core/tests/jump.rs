//! Sites in jump mode: a jump for each hit, and breakpoints on the way there and back.
#![cfg(not(feature = "gate"))]

mod sites;
mod support;

const MODE: sdt_core::patch::Mode = sdt_core::patch::Mode::Jump;
