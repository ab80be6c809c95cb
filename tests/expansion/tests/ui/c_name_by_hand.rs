use sdt_core::arg::CType;
use sdt_core::name::TypeName;
use sdt_core::{sdt_probe, sdt_provider};

struct Foreign;

struct Nul;

impl CType for Nul {
    const NAME: TypeName = TypeName::new("struct\0nul");
}

struct Long;

impl CType for Long {
    const NAME: TypeName = TypeName::new("struct a_name_of_a_hundred_and_twenty_eight_bytes_which_is_one_more_than_the_descriptions_that_the_kernel_hands_out_have_room_for_");
}

fn named<T: CType>() {}

sdt_provider! {
    by_hand {
        fn nul(it: &Nul);
        fn long(it: &Long);
    }
}

fn main() {
    named::<Foreign>();
    sdt_probe!(by_hand::nul, &Nul);
    sdt_probe!(by_hand::long, &Long);
}
