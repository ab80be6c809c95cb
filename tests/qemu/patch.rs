//! The example module in each patch mode: the number of hits is the same in all of them.

use harness::workspace;
use std::path::PathBuf;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::check;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{Patch, Route};
use dtrace_protocol::SiteState;
use harness::session::Session;

use crate::bench::{EXAMPLE, boot, exec_success, log, on_every_architecture, probe_id, tally};

on_every_architecture!(sites_that_trap, sites_that_jump, sites_that_test_a_flag);

const CPUS: u32 = 4;

fn module(arch: Arch, patch: Patch) -> Vec<u8> {
    let (route, patch) = (Route::Provider, Some(patch));
    let module = Module { route, patch, ..workspace::example(arch) };
    let file: PathBuf = module.build(None).expect("it builds");
    assert_eq!(file.file_name().unwrap(), EXAMPLE);
    std::fs::read(file).expect("the module can be read")
}

/// The result of executing the whole log with the probe enabled.
struct Traced {
    hits: u64,
    breakpoints: u64,
    original: Vec<u8>,
    enabled: Vec<u8>,
    disabled: Vec<u8>,
}

/// Compares the listed sites of the example with the expected ones.
fn check_sites(session: &mut Session, patch: Patch, enabled: bool) {
    let id = probe_id(session);
    let sites = session.sites(id).unwrap();
    assert_eq!(sites.is_empty(), patch == Patch::Gate, "{sites:?}");
    let module = session.kldstat().unwrap().into_iter().find(|file| file.file == EXAMPLE).unwrap();
    let state = match patch {
        _ if !enabled => SiteState::Nop,
        Patch::Jump => SiteState::Jump,
        Patch::Trap | Patch::Gate => SiteState::Trap,
    };
    for site in &sites {
        assert!(site.in_reach && site.state == state, "{site:?}");
        let inside = module.address..module.address + module.size;
        assert!(inside.contains(&site.address) && inside.contains(&site.target), "{site:?}");
        assert!(site.address.abs_diff(site.target) < site.reach, "{site:?}");
        let (function, _) = site.function.as_ref().expect("functions have symbols");
        assert!(function.contains("exec"), "{site:?}");
    }
}

fn trace(arch: Arch, patch: Patch) -> Traced {
    let mut session = boot(arch, CPUS);
    session.kldload(EXAMPLE, module(arch, patch)).unwrap();
    let original = session.read_text(EXAMPLE).unwrap();
    let consumer = session.open().unwrap();
    assert_eq!(session.enable(consumer, exec_success()).unwrap(), 1);
    let enabled = session.read_text(EXAMPLE).unwrap();
    check_sites(&mut session, patch, true);
    session.go(consumer).unwrap();
    let before = session.counters().unwrap();
    for batch in log().chunks(100) {
        session.exec(batch).unwrap();
    }
    let after = session.counters().unwrap();
    session.stop(consumer).unwrap();
    session.close(consumer).unwrap();
    check_sites(&mut session, patch, false);
    let disabled = session.read_text(EXAMPLE).unwrap();
    let tally = tally(&mut session, consumer);
    assert_eq!((tally.drops, tally.hits()), (0, after.hits - before.hits));
    // Disabled again: in all modes, only END fires.
    session.exec(&log()[..50]).unwrap();
    let idle = session.counters().unwrap();
    assert_eq!((idle.hits, idle.breakpoints), (after.hits + 1, after.breakpoints));
    session.kldunload(EXAMPLE).unwrap();
    let breakpoints = after.breakpoints - before.breakpoints;
    Traced { hits: tally.hits(), breakpoints, original, enabled, disabled }
}

fn sites_that_jump(arch: Arch) {
    let traced = trace(arch, Patch::Jump);
    assert_eq!((traced.hits, traced.breakpoints), (log().len() as u64, 0));
    assert!(traced.disabled == traced.original, "disabling restores every byte");
    let nop = arch.encoding().nop;
    let (nop, length) = (nop.as_bytes(), nop.as_bytes().len());
    let mut at = 0;
    let mut sites = 0;
    while at + length <= traced.original.len() {
        if traced.enabled[at] == traced.original[at] {
            at += 1;
            continue;
        }
        // The only change is a nop that has become a jump into the text.
        let start = (at.saturating_sub(length - 1)..=at)
            .find(|&start| traced.original[start..start + length] == *nop)
            .unwrap_or_else(|| panic!("no nop was at {at:#x}"));
        let found = &traced.enabled[start..start + length];
        let mut targets = 0..traced.original.len();
        let jump = targets.find(|&target| {
            (arch.encoding().jump)(start, target).is_ok_and(|jump| jump.as_bytes() == found)
        });
        assert!(jump.is_some(), "{found:02x?} at {start:#x} jumps out of the text");
        sites += 1;
        at = start + length;
    }
    assert!(sites > 0, "enabling patches the text");
}

/// Returns whether a string table of the file has a name.
fn names(file: &[u8], name: &str) -> bool {
    let name = [b"\0", name.as_bytes(), b"\0"].concat();
    file.windows(name.len()).any(|bytes| bytes == name)
}

fn sites_that_test_a_flag(arch: Arch) {
    let file = module(arch, Patch::Gate);
    let summary =
        check::freebsd_module(&file, check::Against::default()).expect("it passes the check");
    assert_eq!((summary.sites, summary.providers), (0, 1));
    // The module imports none of the symbols that patching needs.
    let writers = ["smp_rendezvous", "disable_wp", "restore_wp", "arm64_get_writable_addr"];
    for name in ["dtrace_invop_add", "dtrace_invop_remove"].into_iter().chain(writers) {
        assert!(!names(&file, name), "{name} is imported");
    }
    assert!(names(&file, "dtrace_probe") && names(&file, "dtrace_sync"));
    let traced = trace(arch, Patch::Gate);
    assert_eq!((traced.hits, traced.breakpoints), (log().len() as u64, 0));
    assert!(traced.enabled == traced.original, "no text is patched");
}

fn sites_that_trap(arch: Arch) {
    let traced = trace(arch, Patch::Trap);
    assert_eq!((traced.hits, traced.breakpoints), (log().len() as u64, log().len() as u64));
    assert!(traced.enabled != traced.original && traced.disabled == traced.original);
}
