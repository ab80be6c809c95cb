//! The provider `pidN` of process N: entries and returns of functions that no source code marks.
//!
//! `sdt_framework` checks the sites that a consumer sends, and emulates the instruction that a breakpoint has replaced. This module
//! decides which text may be traced, writes it, and brings a hit from the signal handler to the framework.
//!
//! | file | task |
//! |---|---|
//! | `text` | the text that consumers may trace, and the stores to it |
//! | `images` | the program and the shared objects that are traced |
//! | `excluded` | the functions that are not traced, because a breakpoint in them could end the process |
//! | `restorer` | the code to which the signal handler returns |
//! | `breakpoint` | tells breakpoints from other instructions |
//! | `hit` | from a breakpoint to the framework, and back |
//! | `frame` | the registers of interrupted code, in the frame of a signal |
//! | `handlers` | waits until no thread looks at sites that are removed |
//! | `list` | lists that signal handlers read |
//! | `jumps`, `detour`, `thunk`, `area` | jumps in place of breakpoints, on x86_64. Elsewhere, all sites are breakpoints: `no_jumps` |
//!
//! **A hit.** The handler of SIGTRAP runs on the alternate stack, if the thread has one, which is too small to record a hit. So the handler
//! copies the frame of the signal to the thread's own stack, and returns to a thunk there. The thunk records the hit, emulates the
//! replaced instruction in the copy, and returns from the signal a second time (`rt_sigreturn(2)`), with the copy. So the thread gets all
//! registers back, also those that this crate does not know.

mod breakpoint;
mod excluded;
mod frame;
mod handlers;
mod hit;
mod images;
mod list;
mod restorer;
mod text;

#[cfg(target_arch = "x86_64")]
mod area;
#[cfg(target_arch = "x86_64")]
mod detour;
#[cfg(target_arch = "x86_64")]
mod jumps;
#[cfg(target_arch = "x86_64")]
mod thunk;

#[cfg(not(target_arch = "x86_64"))]
mod no_jumps;
#[cfg(not(target_arch = "x86_64"))]
use no_jumps::{self as jumps, self as thunk};

pub(crate) use handlers::{forget_handlers, wait_for_handlers};
pub(crate) use hit::note_server;
pub(crate) use text::{end_change, register};
