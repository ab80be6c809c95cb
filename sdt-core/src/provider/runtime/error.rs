//! What can go wrong. After each of these nothing has changed.

use core::fmt;

use crate::ops::FrameworkError;

const IN_PROGRESS: &str =
    "another thread is changing the provider, or attaching or detaching the image; try again";

/// Another thread is changing the provider just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InProgress;

/// Why a provider was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// Another thread is changing it, or the image's attachment, just now.
    InProgress,
    /// The image is not attached to a framework.
    NotAttached,
    /// It is open.
    Open,
    /// Somebody still has a [`Probe`](super::Probe) from before.
    Held,
    /// Another provider has the same slots.
    Shared,
    /// The name has more than 63 bytes.
    LongName,
    /// The kernel has a provider of that name.
    Taken,
    /// The image has a provider of that name.
    Twice,
    /// The framework refused it.
    Framework(FrameworkError),
}

/// Why a provider was not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseError {
    /// Another thread is changing it, or the image's attachment, just now.
    InProgress,
    /// It is not open.
    NotOpen,
    /// The framework refused: a probe is enabled or, on some, a consumer is there.
    Framework(FrameworkError),
}

/// Why a probe was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddError {
    /// Another thread is changing the provider just now.
    InProgress,
    /// The provider is not open.
    NotOpen,
    /// The name is empty.
    NoName,
    /// The name has more than 63 bytes, or the function more than DTrace keeps.
    LongName,
    /// The name or the function has a control character, as a newline is: in lists it would be taken for something else.
    BadName,
    /// There is a probe with these names.
    Twice,
    /// More arguments than the framework carries.
    Arguments {
        /// How many there are.
        given: usize,
        /// How many there can be.
        most: usize,
    },
    /// All slots have probes, or removed probes of which a [`Probe`](super::Probe) still exists.
    NoSlot,
    /// The framework refused it: its table is full.
    Framework(FrameworkError),
}

/// Why a probe was not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoveError {
    /// Another thread is changing the provider just now, or the framework is looking for its probes.
    InProgress,
    /// It is enabled.
    Enabled,
    /// It has been removed already.
    Removed,
}

/// Why a hit is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FireError {
    /// The probe has been removed.
    Removed,
    /// Not as many arguments as the probe has.
    Arguments {
        /// How many it has.
        takes: usize,
        /// How many came.
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
            Self::Open => "the provider is open already",
            Self::Held => "a `Probe` of the provider from before still exists: drop it",
            Self::Shared => "another provider has the same slots: each needs its own",
            Self::LongName => "the provider's name has more than 63 bytes, and DTrace would cut it",
            Self::Taken => "the kernel has a provider of this name: choose another one",
            Self::Twice => "the image has a provider of this name already",
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
            Self::LongName => "the probe's name or function has more bytes than DTrace keeps",
            Self::BadName => {
                "the probe's name or function has a control character in it: leave it out"
            }
            Self::Twice => "the provider has a probe of this name in this function already",
            Self::Arguments { given, most } => {
                return write!(f, "{given} arguments, and the framework carries {most}");
            }
            Self::NoSlot => {
                "all slots of the provider are taken: remove a probe, and drop its `Probe` values"
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
