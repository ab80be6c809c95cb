//! Sites in trap mode: a breakpoint exception for each hit.
#![cfg(not(sdt_site = "gate"))]

mod sites;
const MODE: sdt_core::patch::Mode = sdt_core::patch::Mode::Trap;
