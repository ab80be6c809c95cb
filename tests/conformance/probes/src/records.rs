//! The declarations and sites of `../../c/records.c` in Rust: the same provider and the same probes, in functions with
//! the same names.

use core::ffi::{CStr, c_void};

use sdt_core::arg::{ArgType, Argument, CType, Value};
use sdt_core::name::TypeName;
use sdt_core::{sdt_probe, sdt_provider};

/// The kernel's `struct proc`.
#[derive(Debug)]
#[repr(C)]
pub struct Proc {
    opaque: [u8; 0],
}

impl CType for Proc {
    const NAME: TypeName = TypeName::new("struct proc");
}

/// A `struct proc`, which D programs see as a `psinfo_t` whatever probe carries it.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Process(*const c_void);

impl Value for Process {
    type Words = [u64; 1];

    fn words(&self) -> [u64; 1] {
        [self.0.expose_provenance() as u64]
    }
}

impl Argument for Process {
    const TYPES: &'static [ArgType] =
        &[ArgType::native(TypeName::new("struct proc *"))
            .translated_to(TypeName::new("psinfo_t *"))];
}

sdt_provider! {
    /// Probes of every form.
    conformance {
        /// No argument.
        fn none();
        /// A name with a dash.
        fn one_argument(a: u32);
        /// A name with an underscore.
        #[name = "two_"]
        fn two(a: i64, b: &CStr);
        /// Short ones.
        fn three(a: u8, b: bool, c: usize);
        /// Long and short ones.
        fn four(a: u64, b: u64, c: i32, d: u16);
        /// The number of arguments that FreeBSD has supported since 10.
        fn five(a: *mut c_void, b: i8, c: i16, d: isize, e: u64);
        /// A translated type.
        fn translated(a: &Proc => "psinfo_t *");
        /// A translated type and one that is not.
        fn half_translated(a: Process, b: i32);
    }
}

#[cfg(feature = "six")]
sdt_provider! {
    /// The greatest number of arguments since 15.
    conformance_of_15 {
        /// Six arguments.
        fn six(a: u64, b: u64, c: u64, d: u64, e: u64, f: &CStr);
    }
}

#[unsafe(no_mangle)]
fn fire_none() {
    sdt_probe!(conformance::none);
}

#[unsafe(no_mangle)]
fn fire_one(a: u32) {
    sdt_probe!(conformance::one_argument, a);
}

#[unsafe(no_mangle)]
fn fire_two(a: i64, b: &CStr) {
    sdt_probe!(conformance::two, a, b);
}

#[unsafe(no_mangle)]
fn fire_three(a: u8, b: bool, c: usize) {
    sdt_probe!(conformance::three, a, b, c);
}

#[unsafe(no_mangle)]
fn fire_four(a: u64, b: u64, c: i32, d: u16) {
    sdt_probe!(conformance::four, a, b, c, d);
}

#[unsafe(no_mangle)]
fn fire_five(a: *mut c_void, b: i8, c: i16, d: isize, e: u64) {
    sdt_probe!(conformance::five, a, b, c, d, e);
}

#[unsafe(no_mangle)]
fn fire_translated(a: &Proc) {
    sdt_probe!(conformance::translated, a);
}

#[unsafe(no_mangle)]
fn fire_half_translated(a: Process, b: i32) {
    sdt_probe!(conformance::half_translated, a, b);
}

#[cfg(feature = "six")]
#[unsafe(no_mangle)]
fn fire_six(a: u64, b: u64, c: u64, d: u64, e: u64, f: &CStr) {
    sdt_probe!(conformance_of_15::six, a, b, c, d, e, f);
}

/// Two sites of one probe.
#[unsafe(no_mangle)]
fn fire_twice(a: u32, b: u32) {
    sdt_probe!(conformance::one_argument, a);
    sdt_probe!(conformance::one_argument, b);
}
