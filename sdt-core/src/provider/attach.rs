//! Attaching this image's probes to a framework, and detaching them.

mod error;
pub(crate) mod link;
mod sort;

pub use error::{AttachError, DetachError, HandlerFault, Refusal, RefusedProvider};

use crate::arch;
use crate::patch;
use crate::record::{self, PROBES, PROVIDERS, Probe, Provider, is_linked};
use crate::route::attachment::{Change, State, current, set_current};
use crate::route::{runtime, table as provider};

pub use crate::record::RaggedSet;
pub use crate::route::attachment::{Attachment, module};
pub use crate::route::changes::Standstill;

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
/// - If the image was attached to another framework before, no thread is still between one of its sites and that
///   framework.
///
/// # Errors
/// See [`AttachError`]. Nothing stays registered, unless the error [says so](AttachError::must_stay).
pub unsafe fn attach(attachment: &'static Attachment) -> Result<(), AttachError> {
    let mut change = Change::begin().ok_or(AttachError::InProgress)?;
    match (change.from, current()) {
        (State::Leaving, Some(former)) => leave(&change, former).map_err(AttachError::Leaving)?,
        (State::Attached, _) => return Err(AttachError::Attached),
        _ => {}
    }
    change.to = State::Detached;
    if cfg!(sdt_site = "patched") {
        arch::handler::check_handler().map_err(AttachError::Handler)?;
    }
    if !is_linked() {
        // SAFETY: the image was never attached, so no probe was ever enabled, and `site::all` and `resume_address` find no
        // site until they are marked as linked; by the contract of this function there is no other reference to them.
        unsafe { link::link(record::all()?, attachment.patcher) }?;
        record::set_linked();
    }
    set_current(&change, Some(attachment));
    // SAFETY: the image is not unloaded before `detach` has unregistered all providers, by the contract of this
    // function.
    if let Err(cause) = unsafe { register(attachment) } {
        // An invalidated provider can be unregistered while consumers are open, unless a consumer has enabled one of
        // its probes meanwhile.
        primaries().for_each(|registered| provider::invalidate(attachment, registered));
        runtime::invalidate_all();
        return Err(match leave(&change, attachment) {
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
        runtime::register_all().map_err(Refusal::of_made)
    }
}

/// Detaches all probes of this image: unregisters their providers, including those made at [run time](runtime), which
/// are registered again when the image is attached again. Afterwards no site traps and no hit reaches the framework.
/// Without an attachment it does nothing.
///
/// May sleep, and holds no lock; not in probe context.
///
/// # Errors
/// [`DetachError::Refused`] while a probe is enabled (with some frameworks, while a consumer is open). Then nothing has
/// changed, and the probes continue to work. After any error the caller must not unload the image.
pub fn detach() -> Result<(), DetachError> {
    let mut change = Change::begin().ok_or(DetachError::InProgress)?;
    let Some(attachment) = current() else { return Ok(()) };
    if change.from == State::Leaving {
        leave(&change, attachment).map_err(DetachError::Refused)?;
    }
    let mut gone = primaries().map(|provider| provider::unregister(attachment, provider));
    if let Err(refusal) = runtime::unregister_all()
        .map_err(Refusal::of_made)
        .and_then(|()| gone.try_for_each(|gone| gone))
    {
        // Probes may be missing too, not only providers: FreeBSD destroys a module's probes before it asks the module
        // whether it can be unloaded.
        // SAFETY: this `detach` fails, so the image stays, by the contract of `attach`, until a later `detach` has
        // succeeded.
        let is_whole = primaries()
            .map(|provider| unsafe { provider::register(attachment, provider) })
            .chain([unsafe { runtime::register_all() }.map_err(Refusal::of_made)])
            .fold(true, |is_whole, registered| is_whole & registered.is_ok());
        let error = if is_whole { DetachError::Refused } else { DetachError::Reduced };
        return Err(error(refusal));
    }
    // Restores the text of all sites now: a batch of another thread may have deferred this.
    patch::settle();
    set_current(&change, None);
    change.to = State::Detached;
    Ok(())
}

/// Unregisters the providers of an image that could not be attached completely. After an error, some providers are
/// still registered.
fn leave(change: &Change, attachment: &Attachment) -> Result<(), Refusal> {
    let refusals = primaries()
        .filter_map(|provider| provider::unregister(attachment, provider).err())
        .chain(runtime::unregister_all().err().map(Refusal::of_made));
    // Unregisters all of them, even if the framework refuses one.
    if let Some(refusal) = refusals.fold(None, |first: Option<Refusal>, next| first.or(Some(next)))
    {
        return Err(refusal);
    }
    // Restores the text of all sites now: a batch of another thread may have deferred this.
    patch::settle();
    set_current(change, None);
    Ok(())
}

/// Returns the primary record of each provider: the first record of its name.
fn primaries() -> impl Iterator<Item = &'static Provider> {
    PROVIDERS.iter().filter(|provider| core::ptr::eq(provider.primary(), *provider))
}
