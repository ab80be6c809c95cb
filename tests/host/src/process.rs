//! This process as a host.

use sdt_core::Probe;
use sdt_core::attach::{self, AttachError, Attachment};
use sdt_core::patch::Mode;

use crate::recorder::Recorder;
use crate::text::Text;

/// Has the sites of a probe trap or jump.
///
/// # Panics
/// When text cannot be written to.
pub fn set_mode(probe: &Probe, mode: Mode) {
    // SAFETY: no caller is in a hit, or holds anything.
    unsafe { sdt_core::patch::set_mode(probe, mode) }.expect("text can be written to");
}

/// The text of all sites of a probe.
pub fn site_bytes(probe: &Probe) -> Vec<[u8; 5]> {
    // SAFETY: the sites are instructions of this program.
    probe.sites().map(|site| unsafe { *(site.patchpoint() as *const [u8; 5]) }).collect()
}

/// Makes this process a host: what enabled sites need.
///
/// # Panics
/// The system does not let it be one.
pub fn host() {
    sdt_process::Text::prepare().expect("text can be patched");
}

/// Tries to attach this process's probes to a new recorder.
///
/// # Errors
/// The records are no good.
pub fn try_attach(mode: Mode) -> Result<&'static Recorder, AttachError> {
    host();
    let recorder: &'static Recorder = Box::leak(Box::default());
    let attachment = Attachment { framework: recorder, patcher: &Text, mode, module: c"test" };
    // SAFETY: the handler above consults `resume_address`, and this program is never unloaded.
    unsafe { attach::attach(Box::leak(Box::new(attachment))) }?;
    Ok(recorder)
}

/// Attaches this process's probes to a new recorder.
///
/// # Panics
/// When the records are no good.
pub fn attach(mode: Mode) -> &'static Recorder {
    try_attach(mode).unwrap()
}
