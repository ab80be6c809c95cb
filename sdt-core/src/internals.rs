//! The one door to what is no interface: what the macros expand to, and what this workspace's own tools, tests and
//! stand-in kernel look at. It may change with every release, and nothing about it is promised.

/// Opens modules, each with all that is public in it.
macro_rules! open {
    ($($name:ident: $module:path;)*) => {$(
        pub mod $name {
            #[allow(unused_imports, reason = "on some routes there are macros only")]
            pub use $module::*;
        }
    )*};
}

open! {
    arch: crate::arch;
    capture: crate::capture;
    encode: crate::encode;
    fire: crate::fire;
    hit: crate::hit;
    open: crate::route::open;
    record: crate::record;
    release: crate::release;
}

#[cfg(sdt_route = "provider")]
open! {
    frames: crate::route::frames;
    inspect: crate::route::inspect;
    link: crate::attach::link;
    protocol: crate::patch::protocol;
}

#[cfg(any(target_os = "freebsd", target_os = "illumos"))]
open! {
    module: crate::os::module;
}

#[cfg(target_os = "illumos")]
open! {
    companion: crate::illumos::companion;
    dtrace: crate::dtrace;
}

pub use linkme;
pub use sdt_macros::{__SdtProvider, __sdt_expand};

use core::ffi::CStr;

use crate::arg::Argument;

/// The C string in text that ends with a NUL and has no other.
pub const fn c_str(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("one NUL, at the end"),
    }
}

/// An argument of an open provider's probe. What is none is an error at its expression.
#[inline(always)]
pub fn argument<A: Argument>(arg: A) -> A {
    arg
}

/// What a macro for firing is told with its operands: that they are right. A constant, so that it costs nothing.
///
/// The macros' own `unsafe` blocks count as this crate's, wherever they are expanded. This comes from an `unsafe` block
/// of whoever calls the macro, where the compiler and `forbid(unsafe_code)` see it.
#[derive(Debug)]
pub struct Sound(());

impl Sound {
    /// The promise.
    ///
    /// # Safety
    /// The operands next to it are what `sdt_probe!` makes of a probe: the record of a probe of this image, its own
    /// symbol, and as many words as are said. Template and operands of assembly keep what the thunks are made for.
    pub const unsafe fn promised() -> Self {
        Self(())
    }
}

/// A number of arguments.
#[derive(Debug)]
pub struct Arguments<const COUNT: usize>;

/// Numbers of arguments, more than five, that a probe can have here.
#[cfg_attr(
    sdt_site = "tested",
    diagnostic::on_unimplemented(
        message = "a probe has at most 5 arguments on FreeBSD before 15",
        label = "one too many"
    )
)]
#[cfg_attr(
    not(sdt_site = "tested"),
    diagnostic::on_unimplemented(
        message = "a probe has at most 6 arguments; only illumos carries more",
        label = "one too many"
    )
)]
pub trait Carried {}

#[cfg(not(sdt_site = "tested"))]
impl Carried for Arguments<6> {}
#[cfg(sdt_site = "call")]
const _: () = {
    impl Carried for Arguments<7> {}
    impl Carried for Arguments<8> {}
    impl Carried for Arguments<9> {}
    impl Carried for Arguments<10> {}
};

/// Compiles if a probe can have that many arguments.
pub const fn check_carried<const COUNT: usize>()
where
    Arguments<COUNT>: Carried,
{
}
