//! Hints for options that were not set.

use super::error::OptionError;
use super::table::{ALL, OptionInfo};
use crate::suggest::{closest, did_you_mean};

impl OptionError {
    /// Returns a hint how to set the option of this name, which was not set because of this error: its values, or a similar name.
    pub fn hint(self, name: &str) -> Option<String> {
        match self {
            Self::Name => {
                closest(name, ALL.iter().map(|option| option.name)).map(|of| did_you_mean(&of))
            }
            Self::Value | Self::Version | Self::Overflow => {
                let option = OptionInfo::find(name)?;
                Some(format!("{name} takes {}", option.values()))
            }
            Self::Context => Some(format!("-x {name} sets the option on the command line")),
            Self::UnknownVersion | Self::VersionReduced => None,
        }
    }
}
