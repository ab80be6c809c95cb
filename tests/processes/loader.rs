//! Loads a library, calls it, and unloads it, again and again: `loader LIBRARY`.

use std::ffi::{CString, c_void};
use std::time::Duration;

fn main() {
    let library = CString::new(std::env::args().nth(1).expect("a library")).expect("a path");
    for times in 0.. {
        // SAFETY: the library exports this function, and is loaded while it is called.
        unsafe {
            let library = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
            assert!(!library.is_null());
            let call = libc::dlsym(library, c"plugin_call".as_ptr());
            assert!(!call.is_null());
            let call = std::mem::transmute::<*mut c_void, extern "C" fn(u64) -> bool>(call);
            assert!(call(times));
            assert_eq!(libc::dlclose(library), 0);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
