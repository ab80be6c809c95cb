//! The provider route: the module registers its providers with the kernel's DTrace, and patches its sites.
//!
//! Its probes are attached once its own `load` has succeeded, and detached before its `unload` runs.
//!
//! In gate mode the module patches nothing, and imports nothing from the kernel that writes text or hooks the breakpoint
//! exception.

#[cfg(sdt_site = "patched")]
mod invop;
mod kernel;
#[cfg(sdt_site = "patched")]
mod machdep;
#[cfg(sdt_site = "patched")]
mod text;

use core::ffi::CStr;

use crate::attach::{self, AttachError, Attachment, DetachError};
use crate::dtrace::Binding;
use crate::freebsd::console;
use crate::freebsd::module::ModDepend;
use crate::patch::{Mode, Patcher};
use kernel::{FreeBsd, dtrace_sync};

/// The versions of `dtrace` this module works with.
pub static DTRACE: ModDepend = ModDepend { minimum: 1, preferred: 1, maximum: 1 };

/// How sites are patched.
#[cfg(sdt_site = "patched")]
const PATCHER: &dyn Patcher = &text::KernelText;
#[cfg(not(sdt_site = "patched"))]
const PATCHER: &dyn Patcher = &crate::patch::NoText;

/// A module's probes under the kernel's DTrace.
#[derive(Debug)]
pub struct Probes(Attachment);

impl Probes {
    /// The probes of the module whose file is called `module`, without `.ko`: by that name `kldunload` finds
    /// the probes it has to destroy.
    pub const fn new(module: &'static CStr) -> Self {
        Self(Attachment {
            framework: &Binding(FreeBsd),
            patcher: PATCHER,
            mode: Mode::BUILT,
            module,
        })
    }

    /// Attaches the probes. Unless in gate mode, hooks the kernel's breakpoint exception for them first.
    ///
    /// # Safety
    /// Before the module is unloaded, [`detach`](Self::detach) must have succeeded.
    ///
    /// # Errors
    /// As [`attach::attach`]; nothing is attached or hooked then. Where that says that the image must stay, this
    /// says so on the console and succeeds.
    pub unsafe fn attach(&'static self) -> Result<(), AttachError> {
        // First the handler: with the first registration a probe may be enabled.
        #[cfg(sdt_site = "patched")]
        invop::hook();
        // SAFETY: the handler consults `resume_address` from here until `detach`.
        match unsafe { attach::attach(&self.0) } {
            Err(error) if error.must_stay() => {
                // An error would have the kernel free the module.
                let module = self.0.module.to_str().unwrap_or("?");
                console::print(format_args!("{module}: loaded without probes: {error}"));
                Ok(())
            }
            result => result.inspect_err(|_| leave()),
        }
    }

    /// Detaches the probes and unhooks the breakpoint exception. When it returns, no CPU executes a site's cold block.
    ///
    /// # Errors
    /// As [`attach::detach`].
    pub fn detach(&self) -> Result<(), DetachError> {
        attach::detach()?;
        leave();
        Ok(())
    }
}

/// Unhooks the breakpoint exception, and waits until every CPU has left what a site runs with interrupts off.
///
/// No site fires any more when this is called.
fn leave() {
    dtrace_sync();
    #[cfg(sdt_site = "patched")]
    invop::unhook();
}

/// Metadata: the module needs DTrace besides the kernel.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_module_needs {
    () => {
        static NEEDS_DTRACE: ModMetadata = ModMetadata::depend(c"dtrace", &DTRACE);

        #[used]
        #[unsafe(link_section = "set_modmetadata_set")]
        static NEEDS: SetEntry<ModMetadata> = SetEntry(&NEEDS_DTRACE);
    };
}
