//! Feature `off`: probes are checked, and leave nothing. Run with `--features off`.
#![cfg(feature = "off")]

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use sdt_core::arg::CType;
use sdt_core::patch::Mode;
use sdt_core::site;
use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

sdt_provider!(open);
sdt_provider! {
    /// The declaration.
    pub declared {
        /// A probe with arguments.
        fn two(a: u8, b: i64);
    }
}

/// Only probes describe the type for D.
#[derive(CType)]
#[repr(C)]
struct Carried {
    number: u32,
}

fn counted(calls: &mut u64) -> u64 {
    *calls += 1;
    *calls
}

#[inline(never)]
fn with_probes(n: u64) -> u64 {
    let mut calls = 0;
    sdt_probe!(declared::two, n as u8, -(n as i64));
    sdt_probe!(open::cheap, n);
    let carried = Carried { number: n as u32 };
    sdt_probe!(open::carries, &carried);
    sdt_probe!(open::costly, counted(&mut calls));
    calls + u64::from(carried.number) - n + u64::from(sdt_enabled!(open::cheap))
}

#[test]
fn nothing_is_registered_and_nothing_evaluated() {
    let recorder = recording_host::attach(Mode::Trap);
    assert!(recorder.registered.lock().unwrap().is_empty());
    assert!(site::all().is_empty());
    assert_eq!(with_probes(1), 0);
}

#[test]
fn nothing_is_left_in_the_file() {
    let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*file).unwrap();
    for set in [
        "linkme_SDT_PROBES",
        "linkme_SDT_PROVIDERS",
        "sdt_sites",
        "sdt_arg_lists",
        ".sdt_types",
        "sdt_types",
    ] {
        let size = file.section_by_name(set).map_or(0, |section| section.size());
        assert_eq!(size, 0, "{set}");
    }
    let code = |symbol: &object::Symbol<'_, '_>| {
        symbol.name().is_ok_and(|name| name.contains("evaluate_thunk"))
    };
    assert!(file.symbols().find(code).is_none(), "no argument is compiled apart");
}
