//! FreeBSD: the bindings through which a module's probes reach its kernel's DTrace, and the parts of
//! the kernel's module interface that a module in Rust needs.
//!
//! FreeBSD 15. A module says [`freebsd_module!`](crate::freebsd_module) once and has nothing to
//! call: its probes are attached once its own `load` has succeeded, and detached before its `unload` runs.

pub mod console;
mod dtrace;
pub mod eventhandler;
pub mod exec;
mod invop;
mod machdep;
pub mod module;
mod text;

pub use dtrace::Dtrace;
pub use module::{Errno, Module};

use core::ffi::CStr;

use crate::attach::{self, AttachError, Attachment};
use crate::ops::FrameworkError;
use crate::patch::Mode;

/// What the sites of a module do: with feature `jump` they jump, where they can.
const MODE: Mode = if cfg!(feature = "jump") { Mode::Jump } else { Mode::Trap };

/// This module's probes under the kernel's DTrace. `module` must be the name of the module's file
/// without `.ko`: by it `kldunload` finds the probes it has to destroy.
pub const fn attachment(module: &'static CStr) -> Attachment {
    Attachment { framework: &Dtrace, patcher: &text::KernelText, mode: MODE, module }
}

/// Attaches this module's probes and hooks the kernel's breakpoint exception for them.
///
/// # Safety
/// Before the module is unloaded, [`detach_probes`] must have succeeded.
///
/// # Errors
/// As [`attach::attach`]; nothing is attached or hooked then.
pub unsafe fn attach_probes(attachment: &'static Attachment) -> Result<(), AttachError> {
    // First the handler: with the first registration a probe may be enabled.
    invop::hook();
    // SAFETY: the handler consults `resume_address` from here until `detach_probes`.
    unsafe { attach::attach(attachment) }.inspect_err(|_| invop::unhook())
}

/// Detaches this module's probes and unhooks the breakpoint exception.
///
/// # Errors
/// [`FrameworkError::Busy`] while DTrace will not let the probes go; everything goes on working then.
pub fn detach_probes() -> Result<(), FrameworkError> {
    attach::detach()?;
    invop::unhook();
    Ok(())
}
