//! Tests of `src/link/names.rs`.

use super::*;

#[test]
fn paths_are_said_without_types() {
    for (path, name) in [
        ("proc_example::illumos::before_exec", "proc_example.illumos.before_exec"),
        ("sdt_test::generic::<u16>", "sdt_test.generic"),
        ("sdt_test::generic::<core::option::Option<u8>>::inner", "sdt_test.generic.inner"),
        (
            "<proc_example::freebsd::Example as sdt_core::freebsd::module::Module>::load",
            "proc_example.freebsd.Example.load",
        ),
        ("<sdt_core::sync::Mutex<u8>>::lock", "sdt_core.sync.Mutex.lock"),
        ("<<a::B as a::C>::D as a::E<a::F>>::g", "a.B.D.g"),
        ("<fn(&u8) -> u8 as core::ops::FnOnce<(u8,)>>::call_once", "fn_u8_u8.call_once"),
        ("<&str as core::fmt::Debug>::fmt", "str.fmt"),
        ("<[u8] as core::fmt::Debug>::fmt", "u8.fmt"),
        ("<dyn a::B>::c", "dyn_a.B.c"),
        ("a::b::{closure#0}", "a.b.closure0"),
        ("a::b::{closure#1}::{shim:vtable#0}", "a.b.closure1.shim_vtable0"),
        ("a::b::{{closure}}", "a.b.closure"),
        ("a::b.cold.1", "a.b.cold.1"),
        ("a::größe", "a.gr_e"),
        ("__init::_x", "__init._x"),
        ("<", "unnamed"),
        ("<>>::", "unnamed"),
        ("", "unnamed"),
    ] {
        assert_eq!(readable(path), name, "{path}");
    }
}

#[test]
fn names_are_unique_and_fit() {
    let mut taken = HashSet::from(["a.b.1".to_owned()]);
    let mut numbers = HashMap::new();
    let mut name = |path: &str| unique(path, &mut taken, &mut numbers);
    assert_eq!([name("a.b"), name("a.b"), name("a.b")], ["a.b", "a.b.2", "a.b.3"]);
    let long = format!("crate.{}.{}", "m".repeat(80), "f".repeat(60));
    assert_eq!(name(&long), "f".repeat(60));
    assert_eq!(name(&long), format!("{}.1", "f".repeat(60)));
    let longer = format!("crate.{}", "f".repeat(200));
    assert_eq!(name(&longer), "f".repeat(LONGEST));
    assert_eq!(name(&longer), format!("{}.1", "f".repeat(LONGEST - 2)));
}
