//! Attaching this image's probes to a framework, and detaching them.

mod error;
pub(crate) mod link;
mod sort;

use core::ffi::CStr;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

pub use error::{AttachError, DetachError, HandlerFault, Refusal, RefusedProvider};

use crate::arch;
use crate::atomic::AtomicU8;
use crate::ops::{FUNCTION_NAME_LEN, Framework, Name};
use crate::patch::{self, Mode, Patcher};
use crate::record::{self, PROBES, PROVIDERS, Probe, Provider};
use crate::route::changes::{self, Begun};
use crate::route::{runtime, table as provider};

pub use crate::record::RaggedSet;
pub use crate::route::changes::Standstill;

/// What an image's probes are attached to.
pub struct Attachment {
    /// Where providers are registered and hits go.
    pub framework: &'static dyn Framework,
    /// How text is written.
    pub patcher: &'static dyn Patcher,
    /// What enabled sites do.
    pub mode: Mode,
    /// The module part of the probes' descriptions: on FreeBSD the module's file name without
    /// `.ko`, as its unloading relies on that.
    pub module: &'static CStr,
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment").field("module", &self.module).finish_non_exhaustive()
    }
}

impl Attachment {
    /// The function part of a probe's description: that of all its sites, if it is one and the host knows it.
    pub(crate) fn function(&self, probe: &Probe) -> Name<FUNCTION_NAME_LEN> {
        let mut functions = probe.sites().map(|site| self.patcher.function(site.patchpoint()));
        match functions.next().flatten() {
            Some(first) if functions.all(|other| other == Some(first)) => first,
            _ => Name::cut(b"none"),
        }
    }
}

/// The attachment in force, null while there is none.
static CURRENT: AtomicPtr<Attachment> = AtomicPtr::new(core::ptr::null_mut());

/// Whether the records have been checked, sorted and tied together.
static LINKED: AtomicBool = AtomicBool::new(false);

/// How far the image is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    /// The framework knows nothing of it.
    Detached = 0,
    /// A thread is attaching or detaching it.
    Changing = 1,
    /// It is attached.
    Attached = 2,
    /// It could not be attached, and a provider of it is still registered, but invalidated.
    Leaving = 3,
}

/// A [`State`], by number.
static STATE: AtomicU8 = AtomicU8::new(State::Detached as u8);

/// The right to attach and detach, which one thread has at a time.
///
/// It is no lock, because its owner calls the framework, which sleeps. No thread waits for it (except for a [`Standstill`] to
/// end): the kernels' linkers load and unload a module once at a time, so a second thread gets an error.
pub(crate) struct Change {
    from: State,
    /// What it leaves behind when it is dropped.
    to: State,
    _begun: Begun<'static>,
}

impl Change {
    /// `None` while another thread has it.
    pub(crate) fn begin() -> Option<Self> {
        let begun = changes::begin();
        // Acquire and, in `drop`, Release: what one thread wrote is there for the next.
        let from = match STATE.swap(State::Changing as u8, Ordering::Acquire) {
            0 => State::Detached,
            2 => State::Attached,
            3 => State::Leaving,
            _ => return None,
        };
        Some(Self { from, to: from, _begun: begun })
    }

    /// The attachment, if the image is attached.
    pub(crate) fn attached(&self) -> Option<&'static Attachment> {
        current().filter(|_| self.from == State::Attached)
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        STATE.store(self.to as u8, Ordering::Release);
    }
}

/// The attachment in force. Probe context.
pub(crate) fn current() -> Option<&'static Attachment> {
    // SAFETY: null, or stored by `attach` from a `&'static`.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// The module part of the probes' descriptions, once the image is attached. Any context.
pub fn module() -> Option<&'static CStr> {
    current().map(|attachment| attachment.module)
}

/// Returns the records of the probes that this image declares and fires. Several may stand for one logical probe.
///
/// Any context.
pub fn probes() -> &'static [Probe] {
    &PROBES
}

/// Returns the records of the providers that this image declares. Several may stand for one provider.
///
/// Any context.
pub fn providers() -> &'static [Provider] {
    &PROVIDERS
}

/// Returns whether the sites have been linked, and so can be looked up. Probe context.
pub(crate) fn is_linked() -> bool {
    LINKED.load(Ordering::Acquire)
}

