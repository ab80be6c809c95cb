//! The attachment of the image to a framework, and the right to change it.

use core::ffi::CStr;
use core::fmt;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::atomic::AtomicU8;
use crate::ops::{FUNCTION_NAME_LEN, Framework, Name};
use crate::patch::{Mode, Patcher};
use crate::record::Probe;
use crate::route::changes::{self, Begun};

/// The framework, text and mode to which an image's probes are attached.
pub struct Attachment {
    /// The framework that registers the providers and records the hits.
    pub framework: &'static dyn Framework,
    /// The patcher that writes to text.
    pub patcher: &'static dyn Patcher,
    /// The way in which sites are enabled.
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
    /// Returns the function part of a probe's description: the function of all its sites, if they are in the same
    /// function and the host knows its name; otherwise `none`.
    pub(crate) fn function(&self, probe: &Probe) -> Name<FUNCTION_NAME_LEN> {
        let mut functions = probe.sites().map(|site| self.patcher.function(site.patchpoint()));
        match functions.next().flatten() {
            Some(first) if functions.all(|other| other == Some(first)) => first,
            _ => Name::cut(b"none"),
        }
    }
}

/// The current attachment; null while the image is not attached.
static CURRENT: AtomicPtr<Attachment> = AtomicPtr::new(core::ptr::null_mut());

/// The state of attaching an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// The image is not registered with a framework.
    Detached = 0,
    /// A thread is attaching or detaching it.
    Changing = 1,
    /// It is attached.
    Attached = 2,
    /// It could not be attached, and a provider of it is still registered, but invalidated.
    Leaving = 3,
}

/// The current [`State`] of the image, as a number.
static STATE: AtomicU8 = AtomicU8::new(State::Detached as u8);

/// The right to attach and detach, which one thread has at a time.
///
/// This is not a lock, because its owner calls the framework, which sleeps. No thread waits for it (except for the end
/// of a [`Standstill`](crate::attach::Standstill)): the kernels' linkers load and unload one module at a time, so a
/// second thread gets an error.
pub(crate) struct Change {
    /// The state before the change.
    pub(crate) from: State,
    /// The state after the change, which is set when this value is dropped.
    pub(crate) to: State,
    _begun: Begun<'static>,
}

impl Change {
    /// Takes the right to change the attachment. Returns `None` while another thread has it.
    pub(crate) fn begin() -> Option<Self> {
        let begun = changes::begin();
        // Acquire, with the Release in `drop`: the next thread sees all stores of the previous one.
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

/// Returns the current attachment. Probe context.
pub(crate) fn current() -> Option<&'static Attachment> {
    // SAFETY: null, or stored by `set_current` from a `&'static`.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// The module part of the probes' descriptions, once the image is attached. Any context.
pub fn module() -> Option<&'static CStr> {
    current().map(|attachment| attachment.module)
}

/// Sets the current attachment. Only the thread that has the [`Change`] calls this.
pub(crate) fn set_current(_: &Change, attachment: Option<&'static Attachment>) {
    let attachment = attachment.map_or(core::ptr::null(), core::ptr::from_ref);
    CURRENT.store(attachment.cast_mut(), Ordering::Release);
}
