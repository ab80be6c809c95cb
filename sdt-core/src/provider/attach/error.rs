//! Why an image could not be attached or detached.

use core::ffi::CStr;
use core::fmt;

pub use crate::arch::handler::HandlerFault;
use crate::ops::FrameworkError;
use crate::record::RaggedSet;
use crate::route::runtime;

const IN_PROGRESS: &str = "another thread is attaching or detaching the probes of this image; try \
    again";

/// The reason why probes could not be attached. Nothing is registered then, except for [`MustStay`](Self::MustStay) and
/// [`Leaving`](Self::Leaving).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachError {
    /// They are attached already.
    Attached,
    /// Another thread is attaching or detaching them just now.
    InProgress,
    /// The breakpoint handler violates a rule of [`trap`](crate::trap#rules-for-the-handler): the first enabled probe
    /// would crash the kernel. `attach` checks this only on x86_64 targets whose `os` is `none`, and only for the CPU
    /// that calls it.
    Handler(HandlerFault),
    /// The size of a linker set is not a multiple of the record size.
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
    /// The text at the address in a site's record is not the nop, or the address is not in text.
    SiteText {
        /// Address of the site.
        patchpoint: usize,
    },
    /// The cold block of a site's record is not in text, or is inside the site itself.
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
    /// The record of an argument list names no probe of this image.
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
    /// The framework refused a provider or a probe.
    Framework(Refusal),
    /// The framework refused a provider or a probe, and then refused to unregister an earlier provider, because one of
    /// its probes is enabled. The image must stay, because the framework calls it. No other probe of it can be enabled,
    /// and [`detach`](super::detach) succeeds when none is enabled any more.
    MustStay {
        /// The first refusal.
        cause: Refusal,
        /// The refusal to unregister the provider.
        held: Refusal,
    },
    /// An earlier attempt ended with [`MustStay`](Self::MustStay), and the framework still refuses to unregister a
    /// provider.
    Leaving(Refusal),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attached => f.write_str("probes are attached already"),
            Self::InProgress => f.write_str(IN_PROGRESS),
            Self::Handler(fault) => fault.fmt(f),
            Self::RaggedSet(RaggedSet { section, bytes, record }) => write!(
                f,
                "section {section} has {bytes} bytes, which is not a multiple of its {record}-byte \
                 records: the module is linked incorrectly"
            ),
            Self::Version { set, index } => write!(
                f,
                "record {index} of {set} was made by another version of sdt-core: build all crates \
                 of the module with one version"
            ),
            Self::SiteProbe { patchpoint } => {
                write!(
                    f,
                    "the site at {patchpoint:#x} refers to no probe of this module: the \
                           module is linked incorrectly"
                )
            }
            Self::SiteText { patchpoint } => {
                write!(
                    f,
                    "there is no nop at {patchpoint:#x}, the address of a site: the text was \
                           changed, or linked incorrectly"
                )
            }
            Self::SiteTarget { patchpoint } => {
                write!(
                    f,
                    "the cold block of the site at {patchpoint:#x} is not at its recorded \
                           address: the module is linked incorrectly"
                )
            }
            Self::SiteOverlap { patchpoint } => {
                write!(f, "two sites overlap at {patchpoint:#x}: the module is linked incorrectly")
            }
            Self::ProbeProvider { index } => {
                write!(
                    f,
                    "record {index} of linkme_SDT_PROBES refers to no provider of this \
                           module: the module is linked incorrectly"
                )
            }
            Self::Provider { provider } => write!(
                f,
                "provider {} is declared twice, with different stability or privileges: make the \
                 declarations agree",
                Name(provider)
            ),
            Self::ListProbe { index } => {
                write!(
                    f,
                    "record {index} of sdt_arg_lists refers to no probe of this module: the \
                           module is linked incorrectly"
                )
            }
            Self::Arguments { provider, name } => write!(
                f,
                "two sites fire {}:::{} with different arguments: make them agree, or declare the \
                 provider",
                Name(provider),
                Name(name)
            ),
            Self::Framework(refusal) => refusal.fmt(f),
            Self::MustStay { cause, held } => {
                write!(f, "{cause}; the module must stay loaded: {held}")
            }
            Self::Leaving(held) => write!(
                f,
                "probes of an earlier attempt are still registered: \
                 {held}"
            ),
        }
    }
}

impl core::error::Error for AttachError {}

impl AttachError {
    /// Returns whether the image must not be unloaded until [`detach`](super::detach) has succeeded, because the
    /// framework still calls it.
    pub const fn must_stay(&self) -> bool {
        matches!(self, Self::Attached | Self::InProgress | Self::MustStay { .. } | Self::Leaving(_))
    }
}

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

/// A request that a framework refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The provider.
    pub provider: RefusedProvider,
    /// The name of the refused probe; `None` if the framework refused the provider.
    pub probe: Option<&'static CStr>,
    /// The error.
    pub error: FrameworkError,
}

/// A provider that a framework refused.
#[derive(Clone, Copy, Debug)]
pub enum RefusedProvider {
    /// A provider that the image declares, by its name.
    Declared(&'static CStr),
    /// A provider that was created at run time.
    Made(&'static runtime::Provider),
}

impl PartialEq for RefusedProvider {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Declared(one), Self::Declared(other)) => one == other,
            (Self::Made(one), Self::Made(other)) => core::ptr::eq(*one, *other),
            _ => false,
        }
    }
}

impl Eq for RefusedProvider {}

impl fmt::Display for RefusedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declared(name) => Name(name).fmt(f),
            Self::Made(provider) => match provider.name() {
                Some(name) => name.fmt(f),
                None => f.write_str("(created at run time)"),
            },
        }
    }
}

impl Refusal {
    pub(crate) fn new(
        provider: &'static CStr,
        probe: Option<&'static CStr>,
        error: FrameworkError,
    ) -> Self {
        Self { provider: RefusedProvider::Declared(provider), probe, error }
    }

    pub(crate) const fn of_made(
        (provider, error): (&'static runtime::Provider, FrameworkError),
    ) -> Self {
        Self { provider: RefusedProvider::Made(provider), probe: None, error }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, probe, error } = self;
        match probe {
            Some(probe) => {
                write!(f, "the framework refused probe {provider}:::{}: {error}", Name(probe))
            }
            None => write!(f, "the framework refused provider {provider}: {error}"),
        }
    }
}

/// Why probes could not be detached. The image must stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DetachError {
    /// Another thread is attaching or detaching them just now.
    InProgress,
    /// The framework refused to unregister a provider. Nothing has changed.
    Refused(Refusal),
    /// The framework refused to unregister a provider, and refused to register some of the providers again that had
    /// been unregistered before. A later attempt that is refused, or attaching the image again, registers the missing
    /// ones.
    Reduced(Refusal),
}

impl DetachError {
    /// Returns the error number of the kernel.
    pub const fn errno(self) -> i32 {
        match self {
            Self::InProgress => FrameworkError::Busy.errno(),
            Self::Refused(refusal) | Self::Reduced(refusal) => refusal.error.errno(),
        }
    }
}

impl fmt::Display for DetachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Refusal { provider, error, .. }, end) = match self {
            Self::InProgress => return f.write_str(IN_PROGRESS),
            Self::Refused(refusal) => (refusal, ""),
            Self::Reduced(refusal) => (refusal, "; some removed probes could not be created again"),
        };
        write!(f, "the framework does not release provider {provider}: {error}{end}")
    }
}

impl core::error::Error for DetachError {}
