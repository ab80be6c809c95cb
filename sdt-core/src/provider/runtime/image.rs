//! The providers of the image that are made at run time, as far as attaching and detaching it is concerned. All of it is for
//! the thread that has the right to change the attachment.

use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::{PROVIDERS, Provider};
use crate::ops::FrameworkError;

/// A provider that the framework refused, and why.
type Refused = (&'static Provider, FrameworkError);

/// The first of them; each has the next one.
static FIRST: AtomicPtr<Provider> = AtomicPtr::new(core::ptr::null_mut());

fn all() -> impl Iterator<Item = &'static Provider> {
    // SAFETY: null, or stored by `add` and `remove` from statics.
    core::iter::successors(unsafe { FIRST.load(Ordering::Acquire).as_ref() }, |provider| unsafe {
        provider.next.load(Ordering::Acquire).as_ref()
    })
}

/// Whether a provider of the image has that name.
pub(super) fn has(name: &CStr) -> bool {
    let made = |provider: &Provider| {
        provider.opened().is_some_and(|opened| opened.name.as_c_str() == name)
    };
    PROVIDERS.iter().any(|provider| provider.name() == name) || all().any(made)
}

pub(super) fn add(provider: &'static Provider) {
    provider.next.store(FIRST.load(Ordering::Acquire), Ordering::Release);
    FIRST.store(core::ptr::from_ref(provider).cast_mut(), Ordering::Release);
}

/// Takes out one that was added.
pub(super) fn remove(provider: &Provider) {
    let before = all().find(|other| core::ptr::eq(other.next.load(Ordering::Acquire), provider));
    let link = before.map_or(&FIRST, |before| &before.next);
    link.store(provider.next.load(Ordering::Acquire), Ordering::Release);
}

/// Registers those that are not registered. On an error part of it may have been done.
///
/// # Safety
/// The image stays until [`unregister_all`] has succeeded.
pub(crate) unsafe fn register_all() -> Result<(), Refused> {
    for provider in all().filter(|provider| provider.id().is_none()) {
        // SAFETY: the image stays, by the contract of this function, and the filter above has found no id, so the provider is
        // not registered.
        unsafe { provider.register() }.map_err(|error| (provider, error))?;
    }
    Ok(())
}

/// Invalidates those that are registered.
pub(crate) fn invalidate_all() {
    for provider in all() {
        if let (Some(id), Some(within)) = (provider.id(), provider.within()) {
            // SAFETY: registered, as it has an id.
            unsafe { within.framework.invalidate(id) };
        }
    }
}

/// Unregisters all; says what was refused first.
pub(crate) fn unregister_all() -> Result<(), Refused> {
    let refusals = all().filter_map(|provider| {
        // Somebody is adding or removing a probe.
        let done = provider.change().map_or(Err(FrameworkError::Busy), |_| provider.unregister());
        done.err().map(|error| (provider, error))
    });
    // All of them, even if one refuses.
    let first = refusals.fold(None, |first: Option<Refused>, next| first.or(Some(next)));
    first.map_or(Ok(()), Err)
}
