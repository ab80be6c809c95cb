//! The settings of a module in its package's manifest: `[package.metadata.sdt]`.
//!
//! ```toml
//! [package.metadata.sdt]
//! os = "freebsd"
//! freebsd = "14"
//! route = "native"
//! ```

use serde::Deserialize;

use crate::arch::Arch;
use crate::platform::{FreeBsd, Os, Patch, Route};

/// The settings. Each is the default of the command line option of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Operating system of the kernel.
    pub os: Option<Os>,
    /// Architecture of the kernel.
    pub arch: Option<Arch>,
    /// Release of FreeBSD.
    pub freebsd: Option<FreeBsd>,
    /// The route of the probes to the kernel's DTrace.
    pub route: Option<Route>,
    /// The mode of enabled sites, with `route = "provider"`.
    pub patch: Option<Patch>,
    /// The name of the module and of its file. The default is the name of the package's library.
    pub module: Option<String>,
    /// Features of the package to turn on.
    pub features: Vec<String>,
    /// Whether the package's default features are on.
    pub default_features: Option<bool>,
}

/// The settings are wrong.
#[derive(Debug, thiserror::Error)]
#[error("[package.metadata.sdt] of {package}: {reason}")]
pub struct SettingsError {
    package: String,
    reason: serde_json::Error,
}

impl Settings {
    /// Reads the settings from a package's metadata.
    ///
    /// # Errors
    /// A setting is unknown, or has a wrong value.
    pub fn read(package: &str, metadata: &serde_json::Value) -> Result<Self, SettingsError> {
        let Some(settings) = metadata.get("sdt") else { return Ok(Self::default()) };
        Self::deserialize(settings)
            .map_err(|reason| SettingsError { package: package.into(), reason })
    }
}

/// Reads names as the command line does.
macro_rules! as_on_the_command_line {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = String::deserialize(deserializer)?;
                <$type as clap::ValueEnum>::from_str(&name, false).map_err(|_| {
                    let names = <$type as clap::ValueEnum>::value_variants().iter();
                    let names: Vec<String> = names
                        .filter_map(clap::ValueEnum::to_possible_value)
                        .map(|value| format!("`{}`", value.get_name()))
                        .collect();
                    serde::de::Error::custom(format_args!(
                        "`{name}` is unknown; allowed are {}", names.join(", ")
                    ))
                })
            }
        }
    )*};
}

as_on_the_command_line!(Arch, Os, Patch, Route);

impl<'de> Deserialize<'de> for FreeBsd {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// `"14"` or `14`.
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a release of FreeBSD, such as 14")]
        enum Release {
            Text(String),
            Number(u32),
        }
        let text = match Release::deserialize(deserializer)? {
            Release::Text(text) => text,
            Release::Number(number) => number.to_string(),
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
#[path = "../tests/unit/settings.rs"]
mod tests;
