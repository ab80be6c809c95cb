use sdt_core::{sdt_probe, sdt_provider};

struct Opaque;

sdt_provider!(open);
sdt_provider! {
    declared {
        fn by_value(it: Opaque);
        fn wide(it: u128);
        fn no_c_name(it: &Opaque);
    }
}

fn main() {
    sdt_probe!(open::by_value, Opaque);
}
