use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

sdt_provider!(open);
sdt_provider! {
    declared {
        fn one();
    }
}

fn main() {
    sdt_enabled!(open::*);
    sdt_enabled!(declared::{one, two});
    sdt_enabled!(declared::{});
    sdt_enabled!(declared::{one two});
    sdt_enabled!(*);
    sdt_enabled!({one});
    sdt_enabled!(declared::{self});
    sdt_probe!(declared::*);
}
