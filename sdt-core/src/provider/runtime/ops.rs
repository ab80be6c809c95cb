//! The ops table of a provider that is made at run time.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use super::{Provider, Slot, saved};
use crate::ops::{ARG_NONE, ArgDesc, Framework, GetArgVal, Name, ProbeDesc, ProviderOps};

/// The ops table. `arg` is the [`Provider`], `parg` the probe's [`Slot`]; both are statics.
///
/// No op takes a lock: the framework calls them with its own, under which others may be waiting.
pub(super) fn table(framework: &dyn Framework) -> ProviderOps {
    ProviderOps {
        provide: Some(provide),
        provide_module: None,
        enable: Some(enable),
        disable: Some(disable),
        suspend: None,
        resume: None,
        getargdesc: Some(getargdesc),
        // Where the framework asks for some; not its own op, which looks for sites.
        getargval: framework.getargval().map(|_| saved::getargval as GetArgVal),
        usermode: None,
        destroy: Some(destroy),
    }
}

/// # Safety
/// `parg` is a slot's address, as of every op here.
unsafe fn slot(parg: *mut c_void) -> &'static Slot {
    // SAFETY: by contract, a static.
    unsafe { &*parg.cast_const().cast() }
}

/// # Safety
/// `arg` is what `register` gave, as of every op here.
unsafe fn provider(arg: *mut c_void) -> &'static Provider {
    // SAFETY: by contract, a static.
    unsafe { &*arg.cast_const().cast() }
}

/// Lists what is to be listed and is not: the framework had no room, or has destroyed it, as FreeBSD's does with the probes of a
/// module before it asks whether that may go. Then what the provider's rules have of what is wanted.
unsafe extern "C" fn provide(arg: *mut c_void, wanted: *const ProbeDesc) {
    // SAFETY: the ops' contract; the framework gives a description or NULL.
    let (provider, wanted) = unsafe { (provider(arg), wanted.as_ref()) };
    provider.list();
    provider.provide(wanted);
}

unsafe extern "C" fn enable(arg: *mut c_void, id: u32, parg: *mut c_void) -> c_int {
    // SAFETY: the ops' contract.
    let (provider, slot) = unsafe { (provider(arg), slot(parg)) };
    slot.enabled_id().store(id, Ordering::Release);
    if let Some(rules) = provider.rules {
        rules.enabled(&slot.handle(provider));
    }
    0
}

unsafe extern "C" fn disable(arg: *mut c_void, _: u32, parg: *mut c_void) {
    // SAFETY: the ops' contract.
    let (provider, slot) = unsafe { (provider(arg), slot(parg)) };
    slot.enabled_id().store(0, Ordering::Release);
    if let Some(rules) = provider.rules {
        rules.disabled(&slot.handle(provider));
    }
}

unsafe extern "C" fn destroy(_: *mut c_void, _: u32, parg: *mut c_void) {
    // SAFETY: the ops' contract.
    unsafe { slot(parg) }.destroyed();
}

unsafe extern "C" fn getargdesc(_: *mut c_void, _: u32, parg: *mut c_void, desc: *mut ArgDesc) {
    // SAFETY: the ops' contract; the framework gives a description to fill.
    let (slot, desc) = unsafe { (slot(parg), &mut *desc) };
    let index = usize::try_from(desc.ndx).ok();
    let Some(arg) = index.and_then(|index| slot.args().get(index)) else {
        desc.ndx = ARG_NONE;
        return;
    };
    desc.mapping = desc.ndx;
    desc.native = Name::cut(arg.native.as_bytes());
    if let Some(translated) = &arg.translated {
        desc.xlate = Name::cut(translated.as_bytes());
    }
}
