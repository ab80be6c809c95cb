//! The items that the macros expand to. They are not an interface: they may change with every release.
//!
//! No published crate imports anything from here, only this project's tests.

/// Re-exports all public items of some modules.
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
    describe: crate::describe;
    fire: crate::fire;
    arg: crate::arg;
    hit: crate::hit;
    open: crate::route::open;
    record: crate::record;
    thunk: crate::thunk;
}

#[cfg(sdt_route = "provider")]
open! {
    link: crate::attach::link;
}

#[cfg(all(
    sdt_route = "provider",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
pub use crate::trap::entry::resume;

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

pub use crate::promise::Promise;
pub use crate::reserved::is_reserved;
pub use sdt_macros::{__SdtProvider, __sdt_expand, __sdt_expand_group};

use core::ffi::CStr;

/// Returns the C string in a text with exactly one NUL, at its end.
pub const fn c_str(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("one NUL, at the end"),
    }
}

/// The name of a provider, and whether the kernel has a provider of that name.
#[derive(Debug)]
pub struct Name<const IS_RESERVED: bool>;

/// Names that no provider of the kernel has.
#[diagnostic::on_unimplemented(
    message = "the kernel has a provider of this name: choose another name",
    label = "is taken"
)]
pub trait Free {}

impl Free for Name<false> {}

/// Compiles if no provider of the kernel has the name.
pub const fn check_provider<const IS_RESERVED: bool>()
where
    Name<IS_RESERVED>: Free,
{
}

/// A number of arguments, as the framework counts them.
#[derive(Debug)]
pub struct Arguments<const COUNT: usize>;

/// The numbers of arguments above five that a probe can have here.
#[cfg_attr(
    sdt_args = "5",
    diagnostic::on_unimplemented(
        message = "a probe can have at most 5 arguments on FreeBSD before 15",
        label = "too many",
        note = "`&str`, slices, 128-bit integers and numbers in an `Option` count as two"
    )
)]
#[cfg_attr(
    sdt_args = "6",
    diagnostic::on_unimplemented(
        message = "a probe can have at most 6 arguments with FreeBSD's own sdt, and 10 with \
            `SDT_ROUTE=provider`",
        label = "too many",
        note = "`&str`, slices, 128-bit integers and numbers in an `Option` count as two"
    )
)]
#[cfg_attr(
    sdt_args = "10",
    diagnostic::on_unimplemented(
        message = "a probe can have at most 10 arguments",
        label = "too many",
        note = "`&str`, slices, 128-bit integers and numbers in an `Option` count as two"
    )
)]
pub trait Carried {}

macro_rules! carried {
    ($($count:literal)*) => {$(
        impl Carried for Arguments<$count> {}
    )*};
}

carried! { 0 1 2 3 4 5 }
#[cfg(any(sdt_args = "6", sdt_args = "10"))]
carried! { 6 }
#[cfg(sdt_args = "10")]
carried! { 7 8 9 10 }

/// Compiles only if a probe can have this number of arguments.
pub const fn check_carried<const COUNT: usize>()
where
    Arguments<COUNT>: Carried,
{
}

/// Whether the names of probes begin with the names of their providers.
pub const LISTS_PROVIDERS: bool = cfg!(sdt_site = "call");

/// A probe whose name is too long together with the name of its provider. `IS_LISTED_SO` is true if DTrace lists the
/// probe under the combined name.
#[derive(Debug)]
pub struct LongListed<const IS_LISTED_SO: bool>;

/// Names that DTrace lists without truncation.
#[diagnostic::on_unimplemented(
    message = "illumos does not know the provider, so the name of the probe begins with the name \
        of the provider and `-`: the whole name is longer than DTrace's limit of 63 bytes",
    label = "is too long",
    note = "shorten one of the names, call the provider `sdt`, or build with SDT_ROUTE=provider"
)]
pub trait Whole {}

impl Whole for LongListed<false> {}

/// Compiles if DTrace lists the probe by its own name only.
pub const fn check_listed<const IS_LISTED_SO: bool>()
where
    LongListed<IS_LISTED_SO>: Whole,
{
}
