//! Sites that disagree on their probe's arguments.

use sdt_core::attach::AttachError;
use sdt_core::patch::Mode;
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(broken);

#[test]
fn sites_with_different_arguments_are_refused() {
    sdt_probe!(broken::start, 1u8);
    sdt_probe!(broken::start, 1u16);
    let error = recording_host::try_attach(Mode::Trap).err().unwrap();
    assert_eq!(error, AttachError::Arguments { provider: c"broken", name: c"start" });
    assert_eq!(
        error.to_string(),
        "two sites fire broken:::start with different arguments: make them agree, or declare the provider"
    );
    // A second attempt is refused too: the first one left nothing attached.
    assert!(recording_host::try_attach(Mode::Trap).is_err());
}
