//! One function for each kind of argument. The cost while the probe is disabled does not depend on the kind.

use core::ffi::{CStr, c_void};
use core::fmt;
use core::num::NonZero;
use core::ptr::NonNull;

use sdt_core::arg::{Argument, CType, Json, Shown, json, show, show_debug};
use sdt_core::{sdt_probe, sdt_provider};

#[derive(Clone, Copy, Argument)]
pub struct Port(u16);

#[derive(Clone, Copy, Argument, serde::Serialize)]
#[repr(u8)]
pub enum Side {
    Left,
    Right,
}

#[derive(CType)]
#[repr(C)]
pub struct Packet {
    len: u32,
    address: Address,
}

#[derive(CType)]
#[repr(C, u16)]
pub enum Address {
    V4([u8; 4]) = 4,
    V6 { octets: [u8; 16], zone: u32 } = 6,
}

#[derive(CType)]
#[repr(C)]
#[c_type(describe(4))]
pub struct Words<const MOST: usize> {
    words: [u32; MOST],
}

#[derive(CType)]
#[c_type(opaque)]
pub struct Opaque(pub u8, pub u32);

/// A type without a name in C.
pub struct Foreign(pub u64);

#[derive(serde::Serialize)]
pub struct Header<'a> {
    name: &'a str,
    side: Side,
}

pub struct Failure(u32);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed: {}", self.0)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A probe of a declared provider, and of an open one, and functions that fire them, for each kind.
macro_rules! carried {
    ($($name:ident: $type:ty $(as $native:literal)? $(=> $translated:literal)?, |$value:ident: $given:ty| $carried:expr;)*) => {
        sdt_provider! {
            declared {
                $(fn $name(value: $type $(as $native)? $(=> $translated)?);)*
            }
        }

        sdt_provider!(open);

        mod of_declared {
            use super::*;

            $(
                #[unsafe(export_name = concat!("carry_declared_", stringify!($name)))]
                pub fn $name($value: $given) {
                    sdt_probe!(declared::$name, $carried);
                }
            )*
        }

        mod of_open {
            use super::*;

            $(carried!(@open $name $value $given, $carried, [$($native)?]);)*
        }
    };
    (@open $name:ident $value:ident $given:ty, $carried:expr, []) => {
        #[unsafe(export_name = concat!("carry_open_", stringify!($name)))]
        pub fn $name($value: $given) {
            sdt_probe!(open::$name, $carried);
        }
    };
    // Only a declared provider can have these arguments: their type is in the declaration.
    (@open $name:ident $value:ident $given:ty, $carried:expr, [$native:literal]) => {};
}

carried! {
    unsigned_8: u8, |value: u8| value;
    unsigned_16: u16, |value: u16| value;
    unsigned_32: u32, |value: u32| value;
    unsigned_64: u64, |value: u64| value;
    unsigned_size: usize, |value: usize| value;
    unsigned_128: u128, |value: u128| value;
    signed_8: i8, |value: i8| value;
    signed_16: i16, |value: i16| value;
    signed_32: i32, |value: i32| value;
    signed_64: i64, |value: i64| value;
    signed_size: isize, |value: isize| value;
    signed_128: i128, |value: i128| value;
    truth: bool, |value: bool| value;
    letter: char, |value: char| value;
    nonzero: NonZero<u32>, |value: NonZero<u32>| value;
    maybe_nonzero: Option<NonZero<i16>>, |value: Option<NonZero<i16>>| value;
    maybe_letter: Option<char>, |value: Option<char>| value;
    maybe_number: Option<u32>, |value: Option<u32>| value;
    maybe_truth: Option<bool>, |value: Option<bool>| value;
    pointer: *const u32, |value: *const u32| value;
    pointer_mut: *mut c_void, |value: *mut c_void| value;
    nonnull: NonNull<u8>, |value: NonNull<u8>| value;
    maybe_nonnull: Option<NonNull<u8>>, |value: Option<NonNull<u8>>| value;
    reference: &u64, |value: &u64| value;
    exclusive: &mut u64, |value: &mut u64| value;
    maybe_reference: Option<&u64>, |value: Option<&u64>| value;
    maybe_exclusive: Option<&mut u64>, |value: Option<&mut u64>| value;
    array: &[u16; 4], |value: &[u16; 4]| value;
    array_mut: &mut [u16; 4], |value: &mut [u16; 4]| value;
    maybe_array: Option<&[u16; 4]>, |value: Option<&[u16; 4]>| value;
    pointer_to_array: *const [u16; 4], |value: *const [u16; 4]| value;
    pointer_to_array_mut: *mut [u16; 4], |value: *mut [u16; 4]| value;
    c_text: &CStr, |value: &CStr| value;
    maybe_c_text: Option<&CStr>, |value: Option<&CStr>| value;
    text: &str, |value: &str| value;
    text_mut: &mut str, |value: &mut str| value;
    maybe_text: Option<&str>, |value: Option<&str>| value;
    bytes: &[u8], |value: &[u8]| value;
    slice: &[u32], |value: &[u32]| value;
    slice_mut: &mut [u32], |value: &mut [u32]| value;
    maybe_slice: Option<&[u32]>, |value: Option<&[u32]>| value;
    newtype: Port, |value: Port| value;
    enumeration: Side, |value: Side| value;
    structure: &Packet, |value: &Packet| value;
    data_enum: &Address, |value: &Address| value;
    numbered: &Words<4>, |value: &Words<4>| value;
    opaque: &Opaque, |value: &Opaque| value;
    explicit: *const Foreign as "struct foreign *", |value: *const Foreign| value;
    translated: &Foreign as "struct foreign *" => "foreign_t *", |value: &Foreign| value;
    shown: Shown, |value: &Failure| show(value);
    shown_debug: Shown, |value: &Failure| show_debug(value);
    constructed: Shown<32>, |value: &Failure| Shown::<32>::new(value);
    serialised: Json, |value: &Header<'_>| json(value);
    serialised_small: Json<64>, |value: &Header<'_>| Json::<64>::new(value);
}
