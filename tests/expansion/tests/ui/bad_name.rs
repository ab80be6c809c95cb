use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(open);
sdt_provider! {
    named {
        #[name = "with space"]
        fn space();
        #[name]
        fn nothing();
    }
}
sdt_provider! {
    twice {
        fn a_b();
        fn a__b();
    }
}

fn main() {
    sdt_probe!(alone);
    sdt_probe!(open::été);
    sdt_probe!();
}
