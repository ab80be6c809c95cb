use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

sdt_provider! {
    mixed {
        fn good(times: u64);
        #[name = "not good"]
        fn bad(times: u64);
        fn good_too();
        fn good__too(again: u8);
    }
}

sdt_provider! {
    pub wrong__name {
        fn one(times: u64);
    }
}

fn main() {
    sdt_probe!(mixed::good, 1);
    sdt_probe!(mixed::good_too);
    // The error is at the wrong declaration, so that its uses add none.
    sdt_probe!(mixed::bad, 1);
    if sdt_enabled!(mixed::bad) || sdt_enabled!(mixed::{good, bad}) || sdt_enabled!(mixed::*) {
        sdt_probe!(wrong__name::one, 2);
    }
    // The compiler still checks the uses of right declarations.
    sdt_probe!(mixed::good, "once");
}
