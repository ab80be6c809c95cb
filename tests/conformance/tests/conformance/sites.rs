//! Compares the instruction at a site, and the costs of a site, with C.

use cargo_sdt::internal::arch::Arch;
use conformance::code::{nops, size};
use conformance::layout::layouts;
use conformance::records;
use conformance::sources::Build;
use conformance::table;
use conformance::unit::Unit;

use crate::{c, rust, zig};

/// Returns the number of bytes of a site that the kernel overwrites (`sys/*/*/sdt_machdep.c`).
const fn patched(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 => 5,
        Arch::Aarch64 | Arch::Riscv64 => 4,
    }
}

/// A site has as many bytes as the kernel overwrites, and they are nops. On amd64, the nops differ between versions of FreeBSD:
/// one of five bytes, `nopw (%rax,%rax)`, in these headers, and five of one byte in later ones; the kernel restores five of one
/// byte. A site in Rust is one instruction, so that no thread can be in the middle of it when it is patched for the first time.
#[test]
fn a_site_is_what_the_kernel_patches() {
    let Some(zig) = zig(15) else { return };
    for arch in Arch::ALL {
        let layouts = layouts(&c(&zig, arch, "layouts.c", &["-g"])).unwrap();
        let rust = rust(arch, Build::Native(15));
        let objects = [("C", c(&zig, arch, "records.c", &[])), ("Rust", rust.probes.clone())];
        for (side, object) in objects {
            let unit = Unit::parse(&object).unwrap();
            let sites = records::sites(&unit, &layouts).unwrap();
            assert!(sites.len() >= 11, "{arch}, {side}: {sites:?}");
            for site in sites {
                let about = format!("{arch}, {side}: {site:?}");
                let found = nops(&unit, site.patchpoint, patched(arch));
                let found = found.unwrap_or_else(|error| panic!("{about}: {error}"));
                assert_eq!(found, [patched(arch)], "{about}");
                // The kernel's `sdt_tracepoint_valid`: both are instructions, and not the same one.
                assert!(site.patchpoint != site.target, "{about}");
                assert_eq!(
                    unit.function_at(site.patchpoint).map(|function| &function.name),
                    unit.function_at(site.target).map(|function| &function.name),
                    "{about}"
                );
                if arch != Arch::X86_64 {
                    let step = if arch == Arch::Aarch64 { 4 } else { 2 };
                    let places = [site.patchpoint.offset, site.target.offset];
                    assert!(places.iter().all(|at| at.is_multiple_of(step)), "{about}");
                }
            }
        }
    }
}

/// To the code that runs while the probe is disabled, a site adds its nop, and removes nothing: the function's frame stays in
/// place. A site in C may add more, never less. (The C compiler moves the frame of a leaf function into the cold code, which the
/// test does not count as a gain.)
#[test]
fn a_disabled_site_costs_no_more_than_cs() {
    let Some(zig) = zig(15) else { return };
    for arch in Arch::ALL {
        let rust = rust(arch, Build::Native(15));
        let rows = table::rows(&zig, arch, &rust).unwrap();
        assert_eq!(rows.len(), 14);
        for row in rows {
            assert_eq!(row.rust.frame, 0, "{arch}: {row:?}");
            // The compiler may add moves of arguments that have no other use at the site.
            let most = if row.kind == "leaf" { 3 } else { 1 };
            assert!((1..=most).contains(&row.rust.instructions), "{arch}: {row:?}");
            assert!(row.rust.instructions <= row.c.instructions, "{arch}: {row:?}");
            assert!(row.rust.cold_bytes > 0 && row.c.cold_bytes > 0, "{arch}: {row:?}");
        }
    }
}

/// The number of instructions that a test of enabled probes adds to the code that runs while none is enabled: one where sites
/// are patched, also for a group of three of the module's own provider. FreeBSD's sdt has no groups, and patches one for each
/// probe.
#[test]
fn what_the_enabled_test_costs() {
    for (build, group) in [(Build::Provider, 1), (Build::Native(15), 3)] {
        for arch in Arch::ALL {
            let unit = Unit::parse(&rust(arch, build).probes).unwrap();
            let size = |name: &str| {
                let function = unit.functions().iter().find(|function| function.name == name);
                size(&unit, function.unwrap_or_else(|| panic!("no {name}")), &[]).unwrap()
            };
            for (kind, sites) in [("kind_enabled", 1), ("kind_enabled_group", group)] {
                let (probed, plain) = (size(kind), size(&format!("plain_{kind}")));
                let about = format!("{arch}, {build:?}, {kind}: {probed:?}, {plain:?}");
                let instructions = probed.hot_instructions - plain.hot_instructions;
                // A register may be moved, as a site ends a basic block.
                assert!((sites..=sites + 1).contains(&instructions), "{about}");
                let bytes = probed.hot_bytes - plain.hot_bytes;
                let most = sites * patched(arch) as i64 + 4;
                assert!((most - 4..=most).contains(&bytes), "{about}");
                assert!(plain.cold_bytes == 0 && probed.cold_bytes > 0, "{about}");
            }
        }
    }
}
