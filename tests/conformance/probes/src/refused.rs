//! Code that must not compile: more arguments than the route supports, and a name of the kernels.

use sdt_core::sdt_provider;

sdt_provider! {
    much {
        /// One argument more than FreeBSD's own sdt supported before 15.
        fn six(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64);
        /// One argument more than FreeBSD's own sdt supports since 15.
        fn seven(a: u64, b: u64, c: u64, d: u64, e: u64, f: &str);
    }
}

sdt_provider! {
    fbt {
        /// The name of this provider is one of the kernel's.
        fn entry();
    }
}
