use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(include "d/broken.d");
sdt_provider!(include "d/type.d");
sdt_provider!(include "d/name.d");
sdt_provider!(include "d/many.d");
sdt_provider!(include "d/latin.d");
sdt_provider!(include "d/missing.d");
sdt_provider!(exclude "d/name.d");
sdt_provider!(include "d/name.d" as proc);

// One mistake in a file is one error.
fn main() {
    sdt_probe!(broken::start, 1);
    sdt_probe!(broken::stop, 1, "x");
    sdt_probe!(typed::start, 1u8);
    sdt_probe!(many::start, 1);
    sdt_probe!(latin::start, 1);
}
