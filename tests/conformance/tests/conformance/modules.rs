//! The contents of the example module, linked, in C and in Rust.

use std::fs;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::check::{self, FreeBsdSummary};
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{FreeBsd, Route};
use harness::workspace;

use crate::zig;

#[test]
fn modules_are_of_the_same_parts() {
    let Some(zig) = zig(15) else { return };
    let source = workspace::root().join("tests/conformance/c/proc_example.c");
    for arch in Arch::ALL {
        let c = zig.module(arch, &source).unwrap_or_else(|error| panic!("{arch}: {error}"));
        let rust = Module { route: Route::Native, ..workspace::example(arch) };
        let rust = rust.build(None).unwrap_or_else(|error| panic!("{arch}: {error}"));
        let [c, rust] = [c, rust].map(|file| {
            let summary =
                check::freebsd_module(&fs::read(file).unwrap(), check::Against::default()).unwrap();
            assert_eq!(summary.release.major(), 15, "{arch}: {summary}");
            // The sizes differ, and so does the lowest version of the release.
            FreeBsdSummary { size: 0, release: FreeBsd::default(), ..summary }
        });
        // A C compiler may move frames, which causes warnings. Modules in Rust keep frames where fbt expects them.
        assert_eq!(rust.warnings, [], "{arch}");
        let c = FreeBsdSummary { warnings: Vec::new(), ..c };
        assert_eq!(c, rust, "{arch}");
        assert_eq!((c.providers, c.probes, c.sites), (1, 1, 1), "{arch}");
    }
}
