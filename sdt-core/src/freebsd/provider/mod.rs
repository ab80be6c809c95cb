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

/// The supported versions of `dtrace`.
pub static DTRACE: ModDepend = ModDepend { minimum: 1, preferred: 1, maximum: 1 };

/// The interface by which sites are patched.
#[cfg(sdt_site = "patched")]
const PATCHER: &dyn Patcher = &text::KernelText;
#[cfg(not(sdt_site = "patched"))]
const PATCHER: &dyn Patcher = &crate::patch::NoText;

/// A module's probes under the kernel's DTrace.
#[derive(Debug)]
pub struct Probes(Attachment);

impl Probes {
    /// Returns the probes of the module whose file is `module` without `.ko`: `kldunload` destroys the probes of this
    /// name.
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
    /// As [`attach::attach`]; nothing is attached or hooked then. If the error says that the image must stay, this
    /// prints it on the console and succeeds.
    pub unsafe fn attach(&'static self) -> Result<(), AttachError> {
        // The handler is registered first, because a probe may be enabled as soon as its provider is registered.
        #[cfg(sdt_site = "patched")]
        invop::hook();
        // SAFETY: the handler consults `resume_address` from here until `detach`.
        match unsafe { attach::attach(&self.0) } {
            Err(error) if error.must_stay() => {
                // After an error the kernel would free the module.
                let module = self.0.module.to_str().unwrap_or("?");
                console::print(format_args!(
                    "{module}: the module is loaded without probes: {error}"
                ));
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

/// Unhooks the breakpoint exception, and waits until every CPU has left the code that a site runs with interrupts off.
///
/// Call it when no site fires any more.
fn leave() {
    dtrace_sync();
    #[cfg(sdt_site = "patched")]
    invop::unhook();
}

/// Metadata: the module depends on the kernel and on DTrace.
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
