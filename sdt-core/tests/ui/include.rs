use sdt_core::sdt_provider;

sdt_provider!(include "d/broken.d");
sdt_provider!(include "d/type.d");
sdt_provider!(include "d/name.d");
sdt_provider!(include "d/missing.d");

fn main() {}
