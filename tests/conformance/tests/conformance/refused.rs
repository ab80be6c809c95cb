//! A declaration that one route supports and another does not is a compile error on the other, which names the route. (The tests
//! of `sdt-core` contain the declarations that all routes refuse, and those of `illumos-stress` the names that are too long on
//! illumos.)

use cargo_sdt::internal::arch::Arch;
use conformance::sources::{self, Build};

/// Returns the number of messages of each kind: too many arguments for FreeBSD before 15, for its own sdt, and for any
/// framework; the kernel's name.
fn said(build: Build) -> [usize; 4] {
    let error = sources::refused(Arch::X86_64, build).expect_err("it is to be refused");
    let error = format!("{error:#}");
    let said = [
        "a probe can have at most 5 arguments on FreeBSD before 15",
        "a probe can have at most 6 arguments with FreeBSD's own sdt",
        "a probe can have at most 10 arguments",
        "the kernel has a provider of this name: choose another name",
    ]
    .map(|message| error.matches(message).count());
    assert!(said.iter().sum::<usize>() > 0, "{error}");
    said
}

#[test]
fn more_than_a_route_carries() {
    assert_eq!(said(Build::Native(14)), [2, 0, 0, 1]);
    assert_eq!(said(Build::Native(15)), [0, 1, 0, 1]);
    assert_eq!(said(Build::Provider), [0, 0, 0, 1]);
    assert_eq!(said(Build::Illumos), [0, 0, 0, 1]);
}
