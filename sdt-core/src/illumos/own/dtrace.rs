//! `dtrace_register` and its family, as a [`Framework`]: what the companion has handed over.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::cpu;
use crate::frames;
use crate::illumos::companion::Functions;
use crate::ops::{
    Framework, FrameworkError, GetArgVal, Privileges, ProbeId, ProviderAttr, ProviderId,
    ProviderOps,
};

/// DTrace's functions; null until a companion has been loaded.
static FUNCTIONS: AtomicPtr<Functions> = AtomicPtr::new(core::ptr::null_mut());

/// # Safety
/// `functions` are DTrace's, and stay as long as any provider is registered.
pub(super) unsafe fn hand_over(functions: *const Functions) {
    FUNCTIONS.store(functions.cast_mut(), Ordering::Release);
}

/// The functions, for who has a provider or is about to register one.
fn functions() -> &'static Functions {
    // SAFETY: `hand_over` comes before all that is called here, and by its contract they stay.
    unsafe { &*FUNCTIONS.load(Ordering::Acquire) }
}

/// The kernel's DTrace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dtrace;

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
        let (cred, mut id) = (core::ptr::null_mut(), 0);
        // SAFETY: all pointers are good for the call, and the kernel copies what it keeps. The ops
        // are sound by the caller's contract.
        let errno = unsafe {
            let register = functions().register;
            register(name.as_ptr(), attr, privileges.bits(), cred, ops, arg, &raw mut id)
        };
        if errno == 0 { Ok(ProviderId(id)) } else { Err(FrameworkError::from_errno(errno)) }
    }

    fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        // SAFETY: an id that `register` returned and that was not unregistered since.
        match unsafe { (functions().unregister)(provider.0) } {
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
        let (module, function, name) = (module.as_ptr(), function.as_ptr(), name.as_ptr());
        // SAFETY: as in `unregister`; the strings are good for the call.
        ProbeId::new(unsafe { (functions().probe_lookup)(provider.0, module, function, name) })
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
            let create = functions().probe_create;
            create(provider.0, module, function, name, aframes as c_int, parg)
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
        // SAFETY: the probe is there, see `begin`.
        unsafe { (functions().probe)(id.get(), arg0, arg1, arg2, arg3, arg4) };
    }
}

/// The sixth argument, which `dtrace_probe` does not carry: still on the stack of the hit that is being
/// recorded, further up. Probe context.
///
/// fbt passes over functions that are called `dtrace_...`. It must pass over this one, which `dtrace_probe` calls.
#[unsafe(export_name = "dtrace_sdt_getargval")]
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
