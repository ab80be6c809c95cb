//! The functions as a framework.

use core::ffi::{CStr, c_int, c_void};
use core::fmt;

use super::Functions;
use crate::frames;
use crate::ops::{
    Framework, FrameworkError, GetArgVal, Privileges, ProbeId, ProviderAttr, ProviderId,
    ProviderOps,
};

/// What differs between the kernels that have DTrace.
pub trait Kernel: fmt::Debug + Sync {
    /// DTrace's functions. Called by who has a provider, or is about to register one. Any context.
    fn functions(&self) -> &'static Functions;
    /// Turns interrupts off on this CPU; how they were. Any context; is not traced.
    fn interrupts_off(&self) -> usize;
    /// Puts interrupts back as they were. Any context; is not traced.
    fn interrupts_restore(&self, were: usize);
}

/// This kernel's DTrace.
#[derive(Clone, Copy, Debug)]
pub struct Dtrace<K>(pub K);

impl<K: Kernel> Framework for Dtrace<K> {
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
        // SAFETY: all pointers are good for the call, and the kernel copies what it keeps. The ops
        // are sound by the caller's contract.
        let errno = unsafe {
            register(name.as_ptr(), attr, privileges.bits(), cred, ops, arg, &raw mut id)
        };
        if errno == 0 { Ok(ProviderId(id)) } else { Err(FrameworkError::from_errno(errno)) }
    }

    fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        // SAFETY: an id that `register` returned and that was not unregistered since.
        match unsafe { (self.0.functions().unregister)(provider.0) } {
            0 => Ok(()),
            errno => Err(FrameworkError::from_errno(errno)),
        }
    }

    fn probe_lookup(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        let lookup = self.0.functions().probe_lookup;
        // SAFETY: as in `unregister`; the strings are good for the call.
        ProbeId::new(unsafe {
            lookup(provider.0, module.as_ptr(), function.as_ptr(), name.as_ptr())
        })
    }

    #[expect(
        clippy::not_unsafe_ptr_arg_deref,
        reason = "DTrace hands it to the provider's functions and does not look at what it points to"
    )]
    fn probe_create(
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
        // SAFETY: as in `probe_lookup`; the kernel copies the strings.
        let id = unsafe { create(provider.0, module, function, name, aframes as c_int, parg) };
        // The kernel always succeeds, or sleeps until it can.
        ProbeId::new(id).ok_or(FrameworkError::Full)
    }

    // `dtrace_probe` looks the id up without a check, so a probe must not go between the last look at it and
    // that. It goes only after it was disabled and `dtrace_sync` has interrupted every CPU since.
    #[inline(always)]
    fn begin(&self) -> usize {
        self.0.interrupts_off()
    }

    #[inline(always)]
    fn end(&self, begun: usize) {
        self.0.interrupts_restore(begun);
    }

    #[inline(always)]
    fn probe(&self, id: ProbeId, args: &[u64; 6]) {
        let probe = self.0.functions().probe;
        let [arg0, arg1, arg2, arg3, arg4, _] = args.map(|arg| arg as usize);
        // SAFETY: the probe is there, see `begin`.
        unsafe { probe(id.get(), arg0, arg1, arg2, arg3, arg4) };
    }
}

/// The sixth argument, which `dtrace_probe` does not carry: still on the stack of the hit that is being
/// recorded, further up. Others there are not. Probe context.
///
/// illumos's fbt passes over functions that are called `dtrace_...`, and it must pass over this one, which
/// `dtrace_probe` calls. FreeBSD's passes over modules that depend on `dtrace`.
#[cfg_attr(target_os = "illumos", unsafe(export_name = "dtrace_sdt_getargval"))]
unsafe extern "C" fn getargval(
    _: *mut c_void,
    _: u32,
    _: *mut c_void,
    argno: c_int,
    _: c_int,
) -> u64 {
    // SAFETY: called by `dtrace_probe` on the stack of the hit; the kernel and this module are
    // compiled with frame pointers.
    let args = unsafe { frames::args_of_hit() };
    usize::try_from(argno).ok().and_then(|n| args.get(n)).copied().unwrap_or(0)
}
