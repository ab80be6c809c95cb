//! A library that the subject loads for the tests of typed arguments.

use std::ffi::{CStr, CString};

/// Loads the library at a path. Returns its function `drive`.
fn load(path: &str) -> extern "C" fn() -> u64 {
    let path = CString::new(path).unwrap();
    // SAFETY: the library has been compiled by the tests, and has no constructors.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        // SAFETY: after a failure, the text of the error is valid until the next call.
        panic!("{:?}", unsafe { CStr::from_ptr(libc::dlerror()) });
    }
    // SAFETY: the library is never closed.
    let drive = unsafe { libc::dlsym(library, c"drive".as_ptr()) };
    assert!(!drive.is_null());
    // SAFETY: both libraries of the tests define `drive` with this signature.
    unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> u64>(drive) }
}

/// Loads a library, if it is not loaded yet, and calls its functions.
pub(super) fn drive(path: &str) -> u64 {
    load(path)()
}
