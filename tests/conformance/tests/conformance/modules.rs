//! The example module in C and in Rust, linked: what is in them.

use std::fs;

use xtask::build::Module;
use xtask::check::{self, Summary};
use xtask::platform::{FreeBsd, Route};
use xtask::workspace::{self, Arch};

use crate::zig;

#[test]
fn modules_are_of_the_same_parts() {
    let Some(zig) = zig(15) else { return };
    let source = workspace::root().join("tests/conformance/c/proc_example.c");
    for arch in Arch::ALL {
        let c = zig.module(arch, &source).unwrap_or_else(|error| panic!("{arch}: {error}"));
        let rust = Module { route: Route::Native, ..Module::example(arch) };
        let rust = rust.build(None).unwrap_or_else(|error| panic!("{arch}: {error}"));
        let [c, rust] = [c, rust].map(|file| {
            let summary = check::module(&fs::read(file).unwrap()).unwrap();
            assert_eq!(summary.release.major(), 15, "{arch}: {summary}");
            // Their sizes are their own affair, and so is the lowest version of the release.
            Summary { size: 0, release: FreeBsd::default(), ..summary }
        });
        assert_eq!(c, rust, "{arch}");
        assert_eq!((c.providers, c.probes, c.sites), (1, 1, 1), "{arch}");
    }
}
