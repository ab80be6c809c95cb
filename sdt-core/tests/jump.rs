//! Sites in jump mode: a jump for each hit, and breakpoints on the way there and back.
#![cfg(not(sdt_site = "gate"))]

mod sites;
const MODE: sdt_core::patch::Mode = sdt_core::patch::Mode::Jump;