/// Attaches all probes of this image: checks their records, then registers their providers with the
/// framework and creates the probes.
///
/// May sleep, and holds no lock; not in probe context.
///
/// # Safety
/// - The breakpoint handler of the kernel must consult
///   [`resume_address`](crate::trap::resume_address) before any probe is enabled, and until
///   [`detach`] has succeeded and every CPU has since left the handler.
/// - Before this image is unloaded, [`detach`] must have succeeded, or `attach` failed with an error that does
///   not say [otherwise](AttachError::must_stay); no code of the image may be running or called any more, and
///   every CPU must since have left the breakpoint handler.
/// - The first time, no reference to the image's sites ([`record::sites`]) exists, because this sorts them.
/// - When the image was attached to another framework before, no thread is on its way there from a site.
///
/// # Errors
/// See [`AttachError`]. Nothing stays registered, unless the error [says so](AttachError::must_stay).
pub unsafe fn attach(attachment: &'static Attachment) -> Result<(), AttachError> {
    let mut change = Change::begin().ok_or(AttachError::InProgress)?;
    match (change.from, current()) {
        (State::Leaving, Some(former)) => leave(former).map_err(AttachError::Leaving)?,
        (State::Attached, _) => return Err(AttachError::Attached),
        _ => {}
    }
    change.to = State::Detached;
    if cfg!(sdt_site = "patched") {
        arch::handler::check_handler().map_err(AttachError::Handler)?;
    }
    if !is_linked() {
        // SAFETY: the image was never attached, so no probe was ever enabled, and `site::all` and `resume_address` find no
        // site until `LINKED` is set; by the contract of this function there is no other reference to them.
        unsafe { link::link(record::all()?, attachment.patcher) }?;
        LINKED.store(true, Ordering::Release);
    }
    CURRENT.store(core::ptr::from_ref(attachment).cast_mut(), Ordering::Release);
    // SAFETY: the caller keeps the image until they are unregistered.
    if let Err(cause) = unsafe { register(attachment) } {
        // A consumer that is open does not keep an invalidated provider, but one that has enabled a
        // probe of it meanwhile does.
        primaries().for_each(|registered| provider::invalidate(attachment, registered));
        runtime::invalidate_all();
        return Err(match leave(attachment) {
            Ok(()) => AttachError::Framework(cause),
            Err(held) => {
                change.to = State::Leaving;
                AttachError::MustStay { cause, held }
            }
        });
    }
    change.to = State::Attached;
    Ok(())
}

/// Registers the providers that are not registered. After an error some of them may be registered.
///
/// # Safety
/// The image stays until all of it has been unregistered.
unsafe fn register(attachment: &Attachment) -> Result<(), Refusal> {
    // SAFETY: the image stays until all of it has been unregistered, by the contract of this function.
    unsafe {
        primaries().try_for_each(|provider| provider::register(attachment, provider))?;
        runtime::register_all()
    }
}

/// Detaches all probes of this image: unregisters their providers, those that were made at [run time](runtime), too, which are
/// registered again when the image is attached again. Afterwards no site traps and no hit
/// reaches the framework. Without an attachment nothing happens.
///
/// May sleep, and holds no lock; not in probe context.
///
/// # Errors
/// [`DetachError::Refused`] while a probe is enabled (or as the framework has it, a consumer is
/// open). Then everything is as it was and goes on working. After any error the caller must not unload the image.
pub fn detach() -> Result<(), DetachError> {
    let mut change = Change::begin().ok_or(DetachError::InProgress)?;
    let Some(attachment) = current() else { return Ok(()) };
    if change.from == State::Leaving {
        leave(attachment).map_err(DetachError::Refused)?;
    }
    let mut gone = primaries().map(|provider| provider::unregister(attachment, provider));
    if let Err(refusal) = runtime::unregister_all().and_then(|()| gone.try_for_each(|gone| gone)) {
        // Not only providers may be gone: FreeBSD destroys a module's probes before it asks the module
        // whether it can be unloaded.
        // SAFETY: as when they were registered first: `detach` has not succeeded.
        let is_whole = primaries()
            .map(|provider| unsafe { provider::register(attachment, provider) })
            .chain([unsafe { runtime::register_all() }])
            .fold(true, |is_whole, registered| is_whole & registered.is_ok());
        let error = if is_whole { DetachError::Refused } else { DetachError::Reduced };
        return Err(error(refusal));
    }
    // A batch of another thread may be about to.
    patch::settle();
    CURRENT.store(core::ptr::null_mut(), Ordering::Release);
    change.to = State::Detached;
    Ok(())
}

/// Unregisters what could not be attached as a whole. On an error something is still registered.
fn leave(attachment: &Attachment) -> Result<(), Refusal> {
    let refusals = primaries()
        .filter_map(|provider| provider::unregister(attachment, provider).err())
        .chain(runtime::unregister_all().err());
    // All of them, even if one refuses.
    if let Some(refusal) = refusals.fold(None, |first: Option<Refusal>, next| first.or(Some(next)))
    {
        return Err(refusal);
    }
    // A batch of another thread may be about to.
    patch::settle();
    CURRENT.store(core::ptr::null_mut(), Ordering::Release);
    Ok(())
}

/// The first record of each provider name.
fn primaries() -> impl Iterator<Item = &'static Provider> {
    PROVIDERS.iter().filter(|provider| core::ptr::eq(provider.primary(), *provider))
}
