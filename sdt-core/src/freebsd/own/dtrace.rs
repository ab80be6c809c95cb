//! `dtrace_register` and its family, as a [`Framework`].
//!
//! Prototypes: `sys/cddl/contrib/opensolaris/uts/common/sys/dtrace.h` (main). The module has to depend
//! on `dtrace` for these symbols to resolve.

use core::ffi::{CStr, c_char, c_int, c_void};

use crate::frames;
use crate::freebsd::cpu;
use crate::ops::{
    Framework, FrameworkError, GetArgVal, Privileges, ProbeId, ProviderAttr, ProviderId,
    ProviderOps,
};

unsafe extern "C" {
    fn dtrace_register(
        name: *const c_char,
        attr: *const ProviderAttr,
        privileges: u32,
        cred: *mut c_void,
        ops: *const ProviderOps,
        arg: *mut c_void,
        id: *mut usize,
    ) -> c_int;
    fn dtrace_unregister(id: usize) -> c_int;
    fn dtrace_probe_lookup(
        id: usize,
        module: *const c_char,
        function: *const c_char,
        name: *const c_char,
    ) -> u32;
    fn dtrace_probe_create(
        id: usize,
        module: *const c_char,
        function: *const c_char,
        name: *const c_char,
        aframes: c_int,
        parg: *mut c_void,
    ) -> u32;
    // Any context; does not check the id.
    safe fn dtrace_probe(id: u32, arg0: usize, arg1: usize, arg2: usize, arg3: usize, arg4: usize);
    safe fn dtrace_sync();
}

/// The kernel's DTrace.
#[derive(Clone, Copy, Debug)]
pub struct Dtrace;

impl Dtrace {
    /// Returns when every CPU has been out of probe context at least once (`dtrace_sync`). Sleeps.
    pub fn sync(self) {
        dtrace_sync();
    }
}

impl Framework for Dtrace {
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
        let mut id = 0;
        // SAFETY: all pointers are good for the call, and the kernel copies what it keeps. The ops
        // are sound by the caller's contract.
        let errno = unsafe {
            let cred = core::ptr::null_mut();
            dtrace_register(name.as_ptr(), attr, privileges.bits(), cred, ops, arg, &mut id)
        };
        if errno == 0 { Ok(ProviderId(id)) } else { Err(FrameworkError::from_errno(errno)) }
    }

    fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        // SAFETY: an id that `register` returned and that was not unregistered since.
        match unsafe { dtrace_unregister(provider.0) } {
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
        // SAFETY: as in `unregister`; the strings are good for the call.
        ProbeId::new(unsafe {
            dtrace_probe_lookup(provider.0, module.as_ptr(), function.as_ptr(), name.as_ptr())
        })
    }

    fn probe_create(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        let (module, function, name) = (module.as_ptr(), function.as_ptr(), name.as_ptr());
        // SAFETY: as in `probe_lookup`; the kernel copies the strings.
        let id = unsafe {
            dtrace_probe_create(provider.0, module, function, name, aframes as c_int, parg)
        };
        // The kernel always succeeds, or sleeps until it can.
        ProbeId::new(id).ok_or(FrameworkError::Full)
    }

    // `dtrace_probe` looks the id up without a check, so a probe must not go between the last look at it and
    // that. It goes only after it was disabled and `dtrace_sync` has interrupted every CPU since.
    #[inline(always)]
    fn begin(&self) -> usize {
        cpu::interrupts_off()
    }

    #[inline(always)]
    fn end(&self, begun: usize) {
        cpu::interrupts_restore(begun);
    }

    #[inline(always)]
    fn probe(&self, id: ProbeId, args: &[u64; 6]) {
        let [arg0, arg1, arg2, arg3, arg4, _] = args.map(|arg| arg as usize);
        dtrace_probe(id.get(), arg0, arg1, arg2, arg3, arg4);
    }
}

/// The sixth argument, which `dtrace_probe` does not carry: still on the stack of the hit that is being
/// recorded, further up. Probe context.
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
