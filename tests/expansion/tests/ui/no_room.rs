use sdt_core::arg::{Json, Shown};
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(open);

fn main() {
    sdt_probe!(open::shown, Shown::<3>::new(&1));
    sdt_probe!(open::json, Json::<3>::new(&1));
}
