//! A set of sites that is not a whole number of records.

use sdt_core::attach::AttachError;
use sdt_core::patch::Mode;
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(broken);

#[test]
fn a_ragged_set_is_refused() {
    sdt_probe!(broken::fine);
    // SAFETY: 8 bytes of data.
    unsafe {
        std::arch::asm!(".pushsection sdt_sites, \"awR\", @progbits", ".quad 0", ".popsection");
    }
    let error = recording_host::try_attach(Mode::Trap).err().unwrap();
    let AttachError::RaggedSet(set) = error else { panic!("{error}") };
    assert_eq!((set.section, set.bytes % 32, set.record), ("sdt_sites", 8, 32));
    assert!(error.to_string().contains("linked incorrectly"), "{error}");
}
