//! This process as a host.

use sdt_core::Probe;
use sdt_core::attach::{self, AttachError, Attachment};
use sdt_core::patch::Mode;

use crate::recorder::Recorder;
use crate::text::Text;

/// Sets the mode, trap or jump, of all sites of a probe.
///
/// # Panics
/// Text cannot be written to.
pub fn set_mode(probe: &Probe, mode: Mode) {
    // SAFETY: this thread is not in a hit and holds no lock.
    unsafe { sdt_core::patch::set_mode(probe, mode) }.expect("text can be written to");
}

/// Returns the bytes at all sites of a probe.
pub fn site_bytes(probe: &Probe) -> Vec<[u8; 5]> {
    // SAFETY: the sites are instructions of this program.
    probe.sites().map(|site| unsafe { *(site.patchpoint() as *const [u8; 5]) }).collect()
}

/// Makes this process a host, so that sites can be enabled.
///
/// # Panics
/// The system refuses to make text writable or to install the handler.
pub fn host() {
    sdt_process::Text::prepare().expect("text can be patched");
}

/// Tries to attach this process's probes to a new recorder.
///
/// # Errors
/// The records are invalid.
pub fn try_attach(mode: Mode) -> Result<&'static Recorder, AttachError> {
    host();
    let recorder: &'static Recorder = Box::leak(Box::default());
    let attachment = Attachment { framework: recorder, patcher: &Text, mode, module: c"test" };
    // SAFETY: the handler that `host` installed consults `resume_address`, and this program is never unloaded.
    unsafe { attach::attach(Box::leak(Box::new(attachment))) }?;
    Ok(recorder)
}

/// Attaches this process's probes to a new recorder.
///
/// # Panics
/// The records are invalid.
pub fn attach(mode: Mode) -> &'static Recorder {
    try_attach(mode).unwrap()
}
