//! Providers that are written in Rust: a trait instead of a table of C functions.
//!
//! For those whose probes are made as consumers ask for them, by rules of the provider's own. For probes that a program
//! adds and fires itself, with typed arguments and on other frameworks as well, there is [`sdt_core::runtime`].

mod own;
mod profile;

use core::ffi::{CStr, c_int, c_void};
use core::ptr::without_provenance_mut;

use dtrace_abi::limits::ARGUMENT_TYPE;
use dtrace_abi::name::Name;
use sdt_core::ops::{
    ARG_NONE, ArgDesc, Framework as _, FrameworkError, Privileges, ProbeDesc, ProbeId,
    ProviderAttr, ProviderId, ProviderOps,
};

pub(crate) use own::{Own, OwnProbes};
pub(crate) use profile::Profile;

use crate::dtrace::Dtrace;
use crate::host::Host;
use crate::sync::{AtomicUsize, Ordering};

/// What a provider knows of its probes, each of which it tells by a tag of its own.
///
/// A hit of one is [`Dtrace::probe`]. [`RuntimeProvider`] registers it.
pub trait Provider<H: Host>: Sync + Sized + 'static {
    /// [Creates](RuntimeProvider::create) the probes that there are of what is wanted; all, without a description.
    /// Called when the provider is registered and whenever a consumer looks for probes, by one thread at a time. A
    /// provider that has created them all has nothing to do.
    fn provide(&self, _registered: &RuntimeProvider<H, Self>, _wanted: Option<&ProbeDesc>) {}

    /// The probe got its first enabling: make it fire. The framework is locked: do not call it.
    fn enable(&self, probe: ProbeId, tag: usize);

    /// The probe lost its last enabling. The framework is locked: do not call it. It may still be hit for a moment.
    fn disable(&self, probe: ProbeId, tag: usize);

    /// The probe is gone. The framework is locked: do not call it.
    fn destroy(&self, _probe: ProbeId, _tag: usize) {}

    /// The type of an argument, from 0; `None` past the last. The framework is locked: do not call it.
    fn argument(&self, _probe: ProbeId, _tag: usize, _index: usize) -> Option<ArgumentType> {
        None
    }
}

/// The type of an argument: C names of at most 127 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentType {
    /// What the kernel passes.
    pub native: Name<ARGUMENT_TYPE>,
    /// What D sees; empty when nothing is translated.
    pub translated: Name<ARGUMENT_TYPE>,
}

/// A [`Provider`] and the framework that it registers with. Meant to be a `static`.
#[derive(Debug)]
pub struct RuntimeProvider<H: Host, P> {
    provider: P,
    framework: &'static Dtrace<H>,
    /// The [`ProviderId`], 0 while it is not registered.
    id: AtomicUsize,
}

impl<H: Host, P: Provider<H>> RuntimeProvider<H, P> {
    const OPS: ProviderOps = ProviderOps {
        provide: Some(provide::<H, P>),
        provide_module: None,
        enable: Some(enable::<H, P>),
        disable: Some(disable::<H, P>),
        suspend: None,
        resume: None,
        getargdesc: Some(getargdesc::<H, P>),
        getargval: None,
        usermode: None,
        destroy: Some(destroy::<H, P>),
    };

    /// A provider that is not registered.
    pub const fn new(framework: &'static Dtrace<H>, provider: P) -> Self {
        Self { provider, framework, id: AtomicUsize::new(0) }
    }

    /// The provider itself.
    pub const fn get(&self) -> &P {
        &self.provider
    }

    fn id(&self) -> Option<ProviderId> {
        Some(self.id.load(Ordering::Acquire)).filter(|id| *id != 0).map(ProviderId::new)
    }

    /// Registers it, and has it provide what it has.
    ///
    /// # Errors
    /// [`FrameworkError::Busy`] if it is registered; otherwise as [`register`](sdt_core::ops::Framework::register) of the
    /// framework.
    pub fn register(
        &'static self,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
    ) -> Result<(), FrameworkError> {
        if self.id().is_some() {
            return Err(FrameworkError::Busy);
        }
        let arg = core::ptr::from_ref(self).cast_mut().cast();
        // SAFETY: the ops are those for a pointer to `Self`, which is static; they do not follow a probe's pointer.
        let id = unsafe { self.framework.register(name, attr, privileges, &Self::OPS, arg) }?;
        if self.id.compare_exchange(0, id.get(), Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Somebody else was faster.
            self.framework.invalidate(id);
            self.framework.unregister(id)?;
            return Err(FrameworkError::Busy);
        }
        // As the op could not: it did not know the id.
        let framework = self.framework;
        let _registration = framework.registration.lock();
        framework.providing(|| self.provider.provide(self, None));
        Ok(())
    }

