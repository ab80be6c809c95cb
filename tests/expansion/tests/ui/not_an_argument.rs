use sdt_core::{sdt_probe, sdt_provider};

struct Opaque;

sdt_provider!(open);
sdt_provider! {
    declared {
        fn by_value(it: Opaque);
        fn float(it: f64);
        fn no_c_name(it: &Opaque);
    }
}

fn main() {
    sdt_probe!(open::by_value, 1, Opaque);
    sdt_probe!(open::called, 1, core::convert::identity(Opaque));
    sdt_probe!(declared::by_value, Opaque);
}
