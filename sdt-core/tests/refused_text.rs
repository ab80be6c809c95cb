//! A site's record that does not point at a nop.

use sdt_core::attach::AttachError;
use sdt_core::patch::Mode;
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(broken);

/// A record for a place where there is no nop.
#[inline(never)]
fn no_nop() {
    #[sdt_core::__private::linkme::distributed_slice(sdt_core::__private::record::SDT_PROBES)]
    #[linkme(crate = sdt_core::__private::linkme)]
    static PROBE: sdt_core::Probe = sdt_core::Probe::open(&broken::__SDT_PROVIDER, c"odd");
    // SAFETY: a nop of another encoding and a record.
    unsafe {
        std::arch::asm!(
            "77: .byte 0x90, 0x90, 0x90, 0x90, 0x90",
            ".pushsection sdt_sites, \"awR\", @progbits",
            ".balign 8",
            ".quad {probe}, 77b, 77b, 0",
            ".popsection",
            probe = sym PROBE,
        );
    }
}

#[test]
fn a_site_without_its_nop_is_refused() {
    no_nop();
    sdt_probe!(broken::fine);
    let error = recording_host::try_attach(Mode::Trap).err().unwrap();
    assert!(matches!(error, AttachError::SiteText { .. }), "{error}");
}
