//! The macros use their own items, even if the crate defines items with the same names. They also compile where `unsafe` is
//! forbidden.
#![no_implicit_prelude]
#![forbid(unsafe_code)]
#![deny(warnings, unused_qualifications)]
#![allow(dead_code, non_camel_case_types, unused_macros)]

mod core {}
mod std {}
struct Result;
struct Option;
enum Some {
    None,
}
struct u64;
struct usize;
struct i64;
struct i128;
struct bool;
struct str;

macro_rules! not_this {
    ($($name:ident)*) => {$(
        macro_rules! $name {
            ($d:tt) => {
                compile_error!("not the compiler's own");
            };
        }
    )*};
}
not_this! { assert concat stringify matches cfg }

use ::sdt_core::arg::{Argument, CType, show};

#[derive(CType)]
#[repr(C)]
struct Packet {
    len: u32,
    next: *const Packet,
}

#[derive(Argument)]
enum Kind {
    A,
    B,
}

#[derive(CType)]
#[repr(u8)]
enum Small {
    A,
    B,
}

#[derive(CType)]
#[repr(C, u16)]
enum Address {
    V4([u8; 4]) = 4,
    V6 { octets: [u8; 16], zone: u32 } = 6,
}

#[derive(CType)]
#[repr(C)]
#[c_type(describe(2))]
struct Labels<const MOST: ::core::primitive::usize> {
    entries: [u8; MOST],
}

::sdt_core::sdt_provider!(open);
::sdt_core::sdt_provider! {
    declared {
        fn a(x: u32, k: Kind, q: &Packet, a: &Address, l: &Labels<2>, s: &Small, why: ::sdt_core::arg::Shown);
        fn r#fn(r#type: u32);
        fn core(core: u8);
    }
}

fn number() -> i32 {
    3
}

fn main() {
    let packet = Packet { len: 1, next: ::core::ptr::null() };
    let (address, labels) = (Address::V4([1; 4]), Labels::<2> { entries: [0; 2] });
    let (count, enabled, arguments, frame) = (4u32, 3u8, 2i16, number());
    ::sdt_core::sdt_probe!(
        declared::a, 1, Kind::A, &packet, &address, &labels, &Small::A, show(&count)
    );
    ::sdt_core::sdt_probe!(declared::r#fn, 1);
    ::sdt_core::sdt_probe!(declared::core, 1);
    ::sdt_core::sdt_probe!(open::cheap, count, enabled, arguments, frame);
    ::sdt_core::sdt_probe!(open::costly, number(), count, enabled, arguments, frame);
    if ::sdt_core::sdt_enabled!(declared::*)
        || ::sdt_core::sdt_enabled!(declared::{a, r#fn, core})
        || ::sdt_core::sdt_enabled!(open::{cheap, costly})
        || ::sdt_core::sdt_enabled!(open::cheap)
    {
        ::sdt_core::sdt_probe!(open::asked);
    }
}
