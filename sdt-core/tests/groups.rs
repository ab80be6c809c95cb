//! Whether any of several probes is enabled: one site, in each mode.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use recording_host::site_bytes;
use sdt_core::patch::Mode;
use sdt_core::{sdt_enabled, sdt_provider};

sdt_provider! {
    proc {
        fn start();
        fn exec_success();
        #[name = "own_name"]
        fn named();
        #[cfg(target_os = "none")]
        fn absent();
    }
}
sdt_provider!(open);

#[inline(never)]
fn asked() -> [bool; 5] {
    [
        sdt_enabled!(proc::*),
        sdt_enabled!(proc::{start, exec_success}),
        sdt_enabled!(self::proc::{exec_success, start, start,}),
        sdt_enabled!(proc::{named}),
        sdt_enabled!(open::{one, another}),
    ]
}

fn text() -> Vec<[u8; 5]> {
    sdt_core::attach::probes().iter().flat_map(site_bytes).collect()
}

#[test]
fn a_group_is_enabled_while_one_of_its_probes_is() {
    let recorder = recording_host::attach(Mode::Trap);
    // The framework has no probes for groups.
    let mut names = recorder.names();
    names.sort();
    assert_eq!(names, ["proc:test::exec-success", "proc:test::own_name", "proc:test::start"]);
    let before = text();
    assert_eq!(asked(), [false; 5]);
    let id = |name| recorder.find("proc", name).unwrap();
    for mode in [Mode::Trap, Mode::Jump] {
        for name in ["start", "exec-success", "own_name"] {
            // SAFETY: not in probe context, and no lock is held.
            unsafe { sdt_core::patch::set_mode(probe(name), mode) }.unwrap();
        }
        recorder.enable(id("start"));
        assert_eq!(asked(), [true, true, true, false, false]);
        recorder.enable(id("exec-success"));
        recorder.disable(id("start"));
        assert_eq!(asked(), [true, true, true, false, false], "one of them still is");
        recorder.enable(id("own_name"));
        recorder.disable(id("exec-success"));
        assert_eq!(asked(), [true, false, false, true, false]);
        recorder.disable(id("own_name"));
        assert_eq!(asked(), [false; 5]);
        assert_eq!(text(), before);
        recorder.disable(id("own_name"));
        assert_eq!(asked(), [false; 5], "once more is nothing");
    }
}

fn probe(name: &str) -> &'static sdt_core::Probe {
    match name {
        "start" => &proc::start,
        "exec-success" => &proc::exec_success,
        _ => &proc::named,
    }
}
