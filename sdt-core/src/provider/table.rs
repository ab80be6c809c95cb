//! The functions of the ops table with which an image registers its providers. They work on the records of the image.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use crate::attach::Refusal;
use crate::fire::AFRAMES;
use crate::ops::{ARG_NONE, ArgDesc, Name, ProbeDesc, ProviderOps};
use crate::patch::{self, PatchError};
use crate::record::{Probe, Provider};
use crate::route::attachment::Attachment;

/// The ops table. `arg` is the [`Provider`], `parg` the primary [`Probe`].
///
/// No `getargval`: see [`Framework::getargval`](crate::ops::Framework::getargval).
pub(crate) const OPS: ProviderOps = ProviderOps {
    provide: Some(provide),
    provide_module: None,
    enable: Some(enable),
    disable: Some(disable),
    suspend: None,
    resume: None,
    getargdesc: Some(getargdesc),
    getargval: None,
    usermode: None,
    destroy: Some(destroy),
};

/// Registers the provider of this name if it is not registered, and creates those of its probes that do not exist. No other
/// function creates probes, so no probe is created twice.
///
/// After an error, the provider and some of its probes may be registered.
///
/// # Safety
/// The image stays until [`unregister`] has succeeded. One thread at a time.
pub(crate) unsafe fn register(
    attachment: &Attachment,
    provider: &'static Provider,
) -> Result<(), Refusal> {
    let framework = attachment.framework;
    let refusal = |probe, error| Refusal::new(provider.name(), probe, error);
    let id = match provider.id() {
        Some(id) => id,
        None => {
            let arg = core::ptr::from_ref(provider).cast_mut().cast();
            let ops = ProviderOps { getargval: framework.getargval(), ..OPS };
            let (name, attr) = (provider.name(), provider.attr());
            // SAFETY: the ops take any `arg`, and the image with the ops stays by the contract of this function.
            let id = unsafe { framework.register(name, attr, provider.privileges(), &ops, arg) }
                .map_err(|error| refusal(None, error))?;
            provider.set_id(Some(id));
            id
        }
    };
    for probe in provider.probes().filter(|probe| probe.id().is_none()) {
        let (module, name) = (attachment.module, probe.name());
        let parg = core::ptr::from_ref(probe).cast_mut().cast();
        // SAFETY: the provider is registered; the ops take a probe's record, a static, as `parg`.
        let created = unsafe {
            let function = attachment.function(probe);
            framework.probe_create(id, module, function.as_c_str(), name, AFRAMES, parg)
        };
        probe.set_id(Some(created.map_err(|error| refusal(Some(name), error))?));
    }
    Ok(())
}

/// Invalidates the provider of this name, if it is registered.
pub(crate) fn invalidate(attachment: &Attachment, provider: &Provider) {
    if let Some(id) = provider.id() {
        // SAFETY: a provider with an id is registered.
        unsafe { attachment.framework.invalidate(id) };
    }
}

/// Unregisters the provider of this name, if it is registered.
pub(crate) fn unregister(
    attachment: &Attachment,
    provider: &'static Provider,
) -> Result<(), Refusal> {
    let Some(id) = provider.id() else { return Ok(()) };
    // SAFETY: a provider with an id is registered.
    unsafe { attachment.framework.unregister(id) }
        .map_err(|error| Refusal::new(provider.name(), None, error))?;
    provider.set_id(None);
    // The framework may not have called `destroy` for each probe.
    provider.probes().for_each(|probe| probe.set_id(None));
    Ok(())
}

/// Does nothing: probes are created when the provider is registered. The op exists because a framework requires
/// `provide` or `provide_module`.
unsafe extern "C" fn provide(_: *mut c_void, _: *const ProbeDesc) {}

unsafe extern "C" fn enable(_: *mut c_void, id: u32, parg: *mut c_void) -> c_int {
    // SAFETY: the framework passes the registered `parg`, the address of a primary record, which is a static.
    let probe = unsafe { &*parg.cast::<Probe>() };
    // Stored before the sites are patched, because a patched site fires at once.
    probe.enabled_id().store(id, Ordering::Release);
    let result = patch::enable(probe);
    if result.is_err() {
        probe.enabled_id().store(0, Ordering::Release);
    }
    result.err().map_or(0, PatchError::errno)
}

unsafe extern "C" fn disable(_: *mut c_void, _: u32, parg: *mut c_void) {
    // SAFETY: the framework passes the registered `parg`, the address of a primary record, which is a static.
    let probe = unsafe { &*parg.cast::<Probe>() };
    // The op `disable` returns nothing, and the patcher has reported the error.
    patch::disable(probe).ok();
    if !patch::is_enabled(probe) {
        // A hit that has already left its site finds this 0, and the framework ignores it.
        probe.enabled_id().store(0, Ordering::Release);
    }
}

unsafe extern "C" fn destroy(_: *mut c_void, _: u32, parg: *mut c_void) {
    // SAFETY: the framework passes the registered `parg`, the address of a primary record, which is a static.
    unsafe { &*parg.cast::<Probe>() }.set_id(None);
}

unsafe extern "C" fn getargdesc(_: *mut c_void, _: u32, parg: *mut c_void, desc: *mut ArgDesc) {
    // SAFETY: the framework passes the registered `parg`, the address of a primary record, which is a static; the
    // description is this op's to fill during the call.
    let (probe, desc) = unsafe { (&*parg.cast::<Probe>(), &mut *desc) };
    let args = probe.primary().args();
    let index = usize::try_from(desc.ndx).ok();
    let arg = args.zip(index).and_then(|(mut args, index)| args.nth(index));
    let Some(arg) = arg else {
        desc.ndx = ARG_NONE;
        return;
    };
    desc.mapping = desc.ndx;
    desc.native = Name::cut(arg.native.as_bytes());
    if let Some(translated) = &arg.translated {
        desc.xlate = Name::cut(translated.as_bytes());
    }
}
