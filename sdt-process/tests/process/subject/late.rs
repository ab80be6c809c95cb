//! Libraries that the subject loads and closes while it is traced.

use std::ffi::{CStr, CString, c_int, c_void};

fn open(path: &str, how: c_int) -> *mut c_void {
    let path = CString::new(path).unwrap();
    // SAFETY: the library has been compiled by the tests, and has no constructors.
    unsafe { libc::dlopen(path.as_ptr(), how) }
}

/// Returns a handle of a library that is loaded. Its number of references stays.
fn loaded(path: &str) -> Option<*mut c_void> {
    let library = open(path, libc::RTLD_NOW | libc::RTLD_NOLOAD);
    if library.is_null() {
        return None;
    }
    // SAFETY: `open` has added the reference that this removes.
    assert_eq!(unsafe { libc::dlclose(library) }, 0);
    Some(library)
}

/// Loads a library.
pub(super) fn load(path: &str) {
    if open(path, libc::RTLD_NOW).is_null() {
        // SAFETY: after a failure, the text of the error is valid until the next call.
        panic!("{:?}", unsafe { CStr::from_ptr(libc::dlerror()) });
    }
}

/// Calls the function of a loaded library with 1 to `times`, and returns the sum of its results.
pub(super) fn call(path: &str, times: u64) -> u64 {
    let library = loaded(path).unwrap();
    // SAFETY: the library is loaded, as `close` has not been called.
    let run = unsafe { libc::dlsym(library, c"run".as_ptr()) };
    assert!(!run.is_null());
    // SAFETY: the library defines `run` with one or two arguments, both of them numbers in registers.
    let run = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(u64, u64) -> u64>(run) };
    (1..=times).map(|n| run(n, n)).sum()
}

/// Removes the reference that [`load`] has added. Returns whether the library is still loaded.
pub(super) fn close(path: &str) -> bool {
    let library = loaded(path).unwrap();
    // SAFETY: `load` has added the reference that this removes.
    assert_eq!(unsafe { libc::dlclose(library) }, 0);
    loaded(path).is_some()
}
