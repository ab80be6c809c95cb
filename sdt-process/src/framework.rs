//! The framework to which the probes of this image are attached.
//!
//! Sites, and probes that are made at run time, call the same function, [`Framework::hit`]. Only a site calls it through a thunk,
//! whose frame [`stack`](crate::stack) searches for. So [`SiteFramework`] notes for each hit whether a site made it: the id of a
//! probe with sites is in a record of the image.

use std::ffi::{CStr, c_void};
use std::sync::atomic::AtomicU32;

use sdt_core::arg::Borrows;
use sdt_core::attach;
use sdt_core::ops::{
    ARGS, Framework, FrameworkError, GetArgVal, Privileges, ProbeId, ProviderAttr, ProviderId,
    ProviderOps,
};
use sdt_framework::Dtrace;

use crate::borrowed::Arguments;
use crate::slots::{self, Slots};
use crate::{own_stack, stack};

/// The framework, with a note for each hit whether a site made it.
#[derive(Debug)]
pub(crate) struct SiteFramework(pub(crate) &'static Dtrace<Slots>);

/// Returns whether this is the id of a probe in a record of the image. Only sites hit these.
fn is_of_site(id: &AtomicU32) -> bool {
    attach::probes().as_ptr_range().contains(&std::ptr::from_ref(id).cast())
}

// SAFETY: every function forwards to `Dtrace`, which keeps the contract of the trait.
unsafe impl Framework for SiteFramework {
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
        // SAFETY: the caller fulfils the contract of `Framework::register`, to which this function forwards.
        unsafe { self.0.register(name, attr, privileges, ops, arg) }
    }

    unsafe fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        // SAFETY: the caller fulfils the contract of `Framework::unregister`, to which this function forwards.
        unsafe { Framework::unregister(self.0, provider) }
    }

    unsafe fn invalidate(&self, provider: ProviderId) {
        // SAFETY: the caller fulfils the contract of `Framework::invalidate`, to which this function forwards.
        unsafe { Framework::invalidate(self.0, provider) };
    }

    unsafe fn condense(&self, provider: ProviderId) {
        // SAFETY: the caller fulfils the contract of `Framework::condense`, to which this function forwards.
        unsafe { Framework::condense(self.0, provider) };
    }

    unsafe fn probe_lookup(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        // SAFETY: the caller fulfils the contract of `Framework::probe_lookup`, to which this function forwards.
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
        // SAFETY: the caller fulfils the contract of `Framework::probe_create`, to which this function forwards.
        unsafe { self.0.probe_create(provider, module, function, name, aframes, parg) }
    }

    unsafe fn hit(&self, id: &AtomicU32, args: &[u64; ARGS], borrows: Borrows) {
        let here = own_stack::stack_pointer();
        // This check runs before any function with a large frame is called: the stack may be nearly full.
        let Some(room) = slots::room() else { return self.0.count_stray() };
        // SAFETY: the note is dropped before this function returns. Until then the words exist, and the ranges of `borrows` can be read, by
        // the contract of `Framework::hit`.
        let arguments = unsafe { Arguments::new(args, borrows) };
        let _note = stack::Note::new(is_of_site(id).then_some(here), room, arguments);
        // SAFETY: the caller fulfils the contract of `Framework::hit`, to which this function forwards.
        unsafe { self.0.hit(id, args, borrows) };
    }
}
