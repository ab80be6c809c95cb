//! Tests of `src/check/illumos/depends.rs`.

use super::*;

#[test]
fn names_are_judged() {
    for name in ["misc/mac", "drv/ip", "fs/sockfs", "crypto/aes", "misc/a_b-c.d"] {
        assert_eq!(unusable(name), None, "{name}");
    }
    for name in ["", "mac", "/mac", "misc/", "misc/a b", "misc/$x", &"misc/".repeat(7)] {
        assert!(unusable(name).is_some(), "{name}");
    }
}
