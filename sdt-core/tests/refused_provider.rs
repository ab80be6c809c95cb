//! A provider that is declared twice, with differences.

use sdt_core::attach::AttachError;
use sdt_core::patch::Mode;

mod one {
    sdt_core::sdt_provider!(pub disk);
}

mod other {
    sdt_core::sdt_provider! {
        #[privileges(kernel)]
        pub disk
    }
}

#[test]
fn declarations_that_contradict_each_other_are_refused() {
    let error = recording_host::try_attach(Mode::Trap).err().unwrap();
    assert_eq!(error, AttachError::Provider { provider: c"disk" });
    assert_eq!(
        error.to_string(),
        "provider disk is declared twice, with different stability or privileges: make the declarations agree"
    );
}
