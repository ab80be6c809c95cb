//! Tests of `src/link/mod.rs`.

use super::*;

#[test]
fn sets_are_c_identifiers() {
    for name in ["set_sysinit_set", "linkme_SDT_PROBES", "sdt_sites", "_x9"] {
        assert!(is_set(name), "{name}");
    }
    for name in [".text", "", "9x", "a.b", ".rela.set_x"] {
        assert!(!is_set(name), "{name}");
    }
}
