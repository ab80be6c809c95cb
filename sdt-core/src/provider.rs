//! The provider every image is to its framework: the functions of the ops table, over the records.

use core::ffi::{c_char, c_int, c_void};

use crate::attach::{self, Attachment};
use crate::fire::AFRAMES;
use crate::ops::{ARG_NONE, ARG_TYPE_LEN, ArgDesc, FrameworkError, ProbeDesc, ProviderOps};
use crate::patch;
use crate::record::{PROBES, Probe, Provider};

/// The function part of the probes' descriptions: one probe may fire in many functions, so it names
/// none of them, as FreeBSD's sdt has it.
const FUNCTION: &core::ffi::CStr = c"none";

/// The ops table. `arg` is the [`Provider`], `parg` the primary [`Probe`].
///
/// No `getargval`: see [`Framework::probe`](crate::ops::Framework::probe). A binding whose framework
/// carries five arguments only adds its own.
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

/// Registers the provider of this name.
///
/// # Safety
/// The image stays until [`unregister`] has succeeded.
pub(crate) unsafe fn register(
    attachment: &Attachment,
    provider: &'static Provider,
) -> Result<(), FrameworkError> {
    let arg = core::ptr::from_ref(provider).cast_mut().cast();
    let ops = ProviderOps { getargval: attachment.framework.getargval(), ..OPS };
    // SAFETY: the ops take the provider's record, a static of this image, as `arg`.
    let id = unsafe {
        attachment.framework.register(
            provider.name(),
            provider.attr(),
            provider.privileges(),
            &ops,
            arg,
        )
    }?;
    provider.set_id(Some(id));
    // The framework could call `provide` before it had told us the id.
    provide_all(attachment, provider);
    Ok(())
}

/// Unregisters the provider of this name, if it is registered.
pub(crate) fn unregister(
    attachment: &Attachment,
    provider: &'static Provider,
) -> Result<(), FrameworkError> {
    let Some(id) = provider.id() else { return Ok(()) };
    attachment.framework.unregister(id)?;
    provider.set_id(None);
    Ok(())
}

/// Creates those of the provider's probes that do not exist.
fn provide_all(attachment: &Attachment, provider: &Provider) {
    let Some(id) = provider.id() else { return };
    let framework = attachment.framework;
    let primaries = PROBES.iter().filter(|probe| core::ptr::eq(probe.primary(), *probe));
    for probe in primaries.filter(|probe| probe.provider().name() == provider.name()) {
        let (module, name) = (attachment.module, probe.name());
        if probe.id().is_none() && framework.probe_lookup(id, module, FUNCTION, name).is_none() {
            let parg = core::ptr::from_ref(probe).cast_mut().cast();
            // A framework whose table is full refuses; the probe is not listed, and is tried
            // again when a consumer asks next.
            probe.set_id(framework.probe_create(id, module, FUNCTION, name, AFRAMES, parg).ok());
        }
    }
}

unsafe extern "C" fn provide(arg: *mut c_void, _: *const ProbeDesc) {
    // SAFETY: `arg` is what `register` gave: a provider's record.
    let provider = unsafe { &*arg.cast::<Provider>() };
    if let Some(attachment) = attach::current() {
        provide_all(attachment, provider);
    }
}

unsafe extern "C" fn enable(_: *mut c_void, _: u32, parg: *mut c_void) -> c_int {
    // SAFETY: `parg` is what `provide_all` gave: a probe's record.
    patch::enable(unsafe { &*parg.cast::<Probe>() });
    0
}

unsafe extern "C" fn disable(_: *mut c_void, _: u32, parg: *mut c_void) {
    // SAFETY: as in `enable`.
    patch::disable(unsafe { &*parg.cast::<Probe>() });
}

unsafe extern "C" fn destroy(_: *mut c_void, _: u32, parg: *mut c_void) {
    // SAFETY: as in `enable`.
    unsafe { &*parg.cast::<Probe>() }.set_id(None);
}

unsafe extern "C" fn getargdesc(_: *mut c_void, _: u32, parg: *mut c_void, desc: *mut ArgDesc) {
    // SAFETY: as in `enable`; the framework gives a description to fill.
    let (probe, desc) = unsafe { (&*parg.cast::<Probe>(), &mut *desc) };
    let arg = usize::try_from(desc.ndx)
        .ok()
        .and_then(|index| probe.primary().args().unwrap_or_default().get(index));
    let Some(arg) = arg else {
        desc.ndx = ARG_NONE;
        return;
    };
    desc.mapping = desc.ndx;
    desc.native = c_chars(arg.native.as_bytes());
    if let Some(translated) = &arg.translated {
        desc.xlate = c_chars(translated.as_bytes());
    }
}

fn c_chars(bytes: &[u8; ARG_TYPE_LEN]) -> [c_char; ARG_TYPE_LEN] {
    bytes.map(|byte| byte as c_char)
}
