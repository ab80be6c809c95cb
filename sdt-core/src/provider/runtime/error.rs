//! Errors of runtime providers. After an error, nothing has changed.

use core::fmt;

use crate::ops::FrameworkError;

const IN_PROGRESS: &str =
    "another thread is changing the provider, or attaching or detaching the image; try again";

/// Another thread is changing the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InProgress;

/// The reason why a provider was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// Another thread is changing the provider, or the image's attachment.
    InProgress,
    /// The image is not attached to a framework.
    NotAttached,
    /// The provider is already open.
    Open,
    /// A [`Probe`](super::Probe) of the previous opening still exists.
    Held,
    /// Another provider has the same slots.
    Shared,
    /// The name has more than 63 bytes.
    LongName,
    /// The kernel has a provider of that name.
    Taken,
    /// The image has a provider of that name.
    Twice,
    /// The framework refused the provider.
    Framework(FrameworkError),
}

/// The reason why a provider was not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseError {
    /// Another thread is changing the provider, or the image's attachment.
    InProgress,
    /// The provider is not open.
    NotOpen,
    /// The framework refused, because a probe is enabled or, on some frameworks, a consumer is open.
    Framework(FrameworkError),
}

/// The reason why a probe was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddError {
    /// Another thread is changing the provider.
    InProgress,
    /// The provider is not open.
    NotOpen,
    /// The name is empty.
    NoName,
    /// The name has more than 63 bytes, or the function is longer than DTrace's limit.
    LongName,
    /// The name or the function contains a control character such as a newline, which would corrupt listings.
    BadName,
    /// A probe with these names exists.
    Twice,
    /// More arguments than the framework supports.
    Arguments {
        /// The number of arguments that were given.
        given: usize,
        /// The greatest number.
        most: usize,
    },
    /// Every slot has a probe, or a removed probe of which a [`Probe`](super::Probe) still exists.
    NoSlot,
    /// The framework refused the probe: its table is full.
    Framework(FrameworkError),
}

/// The reason why a probe was not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoveError {
    /// Another thread is changing the provider, or the framework is looking for its probes.
    InProgress,
    /// The probe is enabled.
    Enabled,
    /// The probe was removed already.
    Removed,
}

/// The reason why a hit was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FireError {
    /// The probe has been removed.
    Removed,
    /// The number of arguments differs from that of the probe.
    Arguments {
        /// The number of the probe's arguments.
        takes: usize,
        /// The number of arguments that were given.
        given: usize,
    },
}

impl fmt::Display for InProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(IN_PROGRESS)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InProgress => IN_PROGRESS,
            Self::NotAttached => "the image is not attached to a framework",
            Self::Open => "the provider is already open",
            Self::Held => "a `Probe` of the provider's previous opening still exists: drop it",
            Self::Shared => "another provider uses the same slots: give each provider its own",
            Self::LongName => "the provider's name is longer than DTrace's limit of 63 bytes",
            Self::Taken => "the kernel has a provider of this name: choose another name",
            Self::Twice => "the image already has a provider of this name: choose another name",
            Self::Framework(error) => return error.fmt(f),
        })
    }
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InProgress => IN_PROGRESS,
            Self::NotOpen => "the provider is not open",
            Self::Framework(error) => return error.fmt(f),
        })
    }
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InProgress => IN_PROGRESS,
            Self::NotOpen => "the provider is not open",
            Self::NoName => "the probe's name is empty",
            Self::LongName => "the probe's name or function is longer than DTrace's limit",
            Self::BadName => "the probe's name or function contains a control character: remove it",
            Self::Twice => "the provider already has a probe of this name in this function",
            Self::Arguments { given, most } => {
                return write!(
                    f,
                    "the probe has {given} arguments, and the framework supports at \
                     most {most}"
                );
            }
            Self::NoSlot => {
                "all slots of the provider are in use: remove a probe, and drop its `Probe` values"
            }
            Self::Framework(error) => return error.fmt(f),
        })
    }
}

impl fmt::Display for RemoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InProgress => IN_PROGRESS,
            Self::Enabled => "the probe is enabled",
            Self::Removed => "the probe has been removed",
        })
    }
}

impl fmt::Display for FireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed => f.write_str("the probe has been removed"),
            Self::Arguments { takes, given } => {
                write!(f, "the probe has {takes} arguments, and {given} were given")
            }
        }
    }
}

macro_rules! errors {
    ($($error:ty)*) => {$(impl core::error::Error for $error {})*};
}

errors!(InProgress OpenError CloseError AddError RemoveError FireError);

impl From<FrameworkError> for OpenError {
    fn from(error: FrameworkError) -> Self {
        Self::Framework(error)
    }
}

impl From<FrameworkError> for CloseError {
    fn from(error: FrameworkError) -> Self {
        Self::Framework(error)
    }
}
