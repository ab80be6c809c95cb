//! Attaching this image's probes to a framework, and detaching them.

#[doc(hidden)]
pub mod link;

use core::ffi::CStr;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use spin::Mutex;

use crate::ops::{Framework, FrameworkError};
use crate::patch::{Mode, Patcher};
use crate::provider;
use crate::record::{self, PROVIDERS, Provider, RaggedSet};

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

/// Why probes could not be attached. Nothing is registered then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachError {
    /// They are attached already.
    Attached,
    /// A linker set is not a whole number of records.
    RaggedSet(RaggedSet),
    /// A record was made by another version of this crate.
    Version {
        /// Name of the set.
        set: &'static str,
        /// Index in the set.
        index: usize,
    },
    /// A site's record names no probe of this image.
    SiteProbe {
        /// Address of the site.
        patchpoint: usize,
    },
    /// There is no nop where a site's record says, or no text at all.
    SiteText {
        /// Address of the site.
        patchpoint: usize,
    },
    /// A site's record names a cold block where there is no text, or that is in the site itself.
    SiteTarget {
        /// Address of the site.
        patchpoint: usize,
    },
    /// Two site records are for the same text.
    SiteOverlap {
        /// Address of the first of them.
        patchpoint: usize,
    },
    /// A probe's record names no provider of this image.
    ProbeProvider {
        /// Index in the set of probes.
        index: usize,
    },
    /// A provider is declared twice, with different stability or privileges.
    Provider {
        /// The provider's name.
        provider: &'static CStr,
    },
    /// What a site fires is said of no probe of this image.
    ListProbe {
        /// Index in the set of argument lists.
        index: usize,
    },
    /// Two sites fire the same probe of an open provider with different arguments.
    Arguments {
        /// The provider's name.
        provider: &'static CStr,
        /// The probe's name.
        name: &'static CStr,
    },
    /// The framework refused a provider.
    Framework {
        /// The provider's name.
        provider: &'static CStr,
        /// Why.
        error: FrameworkError,
    },
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attached => f.write_str("probes are attached already"),
            Self::RaggedSet(RaggedSet { section, bytes, record }) => write!(
                f,
                "section {section} has {bytes} bytes, which is no whole number of {record}-byte \
                 records: the module is linked wrongly"
            ),
            Self::Version { set, index } => write!(
                f,
                "record {index} of {set} was made by another version of sdt-core: build the module \
                 with one version"
            ),
            Self::SiteProbe { patchpoint } => {
                write!(f, "the site at {patchpoint:#x} names no probe of this module")
            }
            Self::SiteText { patchpoint } => {
                write!(f, "there is no nop at {patchpoint:#x}, where a site should be")
            }
            Self::SiteTarget { patchpoint } => {
                write!(f, "the site at {patchpoint:#x} has no cold block where it says")
            }
            Self::SiteOverlap { patchpoint } => {
                write!(f, "two sites share the text at {patchpoint:#x}")
            }
            Self::ProbeProvider { index } => {
                write!(f, "record {index} of linkme_SDT_PROBES names no provider of this module")
            }
            Self::Provider { provider } => write!(
                f,
                "provider {} is declared twice, with different stability or privileges",
                Name(provider)
            ),
            Self::ListProbe { index } => {
                write!(f, "record {index} of sdt_arg_lists names no probe of this module")
            }
            Self::Arguments { provider, name } => write!(
                f,
                "two sites fire {}:::{} with different arguments",
                Name(provider),
                Name(name)
            ),
            Self::Framework { provider, error } => {
                write!(f, "provider {} was refused: {error}", Name(provider))
            }
        }
    }
}

impl core::error::Error for AttachError {}

impl From<RaggedSet> for AttachError {
    fn from(ragged: RaggedSet) -> Self {
        Self::RaggedSet(ragged)
    }
}

/// Shows a C string that came from Rust source.
struct Name(&'static CStr);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or("?"))
    }
}

/// The attachment in force, null while there is none.
static CURRENT: AtomicPtr<Attachment> = AtomicPtr::new(core::ptr::null_mut());

/// Whether the records have been checked, sorted and tied together.
static LINKED: AtomicBool = AtomicBool::new(false);

/// Held while attaching and detaching. Never taken by ops or in probe context.
static ATTACHING: Mutex<()> = Mutex::new(());

/// The attachment in force. Probe context.
pub(crate) fn current() -> Option<&'static Attachment> {
    // SAFETY: null, or stored by `attach` from a `&'static`.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Whether the sites can be looked up. Probe context.
pub(crate) fn is_linked() -> bool {
    LINKED.load(Ordering::Acquire)
}

/// Attaches all probes of this image: checks their records, then registers their providers with the
/// framework, which creates the probes.
///
/// May sleep; not in probe context.
///
/// # Safety
/// - The breakpoint handler of the kernel must consult
///   [`resume_address`](crate::trap::resume_address) before any probe is enabled, and until
///   [`detach`] has succeeded and every CPU has since left the handler.
/// - Before this image is unloaded, [`detach`] must have succeeded, no code of the image may be
///   running or called any more, and every CPU must since have left the breakpoint handler.
///
/// # Errors
/// See [`AttachError`]; nothing stays registered.
pub unsafe fn attach(attachment: &'static Attachment) -> Result<(), AttachError> {
    let _attaching = ATTACHING.lock();
    if current().is_some() {
        return Err(AttachError::Attached);
    }
    if !is_linked() {
        // SAFETY: nothing was attached yet, so no probe was ever enabled and nobody looks at sites.
        unsafe { link::link(record::all()?, attachment.patcher) }?;
        LINKED.store(true, Ordering::Release);
    }
    CURRENT.store(core::ptr::from_ref(attachment).cast_mut(), Ordering::Release);
    for provider in primaries() {
        // SAFETY: the caller keeps the image until `detach`, which unregisters, has succeeded.
        if let Err(error) = unsafe { provider::register(attachment, provider) } {
            // No consumer has had a chance to enable anything that would make this fail for good.
            for registered in primaries() {
                provider::unregister(attachment, registered).ok();
            }
            CURRENT.store(core::ptr::null_mut(), Ordering::Release);
            return Err(AttachError::Framework { provider: provider.name(), error });
        }
    }
    Ok(())
}

/// Detaches all probes of this image: unregisters their providers. Afterwards no site traps and no hit
/// reaches the framework. Without an attachment nothing happens.
///
/// May sleep; not in probe context.
///
/// # Errors
/// [`FrameworkError::Busy`] while a probe is enabled (or as the framework has it, a consumer is
/// open). Then everything is as it was and goes on working: the caller must not unload the image.
pub fn detach() -> Result<(), FrameworkError> {
    let _attaching = ATTACHING.lock();
    let Some(attachment) = current() else { return Ok(()) };
    for provider in primaries() {
        if let Err(error) = provider::unregister(attachment, provider) {
            for unregistered in primaries().filter(|provider| provider.id().is_none()) {
                // SAFETY: as when it was registered first: `detach` has not succeeded. There was room
                // for it a moment ago; if there is none now its probes are gone but nothing dangles.
                unsafe { provider::register(attachment, unregistered) }.ok();
            }
            return Err(error);
        }
    }
    CURRENT.store(core::ptr::null_mut(), Ordering::Release);
    Ok(())
}

/// The first record of each provider name.
fn primaries() -> impl Iterator<Item = &'static Provider> {
    PROVIDERS.iter().enumerate().filter_map(|(i, provider)| {
        let first = PROVIDERS.iter().position(|other| other.name() == provider.name());
        (first == Some(i)).then_some(provider)
    })
}