    /// Unregisters it; its probes are destroyed.
    ///
    /// # Errors
    /// As [`Dtrace::unregister`]; [`FrameworkError::NotFound`] if it is not registered. Nothing has changed then.
    pub fn unregister(&self) -> Result<(), FrameworkError> {
        let id = self.id().ok_or(FrameworkError::NotFound)?;
        self.framework.unregister(id)?;
        self.id.store(0, Ordering::Release);
        Ok(())
    }

    /// The probe with these names, which is created if there is none. Its provider knows it by the tag.
    ///
    /// # Errors
    /// [`FrameworkError::Invalid`] for a name that is too long, [`FrameworkError::Full`],
    /// [`FrameworkError::NotFound`] if the provider is not registered.
    pub fn create(
        &self,
        module: &CStr,
        function: &CStr,
        name: &CStr,
        tag: usize,
    ) -> Result<ProbeId, FrameworkError> {
        let id = self.id().ok_or(FrameworkError::NotFound)?;
        let names = [module, function, name];
        self.framework.find_or_create(id, names, 0, without_provenance_mut(tag))
    }
}

/// # Safety
/// `arg` is a pointer to a static `RuntimeProvider<H, P>`, as of every op here.
unsafe fn runtime<H: Host, P>(arg: *mut c_void) -> &'static RuntimeProvider<H, P> {
    // SAFETY: the caller's contract.
    unsafe { &*arg.cast_const().cast() }
}

unsafe extern "C" fn provide<H: Host, P: Provider<H>>(arg: *mut c_void, desc: *const ProbeDesc) {
    // SAFETY: the ops' contract; the framework gives a description or NULL.
    let (this, desc) = unsafe { (runtime::<H, P>(arg), desc.as_ref()) };
    if this.id().is_some() {
        this.provider.provide(this, desc);
    }
}

unsafe extern "C" fn enable<H: Host, P: Provider<H>>(
    arg: *mut c_void,
    id: u32,
    parg: *mut c_void,
) -> c_int {
    // SAFETY: the ops' contract.
    let this = unsafe { runtime::<H, P>(arg) };
    if let Some(id) = ProbeId::new(id) {
        this.provider.enable(id, parg.addr());
    }
    0
}

unsafe extern "C" fn disable<H: Host, P: Provider<H>>(
    arg: *mut c_void,
    id: u32,
    parg: *mut c_void,
) {
    // SAFETY: the ops' contract.
    let this = unsafe { runtime::<H, P>(arg) };
    if let Some(id) = ProbeId::new(id) {
        this.provider.disable(id, parg.addr());
    }
}

unsafe extern "C" fn destroy<H: Host, P: Provider<H>>(
    arg: *mut c_void,
    id: u32,
    parg: *mut c_void,
) {
    // SAFETY: the ops' contract.
    let this = unsafe { runtime::<H, P>(arg) };
    if let Some(id) = ProbeId::new(id) {
        this.provider.destroy(id, parg.addr());
    }
}

unsafe extern "C" fn getargdesc<H: Host, P: Provider<H>>(
    arg: *mut c_void,
    id: u32,
    parg: *mut c_void,
    desc: *mut ArgDesc,
) {
    // SAFETY: the ops' contract; the framework gives a description to fill.
    let (this, desc) = unsafe { (runtime::<H, P>(arg), &mut *desc) };
    let index = usize::try_from(desc.ndx).ok();
    let found = ProbeId::new(id)
        .zip(index)
        .and_then(|(id, index)| this.provider.argument(id, parg.addr(), index));
    match found {
        Some(ArgumentType { native, translated }) => {
            desc.mapping = desc.ndx;
            (desc.native, desc.xlate) = (native, translated);
        }
        None => desc.ndx = ARG_NONE,
    }
}
