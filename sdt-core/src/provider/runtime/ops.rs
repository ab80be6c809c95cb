//! The ops table of a runtime provider.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use super::{Provider, Slot, saved};
use crate::ops::{ARG_NONE, ArgDesc, Framework, GetArgVal, Name, ProbeDesc, ProviderOps};

/// The ops table. `arg` is the [`Provider`], `parg` the probe's [`Slot`]; both are statics.
///
/// No op takes a lock, because the framework calls them with its own lock held, for which other threads may be waiting.
pub(super) fn table(framework: &dyn Framework) -> ProviderOps {
    ProviderOps {
        provide: Some(provide),
        provide_module: None,
        enable: Some(enable),
        disable: Some(disable),
        suspend: None,
        resume: None,
        getargdesc: Some(getargdesc),
        // Set if the framework drops arguments. It is not the framework's own op, because that one searches the stack
        // for the frame of a site.
        getargval: framework.getargval().map(|_| saved::getargval as GetArgVal),
        usermode: None,
        destroy: Some(destroy),
    }
}

/// Returns the slot of an op's probe.
///
/// # Safety
/// `parg` is the `parg` of an op here: `Provider::create` gives the framework the address of a slot.
unsafe fn slot(parg: *mut c_void) -> &'static Slot {
    // SAFETY: `parg` is the address of a slot, by the contract of this function; slots are statics.
    unsafe { &*parg.cast_const().cast() }
}

/// Returns the provider of an op.
///
/// # Safety
/// `arg` is the `arg` of an op here: `Provider::register` gives the framework the address of a provider.
unsafe fn provider(arg: *mut c_void) -> &'static Provider {
    // SAFETY: `arg` is the address of a provider, by the contract of this function; providers are statics.
    unsafe { &*arg.cast_const().cast() }
}

/// Creates the wanted probes that the framework does not know: it had no room for them, or destroyed them, as FreeBSD
/// does with the probes of a module before it asks whether the module can be unloaded. Then lets the provider's rules
/// add probes for the description.
unsafe extern "C" fn provide(arg: *mut c_void, wanted: *const ProbeDesc) {
    // SAFETY: the framework passes the registered `arg`, and a description that is valid for the call, or NULL.
    let (provider, wanted) = unsafe { (provider(arg), wanted.as_ref()) };
    provider.list();
    provider.provide(wanted);
}

unsafe extern "C" fn enable(arg: *mut c_void, id: u32, parg: *mut c_void) -> c_int {
    // SAFETY: the framework passes the `arg` and `parg` that were registered.
    let (provider, slot) = unsafe { (provider(arg), slot(parg)) };
    slot.enabled_id().store(id, Ordering::Release);
    if let Some(rules) = provider.rules {
        rules.enabled(&provider.probe(slot));
    }
    0
}

unsafe extern "C" fn disable(arg: *mut c_void, _: u32, parg: *mut c_void) {
    // SAFETY: the framework passes the `arg` and `parg` that were registered.
    let (provider, slot) = unsafe { (provider(arg), slot(parg)) };
    slot.enabled_id().store(0, Ordering::Release);
    if let Some(rules) = provider.rules {
        rules.disabled(&provider.probe(slot));
    }
}

unsafe extern "C" fn destroy(_: *mut c_void, _: u32, parg: *mut c_void) {
    // SAFETY: the framework passes the `arg` and `parg` that were registered.
    unsafe { slot(parg) }.destroyed();
}

unsafe extern "C" fn getargdesc(_: *mut c_void, _: u32, parg: *mut c_void, desc: *mut ArgDesc) {
    // SAFETY: the framework passes the registered `parg`, and a description that is this op's to fill during the call.
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
