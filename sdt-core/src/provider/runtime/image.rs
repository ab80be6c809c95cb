//! The runtime providers of the image, for attaching and detaching it. Only the thread with the right to change the
//! attachment calls these functions.

use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::{PROVIDERS, Provider};
use crate::ops::FrameworkError;

/// A provider that the framework refused, with the error.
type Refused = (&'static Provider, FrameworkError);

/// The first provider of the list; each links to the next one.
static FIRST: AtomicPtr<Provider> = AtomicPtr::new(core::ptr::null_mut());

fn all() -> impl Iterator<Item = &'static Provider> {
    // SAFETY: null, or `add` or `remove` stored the address of a static.
    core::iter::successors(unsafe { FIRST.load(Ordering::Acquire).as_ref() }, |provider| unsafe {
        provider.next.load(Ordering::Acquire).as_ref()
    })
}

/// Returns whether a provider of the image has that name.
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

/// Removes a provider from the list.
pub(super) fn remove(provider: &Provider) {
    let before = all().find(|other| core::ptr::eq(other.next.load(Ordering::Acquire), provider));
    let link = before.map_or(&FIRST, |before| &before.next);
    link.store(provider.next.load(Ordering::Acquire), Ordering::Release);
}

/// Registers the providers that are not registered. After an error, some may have been registered.
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

/// Invalidates the registered providers.
pub(crate) fn invalidate_all() {
    for provider in all() {
        if let (Some(id), Some(within)) = (provider.id(), provider.within()) {
            // SAFETY: a provider with an id is registered.
            unsafe { within.framework.invalidate(id) };
        }
    }
}

/// Unregisters all providers. Returns the first refusal.
pub(crate) fn unregister_all() -> Result<(), Refused> {
    let refusals = all().filter_map(|provider| {
        // Another thread is adding or removing a probe.
        let done = provider.change().map_or(Err(FrameworkError::Busy), |_| provider.unregister());
        done.err().map(|error| (provider, error))
    });
    // All of them, even after a refusal.
    let first = refusals.fold(None, |first: Option<Refused>, next| first.or(Some(next)));
    first.map_or(Ok(()), Err)
}
