//! The environment variables that affect a module: those that sdt-core's build script reads (`SDT_FREEBSD`,
//! `SDT_ROUTE`, `SDT_PATCH`). `cargo sdt kmod` uses them, too, so that it builds the same as a plain cargo.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

use crate::platform::{FreeBsd, Patch, Route};
use crate::process;

const LIMIT: Duration = Duration::from_secs(60);

/// The variable with the release of FreeBSD, like `--freebsd`.
pub const FREEBSD: &str = "SDT_FREEBSD";
/// The variable with the route, like `--route`.
pub const ROUTE: &str = "SDT_ROUTE";
/// The variable with the patch mode, like `--patch`.
pub const PATCH: &str = "SDT_PATCH";

/// The values of the variables that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<&'static str, String>);

/// A variable has a value that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} of the environment is `{value}`: {reason}")]
pub struct BadVariable {
    variable: &'static str,
    value: String,
    reason: String,
}

impl Environment {
    /// Returns the variables that cargo passes on in a folder: from this process's environment, or from `[env]` of its
    /// configuration.
    pub fn of(folder: &Path) -> Self {
        let configured = configured(folder);
        Self::new(|variable| std::env::var(variable).ok(), configured.as_ref())
    }

    fn new(own: impl Fn(&str) -> Option<String>, configured: Option<&serde_json::Value>) -> Self {
        let values = [FREEBSD, ROUTE, PATCH].into_iter().filter_map(|variable| {
            let entry = configured.and_then(|env| env.get(variable));
            let text = entry.and_then(|entry| entry.as_str().or(entry.get("value")?.as_str()));
            let text = text.map(str::to_owned);
            let forced = entry.and_then(|entry| entry.get("force")?.as_bool()) == Some(true);
            let value =
                if forced { text.or_else(|| own(variable)) } else { own(variable).or(text) };
            // The build script, too, treats an empty variable as unset.
            Some((variable, value.filter(|value| !value.is_empty())?))
        });
        Self(values.collect())
    }

    #[cfg(test)]
    pub(crate) fn said(values: &[(&'static str, &str)]) -> Self {
        Self(values.iter().map(|&(variable, value)| (variable, value.to_owned())).collect())
    }

    /// Returns the release of FreeBSD to build for, if the environment sets it.
    ///
    /// # Errors
    /// The release does not exist.
    pub fn freebsd(&self) -> Result<Option<FreeBsd>, BadVariable> {
        self.get(FREEBSD, |value| FreeBsd::from_str(value).map_err(|error| error.to_string()))
    }

    /// Returns the route of the probes.
    ///
    /// # Errors
    /// The route does not exist.
    pub fn route(&self) -> Result<Option<Route>, BadVariable> {
        self.get(ROUTE, named)
    }

    /// Returns the patch mode.
    ///
    /// # Errors
    /// The mode does not exist.
    pub fn patch(&self) -> Result<Option<Patch>, BadVariable> {
        self.get(PATCH, named)
    }

    fn get<T>(
        &self,
        variable: &'static str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, BadVariable> {
        let Some(value) = self.0.get(variable) else { return Ok(None) };
        let bad = |reason| BadVariable { variable, value: value.clone(), reason };
        read(value).map(Some).map_err(bad)
    }
}

/// Parses a value as the command line does.
fn named<T: ValueEnum>(value: &str) -> Result<T, String> {
    T::from_str(value, false).map_err(|_| {
        let names = T::value_variants().iter().filter_map(T::to_possible_value);
        let names: Vec<_> = names.map(|of| of.get_name().to_owned()).collect();
        format!("allowed values are {}", names.join(", "))
    })
}

/// Returns `[env]` of cargo's configuration in a folder, if there is any. Cargo passes it to the compilers that it runs; the
/// command that prints it is unstable.
fn configured(folder: &Path) -> Option<serde_json::Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    process::clean_cargo_env(&mut command).env("RUSTC_BOOTSTRAP", "1").current_dir(folder);
    command.args(["-Zunstable-options", "config", "get", "--format", "json", "env"]);
    let written = process::run(&mut command, LIMIT).ok()?;
    let mut answer: serde_json::Value = serde_json::from_slice(&written.stdout).ok()?;
    answer.get_mut("env").map(serde_json::Value::take)
}

#[cfg(test)]
#[path = "../tests/unit/environment.rs"]
mod tests;
