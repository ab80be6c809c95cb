//! What a provider does besides firing.

use super::{Probe, Provider};
use crate::ops::ProbeDesc;

/// A provider's own part, in safe code: for one that makes probes as consumers ask for them, by rules of its own (`tick-N`, for
/// any N), or that has something to switch on and off as its probes are. [`Provider::ruled`] takes it.
pub trait Rules: Sync {
    /// [Adds](Provider::add) the probes that match the description, or without one the probes that consumers usually want.
    /// Called when the provider has been opened, and whenever a consumer looks for probes. The framework is
    /// locked against registration: no provider is opened or closed here.
    ///
    /// What is not added, as another thread is changing the provider just now, is asked for again.
    fn provide(&self, _provider: &'static Provider, _wanted: Option<&ProbeDesc>) {}

    /// The probe got its first enabling. The framework is locked: nothing is added or removed here, nor opened or closed, nor waited
    /// for.
    fn enabled(&self, _probe: &Probe) {}

    /// The probe lost its last enabling. As [`enabled`](Self::enabled). It may still be firing for a moment.
    fn disabled(&self, _probe: &Probe) {}
}
