//! The declaration of a provider: stability, privileges, and types that D translates.

use core::ffi::c_void;

use sdt_core::arg::CType;
use sdt_core::name::TypeName;
use sdt_core::ops::{Attribute, Class, Privileges, ProviderAttr, Stability};
use sdt_core::patch::Mode;
use sdt_core::{sdt_probe, sdt_provider};

/// A type of the kernel.
struct Bio;

impl CType for Bio {
    const NAME: TypeName = TypeName::new("struct bio");
}

sdt_provider! {
    #[stability(provider = "Stable/evolving/Common", args = "EXTERNAL / Standard / isa")]
    #[privileges(kernel, proc)]
    disk {
        fn start(bio: &Bio => "bufinfo_t *", bytes: u32);
    }
}

sdt_provider! {
    #[stability(
        provider = "Internal/Private/Unknown",
        module = "Private/Obsolete/CPU",
        function = "Obsolete/External/Platform",
        name = "External/Unstable/Group",
        args = "Unstable/Internal/ISA",
    )]
    whole {}
}

sdt_provider! {
    #[privileges(user, owner)]
    open
}

#[test]
fn the_framework_is_told_what_a_provider_says_of_itself() {
    let recorder = recording_host::attach(Mode::Trap);
    let registered = recorder.registered.lock().unwrap();
    let of = |name: &str| {
        let (_, attr, privileges) = registered.iter().find(|(of, ..)| of == name).unwrap();
        (*attr, *privileges)
    };
    use Class::{Common, Cpu, Group, Isa, Platform, Unknown};
    use Stability::{Evolving, External, Internal, Obsolete, Private, Stable, Standard, Unstable};
    let disk = ProviderAttr {
        provider: Attribute::new(Stable, Evolving, Common),
        args: Attribute::new(External, Standard, Isa),
        ..ProviderAttr::SDT
    };
    assert_eq!(of("disk"), (disk, Privileges::KERNEL | Privileges::PROC));
    let whole = ProviderAttr {
        provider: Attribute::new(Internal, Private, Unknown),
        module: Attribute::new(Private, Obsolete, Cpu),
        function: Attribute::new(Obsolete, External, Platform),
        name: Attribute::new(External, Unstable, Group),
        args: Attribute::new(Unstable, Internal, Isa),
    };
    assert_eq!(of("whole"), (whole, Privileges::USER));
    assert_eq!(of("open"), (ProviderAttr::SDT, Privileges::USER | Privileges::OWNER));

    let start = recorder.find("disk", "start").unwrap();
    assert_eq!(recorder.types(start), ["struct bio * > bufinfo_t *", "uint32_t"]);
    recorder.enable(start);
    let bio = Bio;
    sdt_probe!(disk::start, &bio, 512);
    recorder.disable(start);
    let address = (&raw const bio).cast::<c_void>().addr() as u64;
    assert_eq!(recorder.args(start)[..2], [address, 512]);
}
