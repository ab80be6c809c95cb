//! The framework as the probes of this image see it.
//!
//! Sites and probes made at run time hit by the same function, but only a site's hit comes by a thunk, whose frame
//! [`stack`](crate::stack) looks for. So each hit notes first which of them it is: by the place of the probe's id, which is in a
//! record of the image for a probe that has sites.

use std::ffi::{CStr, c_void};
use std::sync::atomic::AtomicU32;

use sdt_core::attach;
use sdt_core::ops::{
    ARGS, Framework, FrameworkError, GetArgVal, Privileges, ProbeId, ProviderAttr, ProviderId,
    ProviderOps,
};
use sdt_framework::Dtrace;

use crate::cpus::Slots;
use crate::stack;

/// A framework that notes for each hit whether a site made it.
#[derive(Debug)]
pub(crate) struct Hits(pub(crate) &'static Dtrace<Slots>);

/// Whether this is the id of a probe of the image, which only sites hit.
fn is_of_site(id: &AtomicU32) -> bool {
    attach::probes().as_ptr_range().contains(&std::ptr::from_ref(id).cast())
}

// SAFETY: all of it is the other framework's.
unsafe impl Framework for Hits {
    fn getargval(&self) -> Option<GetArgVal> {
        self.0.getargval()
    }

    unsafe fn register(
        &self,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
        ops: &ProviderOps,
        arg: *mut c_void,
    ) -> Result<ProviderId, FrameworkError> {
        // SAFETY: the caller's contract.
        unsafe { self.0.register(name, attr, privileges, ops, arg) }
    }

    unsafe fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        // SAFETY: the caller's contract.
        unsafe { Framework::unregister(self.0, provider) }
    }

    unsafe fn invalidate(&self, provider: ProviderId) {
        // SAFETY: the caller's contract.
        unsafe { Framework::invalidate(self.0, provider) };
    }

    unsafe fn condense(&self, provider: ProviderId) {
        // SAFETY: the caller's contract.
        unsafe { Framework::condense(self.0, provider) };
    }

    unsafe fn probe_lookup(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        // SAFETY: the caller's contract.
        unsafe { Framework::probe_lookup(self.0, provider, module, function, name) }
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
        // SAFETY: the caller's contract.
        unsafe { self.0.probe_create(provider, module, function, name, aframes, parg) }
    }

    unsafe fn hit(&self, id: &AtomicU32, args: &[u64; ARGS]) {
        let here = stack::pointer();
        let _noted = stack::Noted::new(is_of_site(id).then_some(here));
        // SAFETY: the caller's contract.
        unsafe { self.0.hit(id, args) };
    }
}
