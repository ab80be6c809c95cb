//! The text that the host lets consumers trace.

use core::ffi::CStr;

use dtrace_abi::function::Window;
use sdt_core::patch::Patcher;

/// The text of a kernel whose functions consumers may trace, and how its breakpoint handler works.
///
/// # Safety
/// - [`is_traceable`](Self::is_traceable) is true only for mapped, readable text of the image with this build ID. The text stays
///   mapped, and no code changes it except through the [patcher](Self::patcher) and `sdt-core`'s sites. The result is false for
///   all code that a CPU executes between a breakpoint and the call of [`Dtrace::function_hit`](crate::Dtrace::function_hit), and
///   from its return to the end of the exception: a breakpoint there would be hit again and again. It is also false for code that
///   runs without the breakpoint handler, for example before a CPU has loaded its vectors.
/// - The breakpoint handler follows the [rules](sdt_core::trap#rules-for-the-handler) of sites, and leaves at least
///   [`free_stack`](Self::free_stack) bytes between the interrupted stack pointer and its own data while it calls
///   `Dtrace::function_hit`.
/// - [`Patcher::synchronise`] and [`Host::sync`](crate::Host::sync) return only after each CPU has left the breakpoint handler
///   that it was in at the time of the call. It is enough to wait until each CPU has answered an interrupt that breakpoint
///   handlers mask.
pub unsafe trait FunctionText: Sync {
    /// Returns the build ID (`NT_GNU_BUILD_ID`) of the image. Consumers have to send the functions of the same file.
    fn build_id(&self) -> &[u8];

    /// Returns the difference between the address of text in memory and in the file of the image: 0 unless the kernel was
    /// relocated.
    fn slide(&self) -> u64 {
        0
    }

    /// Returns the [difference](Self::slide) for the image with this build ID; `None` if the host has no such image. A
    /// host with several images, such as a kernel with modules, or a process with shared libraries, returns the difference for each of
    /// them. Before it unloads one, it calls [`Dtrace::remove_functions`](crate::Dtrace::remove_functions).
    fn slide_of(&self, build_id: &[u8]) -> Option<u64> {
        (build_id == self.build_id()).then(|| self.slide())
    }

    /// Returns the name of the provider.
    fn provider(&self) -> &CStr {
        c"fbt"
    }

    /// Returns whether consumers may trace the instruction at an address.
    fn is_traceable(&self, address: u64, length: usize) -> bool;

    /// Returns the number of bytes that the breakpoint handler leaves free below the interrupted stack pointer. Instructions that
    /// store further below, such as a `push` without any, are not traced.
    fn free_stack(&self) -> u64;

    /// Returns the addresses of the functions that the breakpoint handler calls. Consumers do not trace these, nor functions
    /// that these call directly.
    fn handlers(&self) -> &[u64];

    /// Offers a site that was added, or that a consumer has sent again: the address of its instruction in memory, the bytes of the
    /// instruction, and the bytes around it that a jump may overwrite. Without a window, no jump may overwrite the instruction, also if the
    /// same site was offered with one.
    ///
    /// A host that jumps replaces the breakpoint by a jump later, in [`Patcher::synchronise`]. The jump leads to code of the host that calls
    /// [`Dtrace::function_record`](crate::Dtrace::function_record), executes the overwritten instructions, and jumps back. When the
    /// framework stores the instruction again, the host may keep the jump until the next call of `synchronise`. The window is the
    /// claim of a consumer: code may jump into it. Called with the framework's lock held.
    ///
    /// Returns whether the host has to remove a jump, because the site has no window now, or is in the window of another one: the framework
    /// then calls `synchronise`.
    fn offer(&self, _address: u64, _code: &[u8], _window: Option<Window>) -> bool {
        false
    }

    /// Replaces, in a copy of the text at an address, the bytes that jumps of the host have overwritten by the original ones. Called with the
    /// framework's lock held.
    fn restore(&self, _address: u64, _text: &mut [u8]) {}

    /// Returns whether a jump that the host has stored is at the site with this address, or overwrites its first byte. Called with the
    /// framework's lock held.
    fn holds_jump(&self, _address: u64) -> bool {
        false
    }

    /// Takes an [offer](Self::offer) back: the site is removed, and its text has its instruction again. Called with the framework's lock
    /// held.
    fn withdraw(&self, _address: u64) {}

    /// Returns the interface by which the text is changed.
    fn patcher(&self) -> &'static dyn Patcher;
}
