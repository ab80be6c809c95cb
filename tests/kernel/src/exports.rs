//! The symbols that modules can use on both systems: they have the same name and type on FreeBSD and illumos.

use alloc::format;
use alloc::string::String;
use core::ffi::{CStr, VaList, c_char, c_int, c_void};

use sdt_core::ops::{Framework, ProbeId, ProviderId};
use stand_in_base::printf;

use crate::dtrace::DTRACE;
use crate::invop::{self, Handler};
use crate::stack::{Origin, frame_pointer};
use crate::{console, panic, smp};

unsafe extern "C" {
    fn memcpy(to: *mut c_void, from: *const c_void, length: usize) -> *mut c_void;
    fn memmove(to: *mut c_void, from: *const c_void, length: usize) -> *mut c_void;
    fn memset(to: *mut c_void, byte: c_int, length: usize) -> *mut c_void;
    fn memcmp(a: *const c_void, b: *const c_void, length: usize) -> c_int;
    fn bcmp(a: *const c_void, b: *const c_void, length: usize) -> c_int;
    fn strlen(text: *const c_char) -> usize;
}

/// Defines `table()`, which returns the names and addresses of functions. The compiler checks the type of each function.
macro_rules! exports {
    ($($name:ident: $type:ty,)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        pub(crate) fn table() -> [(&'static str, u64); NAMES.len()] {
            [$((stringify!($name), {
                let function: $type = $name;
                function as usize as u64
            })),*]
        }
    };
}
pub(crate) use exports;

exports! {
    // sys/dtrace.h
    dtrace_invalidate: extern "C" fn(usize),
    dtrace_probe_lookup: unsafe extern "C" fn(
        usize, *const c_char, *const c_char, *const c_char,
    ) -> u32,
    dtrace_probe_create: unsafe extern "C" fn(
        usize, *const c_char, *const c_char, *const c_char, c_int, *mut c_void,
    ) -> u32,
    dtrace_probe: extern "C" fn(u32, usize, usize, usize, usize, usize),
    dtrace_sync: extern "C" fn(),
    // sys/cddl/dev/dtrace/dtrace_cddl.h, <architecture>/dtrace_subr.c; usr/src/uts/intel/dtrace/dtrace_asm.s
    dtrace_invop_add: extern "C" fn(Handler),
    dtrace_invop_remove: extern "C" fn(Handler),
    // sys/systm.h
    memcpy: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void,
    memmove: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void,
    memset: unsafe extern "C" fn(*mut c_void, c_int, usize) -> *mut c_void,
    memcmp: unsafe extern "C" fn(*const c_void, *const c_void, usize) -> c_int,
    bcmp: unsafe extern "C" fn(*const c_void, *const c_void, usize) -> c_int,
    strlen: unsafe extern "C" fn(*const c_char) -> usize,
}

/// Converts a name that a module passes. NULL becomes the empty name, as in `dtrace_probe_create`.
///
/// # Safety
/// `pointer` is NULL or points to a NUL-terminated string that lives for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> &'a CStr {
    if pointer.is_null() {
        c""
    } else {
        // SAFETY: the pointer is not NULL, so it is a string that lives for `'a`.
        unsafe { CStr::from_ptr(pointer) }
    }
}

extern "C" fn dtrace_invalidate(id: usize) {
    let _ = DTRACE.invalidate(ProviderId::new(id));
}

/// # Safety
/// The names are NULL or strings.
unsafe extern "C" fn dtrace_probe_lookup(
    id: usize,
    module: *const c_char,
    function: *const c_char,
    name: *const c_char,
) -> u32 {
    // SAFETY: the caller passes strings or NULL.
    let (module, function, name) = unsafe { (text(module), text(function), text(name)) };
    DTRACE.probe_lookup(ProviderId::new(id), module, function, name).map_or(0, ProbeId::get)
}

/// # Safety
/// The names are NULL or strings; the provider's ops are sound to call with `argument`.
unsafe extern "C" fn dtrace_probe_create(
    id: usize,
    module: *const c_char,
    function: *const c_char,
    name: *const c_char,
    aframes: c_int,
    argument: *mut c_void,
) -> u32 {
    // SAFETY: the caller passes strings or NULL.
    let (module, function, name) = unsafe { (text(module), text(function), text(name)) };
    let aframes = aframes.max(0).unsigned_abs();
    let provider = ProviderId::new(id);
    // SAFETY: the caller guarantees that its provider's ops can be called with `argument`.
    match unsafe { DTRACE.probe_create(provider, module, function, name, aframes, argument) } {
        Ok(probe) => probe.get(),
        Err(error) => {
            let name = name.to_string_lossy();
            console::print(&format!("WARNING: failed to create probe '{name}': {error}\n"));
            0
        }
    }
}

/// Fires a probe with five arguments. Probe context.
pub(crate) extern "C" fn dtrace_probe(
    id: u32,
    arg0: usize,
    arg1: usize,
    arg2: usize,
    arg3: usize,
    arg4: usize,
) {
    Origin::called(frame_pointer()).of(|| probe(id, [arg0, arg1, arg2, arg3, arg4]));
}

/// Fires a probe whose [`Origin`] is already set; does nothing after a panic. Probe context. FreeBSD does not check the id and
/// crashes on id 0; this kernel panics with a reason.
pub(crate) fn probe(id: u32, args: [usize; 5]) {
    if panic::panicked() {
        return;
    }
    assert!(id != 0, "dtrace_probe() called with id 0");
    // SAFETY: the caller has a hit of its own probe, as in C.
    unsafe { DTRACE.probe5(id, args.map(|arg| arg as u64)) };
}

extern "C" fn dtrace_sync() {
    smp::synchronise();
}

extern "C" fn dtrace_invop_add(handler: Handler) {
    invop::add(handler);
}

extern "C" fn dtrace_invop_remove(handler: Handler) {
    invop::remove(handler);
}

/// The variadic C arguments that follow a format string.
pub(crate) struct Variadic<'a>(pub(crate) VaList<'a>);

impl printf::Arguments for Variadic<'_> {
    fn int(&mut self) -> i32 {
        // SAFETY: the format says that the next argument is an int: the C caller's contract.
        unsafe { self.0.arg::<c_int>() }
    }

    fn long(&mut self) -> i64 {
        // SAFETY: the format says that the next argument is as wide as a long.
        unsafe { self.0.arg::<i64>() }
    }

    fn text(&mut self, limit: Option<usize>) -> Option<String> {
        // SAFETY: the format says that the next argument is a pointer.
        let start = unsafe { self.0.arg::<*const c_char>() };
        if start.is_null() {
            return None;
        }
        let mut length = 0;
        // SAFETY: it points to a string that ends with a NUL, or to `limit` bytes.
        while length < limit.unwrap_or(usize::MAX) && unsafe { *start.add(length) } != 0 {
            length += 1;
        }
        // SAFETY: the loop above has just read these bytes.
        let bytes = unsafe { core::slice::from_raw_parts(start.cast::<u8>(), length) };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}
