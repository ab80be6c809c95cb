//! Code that must not compile: more arguments than the route supports, and a name of the kernels.

use sdt_core::sdt_provider;

sdt_provider! {
    much {
        /// One more than FreeBSD carried before 15.
        fn six(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64);
        /// One more than its own sdt carries since.
        fn seven(a: u64, b: u64, c: u64, d: u64, e: u64, f: &str);
    }
}

sdt_provider! {
    fbt {
        /// Not the kernel's.
        fn entry();
    }
}
