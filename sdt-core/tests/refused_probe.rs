//! A site's record that names no probe.

use sdt_core::attach::AttachError;
use sdt_core::patch::Mode;
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(broken);

/// A record with a probe that is in no set.
#[inline(never)]
fn no_probe() {
    static ELSEWHERE: u64 = 0;
    // SAFETY: a nop and a record.
    unsafe {
        std::arch::asm!(
            "77: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
            ".pushsection sdt_sites, \"awR\", @progbits",
            ".balign 8",
            ".quad {probe}, 77b, 77b, 0",
            ".popsection",
            probe = sym ELSEWHERE,
        );
    }
}

#[test]
fn a_site_of_no_probe_is_refused() {
    no_probe();
    sdt_probe!(broken::fine);
    let error = recording_host::try_attach(Mode::Trap).err().unwrap();
    assert!(matches!(error, AttachError::SiteProbe { .. }), "{error}");
}
