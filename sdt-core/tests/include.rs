//! Providers from a D provider file, as in C programs.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use sdt_core::arg::CType;
use sdt_core::ops::{Class, Stability};
use sdt_core::patch::Mode;
use sdt_core::{sdt_probe, sdt_provider};

#[derive(CType)]
#[repr(C)]
struct PacketHeader {
    length: u32,
}

sdt_provider!(include "d/proc.d");

mod public {
    pub use sdt_core as handed_on;
    sdt_core::sdt_provider!(crate = self::handed_on; pub(crate) include "d/small.d");
}

#[inline(never)]
fn fire() {
    let header = PacketHeader { length: 7 };
    sdt_probe!(shared::exec_success, c"/bin/ls", 3);
    sdt_probe!(shared::exec_done, 1, 2, &header);
    sdt_probe!(shared::start, &raw const header);
    sdt_probe!(shared::wide, 1, 2, &3);
    sdt_probe!(shared::none);
    sdt_probe!(shared::r#type);
    sdt_probe!(other::hit, 4);
    sdt_probe!(public::small::hit);
    assert_eq!(header.length, 7);
}

#[test]
fn what_c_declares_rust_fires() {
    let recorder = recording_host::attach(Mode::Trap);
    let types =
        |provider, name| recorder.types(recorder.find(provider, name).expect("it is listed"));
    assert_eq!(types("shared", "exec-success"), ["char *", "int"]);
    let done = ["int", "uint64_t", "struct packet_header *"];
    assert_eq!(types("shared", "exec_done"), done);
    assert_eq!(types("shared", "start"), ["struct packet_header * > bufinfo_t *"]);
    assert_eq!(types("shared", "wide"), ["uint64_t", "uint64_t", "uint8_t *"]);
    assert_eq!(types("shared", "none"), [""; 0]);
    assert_eq!(types("shared", "type"), [""; 0]);
    let registered = recorder.registered.lock().unwrap();
    let (_, attr, _) = registered.iter().find(|(name, ..)| name == "shared").unwrap();
    assert_eq!((attr.provider.name, attr.provider.class), (Stability::Evolving, Class::Isa));
    assert_eq!((attr.args.data, attr.args.class), (Stability::Stable, Class::Common));
    let id = recorder.find("shared", "exec-success").unwrap();
    recorder.enable(id);
    fire();
    assert_eq!((recorder.hits(id), recorder.args(id)[1]), (1, 3));
    recorder.disable(id);
}
