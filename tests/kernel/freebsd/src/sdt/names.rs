//! Translates the names in a probe's record as sdt does. Each is cut off at the size of its field in DTrace.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;

use sdt_core::ops::{FUNCTION_NAME_LEN, MODULE_NAME_LEN, PROBE_NAME_LEN};

/// `strlcpy` into `size` bytes.
fn cut(text: &[u8], size: usize) -> CString {
    let text = &text[..text.len().min(size - 1)];
    // `text` contains no NUL: it is from a NUL-terminated string or a file's name.
    CString::new(text).unwrap_or_default()
}

/// The module: the name in the record, or else the file's name without `.ko`.
pub(super) fn module(given: &CStr, file: &str) -> CString {
    if !given.is_empty() {
        return cut(given.to_bytes(), MODULE_NAME_LEN);
    }
    of_file(file)
}

/// Returns the module name of a file in DTrace: the file's name without `.ko`.
pub(super) fn of_file(file: &str) -> CString {
    let stem = file.strip_suffix(".ko").filter(|stem| !stem.is_empty());
    cut(stem.unwrap_or(file).as_bytes(), MODULE_NAME_LEN)
}

/// The function: the name in the record, or else `none`.
pub(super) fn function(given: &CStr) -> CString {
    if given.is_empty() { c"none".into() } else { cut(given.to_bytes(), FUNCTION_NAME_LEN) }
}

/// The probe's name, with a dash for every two underscores.
pub(super) fn probe(given: &CStr) -> CString {
    let mut name = Vec::new();
    let mut rest = given.to_bytes();
    while let [first, tail @ ..] = rest {
        let dash = rest.starts_with(b"__");
        name.push(if dash { b'-' } else { *first });
        rest = if dash { &rest[2..] } else { tail };
    }
    cut(&name, PROBE_NAME_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_underscores_are_a_dash() {
        for (given, name) in [
            (c"exec__success", c"exec-success"),
            (c"one_two", c"one_two"),
            (c"a___b", c"a-_b"),
            (c"a____b", c"a--b"),
            (c"__a__", c"-a-"),
            (c"_", c"_"),
            (c"", c""),
            (c"a-b", c"a-b"),
        ] {
            assert_eq!(probe(given).as_c_str(), name);
        }
    }

    #[test]
    fn what_is_empty_is_filled_in() {
        assert_eq!(module(c"", "one.ko").as_c_str(), c"one");
        assert_eq!(module(c"", "kernel").as_c_str(), c"kernel");
        assert_eq!(module(c"", ".ko").as_c_str(), c".ko");
        assert_eq!(module(c"two", "one.ko").as_c_str(), c"two");
        assert_eq!(function(c"").as_c_str(), c"none");
        assert_eq!(function(c"f").as_c_str(), c"f");
    }

    #[test]
    fn what_is_too_long_is_cut_off() {
        let long = CString::new([b'x'; 300]).unwrap();
        assert_eq!(module(&long, "one.ko").as_bytes(), [b'x'; 63]);
        assert_eq!(function(&long).as_bytes(), [b'x'; 191]);
        assert_eq!(probe(&long).as_bytes(), [b'x'; 63]);
        assert_eq!(of_file(&"x".repeat(100)).as_bytes(), [b'x'; 63]);
        // The limit applies to the name after the replacement.
        let dashes = CString::new("__".repeat(63)).unwrap();
        assert_eq!(probe(&dashes).as_bytes(), [b'-'; 63]);
    }
}
