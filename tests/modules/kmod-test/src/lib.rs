//! A kernel module with probes of every kind, for the tests in QEMU. Fires on every exec, with arguments
//! that depend on each other, so that a test can tell whether they arrived.
#![cfg_attr(not(test), no_std)]

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU64, Ordering};

use sdt_core::arg::CType;
use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

#[cfg(target_os = "freebsd")]
#[path = "../../on_exec/freebsd.rs"]
mod freebsd;
#[cfg(target_os = "illumos")]
#[path = "../../on_exec/illumos.rs"]
mod illumos;
#[cfg(feature = "script")]
mod script;

#[cfg(target_os = "freebsd")]
sdt_core::freebsd_module!(sdt_test, freebsd::TEST);
#[cfg(target_os = "illumos")]
sdt_core::illumos_module!(sdt_test, illumos::TEST);

sdt_provider! {
    /// Probes of every kind.
    #[stability(
        provider = "Stable/Evolving/Common",
        module = "Stable/Stable/Common",
        function = "Stable/Stable/Common",
        name = "Standard/Unstable/ISA",
        args = "External/Obsolete/Group",
    )]
    #[privileges(kernel)]
    pub sdt_test {
        /// No arguments.
        fn none();
        /// Six arguments: `n`, `-n`, whether `n` is odd, `3n`, the path, `n + 6`.
        #[cfg(sdt_args = "6")]
        fn six(n: u32, minus_n: i64, odd: bool, three_n: u64, path: &CStr, n_plus_6: u16);
        /// The first five of these arguments, for kernels that support five.
        #[cfg(not(sdt_args = "6"))]
        fn six(n: u32, minus_n: i64, odd: bool, three_n: u64, path: &CStr);
        /// The same six arguments, computed by calls. Kernels that support five arguments do not have this probe.
        #[cfg(sdt_args = "6")]
        fn six_costly(n: u32, minus_n: i64, odd: bool, three_n: u64, path: &CStr, n_plus_6: u16);
        /// Fired from two instances of a generic function and an inlined one: `1`, `2`, `3`.
        fn many_sites(site: u64);
        /// Fires if and only if `sdt_enabled!` has returned `true`. The argument is the length of the path in bytes.
        #[name = "asked_first"]
        fn asked_first(path_len: usize);
        /// A struct.
        #[cfg(not(target_os = "none"))]
        #[cfg_attr(target_os = "none", name = "not_there")]
        fn looked_into(exec: &TestExec);
        /// The same struct, with a type for which D has a translator.
        #[deprecated(note = "a warning where it is fired, and nowhere else")]
        fn translated(exec: &TestExec => "sdt_test_info_t *");
        /// Does not exist on any system.
        #[cfg(target_os = "none")]
        fn absent(unknown: &Unknown);
    }
}

/// One exec, for D programs to look into: `struct test_exec`.
#[derive(Debug, CType)]
#[repr(C)]
pub struct TestExec {
    /// Whether `n` is odd.
    odd: bool,
    n: u32,
    /// `n`, `2n`, `3n`.
    multiples: [TestNumber; 3],
    path: *const c_char,
    name: [c_char; 9],
    minus_n: i64,
}

/// A number between gaps: `struct test_number`.
#[derive(Clone, Copy, Debug, CType)]
#[repr(C)]
pub struct TestNumber {
    low: u8,
    number: u64,
    last: u16,
}

impl TestExec {
    fn new(n: u64, path: &CStr) -> Self {
        let number = |number: u64| TestNumber { low: number as u8, number, last: number as u16 };
        Self {
            odd: n & 1 == 1,
            n: n as u32,
            multiples: [number(n), number(2 * n), number(3 * n)],
            path: path.as_ptr(),
            name: b"sdt_test\0".map(|byte| byte as c_char),
            minus_n: -(n as i64),
        }
    }
}

sdt_provider!(sdt_open);

/// Fires the probes for one exec.
// With a frame of its own: illumos lists probes by the function that they are in.
#[inline(never)]
pub fn on_exec(path: &CStr) {
    static EXECS: AtomicU64 = AtomicU64::new(0);
    let n = EXECS.fetch_add(1, Ordering::Relaxed) & 0xfff;

    sdt_probe!(sdt_test::none);
    fire_six(n, path);
    generic(1u8);
    generic(2u16);
    inlined(3);
    if sdt_enabled!(sdt_test::asked_first) {
        sdt_probe!(sdt_test::asked_first, path.count_bytes());
    }
    sdt_probe!(sdt_open::untyped, n, path);
    sdt_probe!(sdt_test::looked_into, &TestExec::new(n, path));
    #[cfg(feature = "script")]
    script::on_exec(path, n);
    #[expect(deprecated, reason = "it is")]
    {
        sdt_probe!(sdt_test::translated, &TestExec::new(n, path));
    }
}

/// Fires the probes of six arguments.
#[inline(always)]
fn fire_six(n: u64, path: &CStr) {
    #[cfg(sdt_args = "6")]
    sdt_probe!(sdt_test::six, n as u32, -(n as i64), n & 1 == 1, 3 * n, path, n as u16 + 6);
    #[cfg(not(sdt_args = "6"))]
    sdt_probe!(sdt_test::six, n as u32, -(n as i64), n & 1 == 1, 3 * n, path);
    #[cfg(sdt_args = "6")]
    sdt_probe!(
        sdt_test::six_costly,
        opaque(n) as u32,
        -(n as i64),
        is_odd(n),
        opaque(n) * 3,
        path,
        n as u16 + 6
    );
}

#[cfg(sdt_args = "6")]
#[inline(never)]
fn opaque(n: u64) -> u64 {
    n
}

#[cfg(sdt_args = "6")]
#[inline(never)]
fn is_odd(n: u64) -> bool {
    opaque(n) & 1 == 1
}

#[inline(never)]
fn generic<T: Copy + Into<u64>>(site: T) {
    sdt_probe!(sdt_test::many_sites, site.into());
}

#[inline(always)]
fn inlined(site: u64) {
    sdt_probe!(sdt_test::many_sites, site);
}
