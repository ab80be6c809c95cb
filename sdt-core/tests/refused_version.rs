//! A record that another version of the crate made.

use std::sync::atomic::AtomicU32;

use sdt_core::attach::AttachError;
use sdt_core::patch::Mode;
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(broken);

/// A record as long as a probe's that begins with another size.
#[repr(C, align(8))]
struct Foreign(AtomicU32, [u8; size_of::<sdt_core::Probe>() - 4]);

#[used]
#[unsafe(link_section = "linkme_SDT_PROBES")]
static FOREIGN: Foreign = Foreign(AtomicU32::new(1), [0; size_of::<sdt_core::Probe>() - 4]);

#[test]
fn records_of_another_version_are_refused() {
    sdt_probe!(broken::fine);
    let error = recording_host::try_attach(Mode::Trap).err().unwrap();
    let AttachError::Version { set, .. } = error else { panic!("{error}") };
    assert_eq!(set, "linkme_SDT_PROBES");
}
