//! The stand-in kernel: the code that needs the machine. The other parts are in the library `stand_in_kernel` and in the crates
//! `stand_in_freebsd`, `stand_in_illumos` and `stand_in_base`.
#![no_std]
#![no_main]
// printf and panic take C's variable arguments.
#![feature(c_variadic)]

extern crate alloc;

mod arch;
mod clock;
mod console;
mod counted;
mod counters;
mod declared;
mod dtrace;
mod exec;
mod exports;
mod freebsd;
mod functions;
mod heap;
#[cfg(target_arch = "x86_64")]
mod illumos;
mod invop;
mod load;
mod lock;
mod mailbox;
mod paging;
mod panic;
mod process;
mod reentry;
mod requests;
mod sites;
mod smp;
mod space;
mod stack;
mod standin;
mod start;
mod symbols;
mod system;
mod text;
mod torture;
mod traps;
mod wire;
