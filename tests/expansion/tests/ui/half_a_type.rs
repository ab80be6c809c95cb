use sdt_core::arg::{ArgType, Argument, Value};
use sdt_core::name::TypeName;
use sdt_core::{sdt_probe, sdt_provider};

/// Two words, and a type for one of them.
struct Half;

impl Value for Half {
    type Words = [u64; 2];

    fn words(&self) -> [u64; 2] {
        [0; 2]
    }
}

impl Argument for Half {
    const TYPES: &'static [ArgType] = &[ArgType::native(TypeName::new("int"))];
}

sdt_provider! {
    by_hand {
        fn half(it: Half);
    }
}

fn main() {
    sdt_probe!(by_hand::half, Half);
}
