//! Tests of `src/link/freebsd/shared.rs`.

use super::*;

#[test]
fn every_set_is_kept_in_the_segment_of_its_like() {
    let sets = Sets::from([("set_ro".to_owned(), false), ("set_rw".to_owned(), true)]);
    let script = script_for(&sets);
    let at = |what: &str| script.find(what).unwrap_or_else(|| panic!("no {what} in {script}"));
    assert!(at("  .rodata ") < at("  set_ro : ALIGN(8) { KEEP(*(set_ro)) }"));
    assert!(at("  set_ro ") < at("  .text "));
    assert!(at("  .data ") < at("  set_rw : ALIGN(8) { KEEP(*(set_rw)) }"));
    assert!(at("  set_rw ") < at("  .bss "));
}
