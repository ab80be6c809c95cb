//! Tests of `src/check/names.rs`.

use super::*;

#[test]
fn names_are_judged() {
    let usable = |name: &str| unusable(Os::FreeBsd, name, 64).is_none();
    for name in ["exec-success", "a", "x_1", "a.b", &"n".repeat(63)] {
        assert!(usable(name), "{name}");
    }
    for name in ["", "9x", "a b", "a:b", "ä", "a*", &"n".repeat(64)] {
        assert!(!usable(name), "{name}");
    }
    assert!(unusable(Os::Illumos, "a.b", 64).is_some());
}

#[test]
fn two_underscores_are_a_dash() {
    for (name, listed) in
        [("exec__success", "exec-success"), ("a_b", "a_b"), ("a___b", "a-_b"), ("____", "--")]
    {
        assert_eq!(translated(name), listed);
    }
}
