//! DTrace's functions as a [`Framework`].

use core::ffi::{CStr, c_int, c_void};
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use super::Functions;
use crate::arg::Borrows;
use crate::ops::{
    ARGS, Framework, FrameworkError, GetArgVal, Privileges, ProbeId, ProviderAttr, ProviderId,
    ProviderOps,
};
use crate::route::frames;

/// The differences between the kernels that have DTrace.
///
/// # Safety
/// [`functions`](Self::functions) returns DTrace's functions. No other code runs on this CPU during
/// [`without_interrupts`](Self::without_interrupts), so that `dtrace_sync` waits for its end.
pub unsafe trait Kernel: fmt::Debug + Sync {
    /// Returns DTrace's functions. The caller has a provider, or is about to register one. Any context.
    fn functions(&self) -> &'static Functions;
    /// Runs `f` with interrupts off on this CPU, and leaves them as they were. Any context; is not traced, and
    /// inlined, so that it adds no frame.
    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R;
}

/// Number of frames of [`Binding::hit`](Framework::hit) itself: `dtrace_probe` returns to it, because it turns
/// interrupts on again.
const HIT_FRAMES: u32 = 1;

/// DTrace of this kernel.
#[derive(Clone, Copy, Debug)]
pub struct Binding<K>(pub K);

// SAFETY: DTrace calls the ops of a provider only with the registered `arg` and `parg`, in the documented contexts, and
// never after `dtrace_unregister` has succeeded. `hit` passes an id to `dtrace_probe` only while interrupts are off.
unsafe impl<K: Kernel> Framework for Binding<K> {
    fn getargval(&self) -> Option<GetArgVal> {
        Some(getargval)
    }

    unsafe fn register(
        &self,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
        ops: &ProviderOps,
        arg: *mut c_void,
    ) -> Result<ProviderId, FrameworkError> {
        let register = self.0.functions().register;
        let (cred, mut id) = (core::ptr::null_mut(), 0);
        // SAFETY: all pointers are valid during the call, and the kernel copies the data. The ops are sound by the
        // contract of this function.
        let errno = unsafe {
            register(name.as_ptr(), attr, privileges.bits(), cred, ops, arg, &raw mut id)
        };
        if errno == 0 { Ok(ProviderId::new(id)) } else { Err(FrameworkError::from_errno(errno)) }
    }

    unsafe fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        // SAFETY: the number of a registered provider, by the contract of this function.
        match unsafe { (self.0.functions().unregister)(provider.get()) } {
            0 => Ok(()),
            errno => Err(FrameworkError::from_errno(errno)),
        }
    }

    unsafe fn invalidate(&self, provider: ProviderId) {
        // SAFETY: the number of a registered provider, by the contract of this function.
        unsafe { (self.0.functions().invalidate)(provider.get()) };
    }

    unsafe fn condense(&self, provider: ProviderId) {
        // `dtrace_condense` returns no error.
        // SAFETY: the number of a registered provider, by the contract of this function.
        unsafe { (self.0.functions().condense)(provider.get()) };
    }

    unsafe fn probe_lookup(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        let lookup = self.0.functions().probe_lookup;
        // SAFETY: the number of a registered provider, by the contract of this function; the strings outlive the call.
        ProbeId::new(unsafe {
            lookup(provider.get(), module.as_ptr(), function.as_ptr(), name.as_ptr())
        })
    }

    unsafe fn probe_create(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        let create = self.0.functions().probe_create;
        let (module, function, name) = (module.as_ptr(), function.as_ptr(), name.as_ptr());
        // DTrace counts frames from its caller, which is `hit`.
        let aframes = aframes + HIT_FRAMES;
        // SAFETY: the number of a registered provider, by the contract of this function; the kernel copies the strings.
        let id = unsafe { create(provider.get(), module, function, name, aframes as c_int, parg) };
        // The kernel sleeps until it succeeds.
        ProbeId::new(id).ok_or(FrameworkError::Full)
    }

    // Not inlined, so that it has a frame: see `HIT_FRAMES`.
    #[inline(never)]
    unsafe fn hit(&self, id: &AtomicU32, args: &[u64; ARGS], _: Borrows) {
        let [arg0, arg1, arg2, arg3, arg4, ..] = args.map(|arg| arg as usize);
        self.0.without_interrupts(|| {
            let id = id.load(Ordering::Acquire);
            if id != 0 {
                // SAFETY: the probe was enabled when the id was loaded, by the contract of this function. The kernel destroys it
                // only after it was disabled and `dtrace_sync` has since interrupted every CPU, which waits for this code.
                unsafe { (self.0.functions().probe)(id, arg0, arg1, arg2, arg3, arg4) };
            }
        });
    }
}

/// Returns the sixth or a later argument, which `dtrace_probe` does not pass. It is on the stack of the hit that is
/// being recorded. Probe context.
///
/// fbt must skip this function, because `dtrace_probe` calls it. illumos's fbt skips functions named `dtrace_...`,
/// FreeBSD's skips modules that depend on `dtrace`.
#[cfg_attr(target_os = "illumos", unsafe(export_name = "dtrace_sdt_getargval"))]
unsafe extern "C" fn getargval(
    _: *mut c_void,
    _: u32,
    _: *mut c_void,
    argno: c_int,
    _: c_int,
) -> u64 {
    // SAFETY: `dtrace_probe` calls this on the stack of the hit, and the kernel and this module are compiled with frame
    // pointers.
    let args = unsafe { frames::args_of_hit() };
    usize::try_from(argno).ok().and_then(|n| args.get(n)).copied().unwrap_or(0)
}
