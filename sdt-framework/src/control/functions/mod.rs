//! The provider `fbt`: entries and returns of functions, without probes in their source code.
//!
//! The kernel has no symbols and no table of functions. A consumer reads them from the kernel's file and sends those that it
//! traces: names, address and bytes of the instruction. The kernel checks each of them against its own text, decodes the
//! instruction itself, and creates the probe. An enabled probe replaces the instruction by a breakpoint. At a hit the
//! instruction is emulated: no single-stepping, and no memory that is writable and executable.
//!
//! | file | task |
//! |---|---|
//! | `text` | the text that the host lets consumers trace |
//! | `arch` | registers, breakpoint and emulator of the architecture |
//! | `table` | the provider once it is registered, and batches of changes |
//! | `sites` | the table of sites, which breakpoint handlers search |
//! | `accept` | checks the functions that a consumer sends, and creates probes |
//! | `provider` | the ops of the provider: replaces instructions, and restores them |
//! | `hit` | handles hits of breakpoints |
//!
//! **Who changes what.** The table is changed with the framework's lock held. Breakpoint handlers search it without a lock: a
//! site is complete before it is in the table, and it is reused only after its instruction is restored, every CPU has executed
//! the restored text, and every CPU has left the handlers that may have found the site.

mod accept;
mod arch;
mod hit;
mod provider;
mod sites;
pub(super) mod table;
mod text;

pub use self::accept::{FunctionError, FunctionSite};
pub use self::arch::Registers;
pub use self::text::FunctionText;
