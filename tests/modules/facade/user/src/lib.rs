//! Probes of a crate that does not depend on `sdt-core`, but on a crate that re-exports it.

use core::ffi::CStr;

use facade::sdt;
use facade::sdt::arg::CType;
use facade::sdt::{sdt_enabled, sdt_probe, sdt_provider};

/// A module with the name of the crate `sdt_core`, which the macros must not use.
pub mod sdt_core {}

sdt_provider! {
    crate = facade::sdt;
    #[stability(args = "Evolving/Evolving/ISA")]
    /// Declared, with conditions.
    pub declared {
        /// Every kind.
        fn values(packet: &Packet, next: *const Packet => "bufinfo_t *", text: &CStr);
        /// Compiled out.
        #[cfg(any())]
        fn absent();
    }
}

sdt_provider!(crate = facade::sdt; open);

mod below {
    // The paths of these providers are relative to this module.
    facade::sdt::sdt_provider! { crate = self::named; by_self { fn fired(); } }
    facade::sdt::sdt_provider! { crate = super::sdt; pub(super) by_super { fn fired(); } }
    facade::sdt::sdt_provider! { crate = facade::sdt; pub(self) by_crate { fn fired(); } }
    use facade::sdt as named;

    pub(crate) fn fire() {
        facade::sdt::sdt_probe!(by_self::fired);
        facade::sdt::sdt_probe!(by_crate::fired);
    }
}

facade::provider!(short { fn fired(value: u64); });

/// Carried by a probe.
#[derive(CType, Debug)]
#[c_type(crate = facade::sdt)]
#[repr(C)]
pub struct Packet {
    len: u32,
    next: *const Packet,
}

fn costly(value: u64) -> u64 {
    value + 1
}

/// Fires the probes of this crate, and those that the facade declares.
pub fn fire(value: u64) {
    let packet = Packet { len: 1, next: core::ptr::null() };
    sdt_probe!(declared::values, &packet, packet.next, c"text");
    sdt_probe!(open::costly, costly(value), packet.len);
    sdt_probe!(short::fired, costly(value));
    sdt_probe!(facade::framework::task, c"task", costly(value));
    sdt_probe!(facade::framework_open::task, value);
    if sdt_enabled!(facade::framework::started) {
        facade::start();
    }
    below::fire();
    sdt_probe!(below::by_super::fired);
}
