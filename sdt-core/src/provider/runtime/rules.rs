//! The optional callbacks of a runtime provider.

use super::{Probe, Provider};
use crate::ops::ProbeDesc;

/// Callbacks of a runtime provider, in safe code: for a provider that creates probes on demand of consumers (`tick-N`,
/// for any N), or that must switch something on and off with its probes. Pass it to [`Provider::ruled`].
pub trait Rules: Sync {
    /// [Adds](Provider::add) the probes that match the description, or without a description the usual probes. The
    /// framework calls it after the provider was opened, and whenever a consumer looks for probes. Registration is
    /// locked meanwhile: do not open or close a provider here.
    ///
    /// If a probe cannot be added because another thread is changing the provider, the framework calls this again.
    fn provide(&self, _provider: &'static Provider, _wanted: Option<&ProbeDesc>) {}

    /// Called when the probe gets its first enabling. The framework is locked meanwhile: do not add or remove probes, open or
    /// close providers, or wait here.
    fn enabled(&self, _probe: &Probe) {}

    /// Called when the probe loses its last enabling. The same restrictions as for [`enabled`](Self::enabled) apply. The probe
    /// may still fire for a moment.
    fn disabled(&self, _probe: &Probe) {}
}
