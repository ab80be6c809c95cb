use sdt_core::arg::{Argument, CType};

#[derive(CType)]
#[repr(C)]
#[c_name = "one_t"]
#[c_name = "another_t"]
struct Twice {
    a: u32,
}

#[derive(CType)]
#[repr(C)]
#[c_name = 7]
struct Number {
    a: u32,
}

#[derive(CType)]
#[repr(C)]
#[c_name = "a_name_of_a_hundred_and_twenty_eight_bytes_which_is_one_more_than_the_descriptions_that_the_kernel_hands_out_have_room_for______"]
struct Long {
    a: u32,
}

#[derive(CType)]
#[repr(C)]
struct Deep {
    four: [[[[u8; 2]; 2]; 2]; 2],
}

#[derive(CType)]
#[repr(C)]
union Bits {
    a: u32,
    b: f32,
}

#[derive(Argument)]
enum Numbered<const N: usize> {
    One,
}

fn main() {}
