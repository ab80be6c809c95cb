//! The C types of arguments and fields are built-in types of D. A kernel without CTF, for example, lists an argument of any other
//! type as `(unknown)`, and a D library with such an argument does not compile.

use core::cell::{Cell, UnsafeCell};
use core::ffi::{CStr, c_char, c_void};
use core::num::NonZero;
use core::ptr::NonNull;
use core::sync::atomic;
use std::collections::BTreeSet;

use sdt_core::arg::{Argument, CType, Json, Shown};

/// libdtrace's own types on 64-bit kernels except its floating-point ones: `_dtrace_intrinsics_64` and
/// `_dtrace_typedefs_64` of `lib/libdtrace/common/dt_open.c`, the same in illumos and FreeBSD.
const BUILT_IN: [&str; 39] = [
    "void",
    "signed",
    "unsigned",
    "char",
    "short",
    "int",
    "long",
    "long long",
    "signed char",
    "signed short",
    "signed int",
    "signed long",
    "signed long long",
    "unsigned char",
    "unsigned short",
    "unsigned int",
    "unsigned long",
    "unsigned long long",
    "_Bool",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "intptr_t",
    "ssize_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "uchar_t",
    "ushort_t",
    "uint_t",
    "ulong_t",
    "u_longlong_t",
    "ptrdiff_t",
    "uintptr_t",
    "size_t",
    "id_t",
    "pid_t",
];

/// Types of arguments by value.
fn argument<A: Argument>() -> Vec<&'static str> {
    A::TYPES.iter().map(|of| of.native.as_str()).collect()
}

/// Types of arguments by reference, and types of fields.
fn named<C: CType>() -> Vec<&'static str> {
    let of = |name| Box::leak::<'static>(Box::new(name));
    vec![of(C::NAME).as_str(), of(C::VALUE).as_str()]
}

#[test]
fn d_knows_every_type_without_the_kernels() {
    let names = [
        argument::<u8>(),
        argument::<u16>(),
        argument::<u32>(),
        argument::<u64>(),
        argument::<usize>(),
        argument::<i8>(),
        argument::<i16>(),
        argument::<i32>(),
        argument::<i64>(),
        argument::<isize>(),
        argument::<u128>(),
        argument::<i128>(),
        argument::<bool>(),
        argument::<char>(),
        argument::<Option<i16>>(),
        argument::<NonZero<u32>>(),
        argument::<Option<NonZero<isize>>>(),
        argument::<&str>(),
        argument::<Option<&str>>(),
        argument::<&[u8]>(),
        argument::<&mut [*const c_char]>(),
        argument::<&[i32; 3]>(),
        argument::<&mut u16>(),
        argument::<Option<NonNull<bool>>>(),
        argument::<Shown<256>>(),
        argument::<Json<256>>(),
        argument::<&CStr>(),
        argument::<Option<&CStr>>(),
        argument::<*const c_void>(),
        argument::<*mut bool>(),
        argument::<&u64>(),
        argument::<Option<&c_char>>(),
        argument::<NonNull<NonNull<u8>>>(),
        named::<c_void>(),
        named::<u8>(),
        named::<u16>(),
        named::<u32>(),
        named::<u64>(),
        named::<usize>(),
        named::<i8>(),
        named::<i16>(),
        named::<i32>(),
        named::<i64>(),
        named::<isize>(),
        named::<bool>(),
        named::<char>(),
        named::<Cell<u16>>(),
        named::<UnsafeCell<u16>>(),
        named::<&i8>(),
        named::<Option<&i16>>(),
        named::<NonNull<i32>>(),
        named::<Option<NonNull<i64>>>(),
        named::<atomic::AtomicU8>(),
        named::<atomic::AtomicU16>(),
        named::<atomic::AtomicU32>(),
        named::<atomic::AtomicU64>(),
        named::<atomic::AtomicUsize>(),
        named::<atomic::AtomicI8>(),
        named::<atomic::AtomicI16>(),
        named::<atomic::AtomicI32>(),
        named::<atomic::AtomicI64>(),
        named::<atomic::AtomicIsize>(),
        named::<atomic::AtomicBool>(),
        named::<atomic::AtomicPtr<bool>>(),
    ];
    let known = BTreeSet::from(BUILT_IN);
    let unknown = |name: &&str| !known.contains(name.trim_end_matches(['*', ' ']));
    let unknown: BTreeSet<_> = names.concat().into_iter().filter(unknown).collect();
    assert_eq!(unknown, BTreeSet::new());
}
