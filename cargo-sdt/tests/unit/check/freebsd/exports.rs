//! Tests of `src/check/freebsd/exports.rs`.

use super::*;

#[test]
fn the_list_is_sorted_and_names_sources() {
    let lines: Vec<_> = LIST.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.is_sorted(), "keep symbols.txt sorted");
    assert_eq!(exports().count(), lines.len(), "`symbol file [first-last] [variable]`");
    for export in exports() {
        assert!(export.file.starts_with("sys/"), "{export:?}");
        assert!(export.releases.0 <= export.releases.1, "{export:?}");
    }
    // The nodes of sysctls are lists.
    for export in exports().filter(|export| export.symbol.starts_with("sysctl__")) {
        assert_eq!(export.kind, Kind::Variable, "{export:?}");
    }
}

#[test]
fn symbols_are_known_where_they_are() {
    let newest = FreeBsd::default();
    let known = |arch, symbol| listed(arch, newest, true, symbol, false) == Listed::Fine;
    for arch in Arch::ALL {
        for symbol in ["dtrace_probe", "memcpy", "strlen", "smp_rendezvous", "dtrace_invop_add"] {
            assert!(known(arch, symbol), "{symbol} on {arch}");
        }
        assert_eq!(known(arch, "disable_wp"), arch == Arch::X86_64);
        assert_eq!(known(arch, "arm64_get_writable_addr"), arch == Arch::Aarch64);
        assert!(!known(arch, "puts") && !known(arch, "#") && !known(arch, ""));
    }
}

#[test]
fn symbols_are_known_from_their_release_on_and_with_their_module() {
    let on = |release: &str, dtrace, symbol| {
        let release = release.parse().expect("a release");
        listed(Arch::X86_64, release, dtrace, symbol, false)
    };
    for (symbol, first) in [("sdt_probe_func", 10), ("sdt_probes_enabled", 12), ("sdt_probe", 15)] {
        for release in 10..=15 {
            let known = on(&release.to_string(), false, symbol) == Listed::Fine;
            assert_eq!(known, release >= first, "{symbol} in {release}");
        }
    }
    assert_eq!(on("1404000", false, "sdt_probe6"), Listed::NotInRelease);
    assert_eq!(on("15", false, "dtrace_register"), Listed::NoDependency("dtrace.ko"));
    assert_eq!(on("15", true, "dtrace_register"), Listed::Fine);
}

#[test]
fn variables_are_not_called() {
    for (release, variable) in [("12", false), ("13", true), ("1300139", true), ("15", true)] {
        let release = release.parse().expect("a release");
        let sync = |called| listed(Arch::Aarch64, release, true, "arm64_icache_sync_range", called);
        let expected = if variable { Listed::Variable } else { Listed::Fine };
        assert_eq!((sync(true), sync(false)), (expected, Listed::Fine), "{release}");
    }
}
