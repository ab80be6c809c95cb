//! The provider route: the module's providers are registered with the kernel's DTrace, by its
//! [companion](crate::__private::companion), and it patches its sites itself: with jumps, while all other CPUs are
//! paused, so that no CPU executes a breakpoint and no handler is necessary.

mod cpu;
mod kernel;
mod text;

use core::ffi::{CStr, c_int};

use crate::attach::{self, Attachment};
use crate::dtrace::{Binding, Functions};
use crate::errno::Errno;
use crate::illumos::console;
use crate::patch::Mode;
use kernel::Illumos;

/// A module's probes under the kernel's DTrace.
#[derive(Debug)]
pub struct Probes(Attachment);

impl Probes {
    /// Returns the probes of the module whose companion is `companion`. This name is also the module part of their
    /// descriptions: when a module is unloaded, DTrace destroys all probes with its name, of every provider
    /// (`dtrace_module_unloaded`).
    pub const fn new(companion: &'static CStr) -> Self {
        Self(Attachment {
            framework: &Binding(Illumos),
            patcher: &text::KernelText,
            mode: Mode::BUILT,
            module: companion,
        })
    }

    /// Does nothing: the probes are checked when they are attached.
    pub fn check(&self, _: &CStr) {}

    /// Registers the providers. For the companion's `_init`.
    ///
    /// # Safety
    /// `functions` are DTrace's and stay, and this module is not unloaded, until [`detach`](Self::detach) has succeeded.
    pub unsafe fn attach(&'static self, functions: *const Functions) -> c_int {
        // SAFETY: the functions are DTrace's and stay until `detach` has succeeded, by the contract of this function.
        unsafe { kernel::hand_over(functions) };
        // SAFETY: sites jump, and none traps while a CPU executes it, so no breakpoint handler is needed; this module is not
        // unloaded until `detach` has succeeded, by the contract of this function.
        if let Err(error) = unsafe { attach::attach(&self.0) } {
            let companion = self.0.module.to_str().unwrap_or("?");
            console::warn(format_args!("{companion}: probes not attached: {error}"));
            // After an error number, krtld would unload the companion, which keeps this module loaded.
            return if error.must_stay() { 0 } else { Errno::EINVAL.get() };
        }
        0
    }

    /// Unregisters the providers. For the companion's `_fini`. Returns an error number if DTrace does not release the
    /// probes; then everything continues to work.
    pub fn detach(&self) -> c_int {
        Errno::code(attach::detach().map_err(Errno::from))
    }
}

/// The table that a module exports for its companion: a [`Driver`](crate::__private::companion::Driver), in assembly,
/// because of its name.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_illumos_exports {
    ($name:ident, $probes:ident) => {
        unsafe extern "C" fn attach(
            __sdt_functions: *const $crate::__private::dtrace::Functions,
        ) -> c_int {
            // SAFETY: the companion depends on this module and on DTrace.
            unsafe { $probes.attach(__sdt_functions) }
        }

        unsafe extern "C" fn detach() -> c_int {
            $probes.detach()
        }

        // Only emits the table: at this place, assembly must be in a function.
        #[unsafe(naked)]
        unsafe extern "C" fn table() {
            ::core::arch::naked_asm!(
                ".pushsection .data.__sdt_driver, \"aw\", @progbits",
                ".balign 8",
                ::core::concat!(".globl sdt_driver_", ::core::stringify!($name)),
                ::core::concat!(".type sdt_driver_", ::core::stringify!($name), ", @object"),
                ::core::concat!("sdt_driver_", ::core::stringify!($name), ":"),
                ".long {version}, 0",
                ".quad {attach}, {detach}",
                ::core::concat!(".size sdt_driver_", ::core::stringify!($name), ", 24"),
                ".popsection",
                version = const $crate::__private::companion::Driver::VERSION,
                attach = sym attach,
                detach = sym detach,
            )
        }

        #[used]
        static TABLE: unsafe extern "C" fn() = table;
    };
}
