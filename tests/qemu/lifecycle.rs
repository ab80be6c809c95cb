//! Load, list, enable, hit, disable, unload.

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::platform::Route;
use harness::session::SessionError;

use crate::bench::{
    EXAMPLE, boot, boot_with_module_by, exec_success, log, module_by, name, on_every_route,
    probe_id, tally,
};

/// `EBUSY`.
const BUSY: i32 = 16;

on_every_route!(
    the_module_loads_and_its_probe_is_listed,
    every_exec_is_one_hit_with_2_cpus,
    every_exec_is_one_hit_with_4_cpus,
    disabled_probes_are_not_hit,
    text_is_patched_while_enabled_and_only_then,
    unload_is_refused_while_enabled,
    the_module_can_be_loaded_again_and_again,
    the_machine_powers_off_in_order,
);

fn the_module_loads_and_its_probe_is_listed(arch: Arch, route: Route) {
    let mut session = boot(arch, 2);
    assert_eq!(session.list(exec_success()).unwrap(), []);
    session.kldload(EXAMPLE, module_by(arch, route)).unwrap();
    let modules = session.kldstat().unwrap();
    assert!(modules.iter().any(|loaded| loaded.file == EXAMPLE && loaded.size > 0), "{modules:?}");

    let probes = session.list(exec_success()).unwrap();
    assert_eq!(probes.len(), 1, "{probes:?}");
    let probe = &probes[0];
    assert_eq!((&*probe.provider, &*probe.name), ("proc", "exec-success"));
    assert_eq!(probe.module, "proc_example");
    for spec in ["exec-success", "proc:::exec-*", "proc_example::exec-success", "*c:::", ":::*c?ss"]
    {
        assert_eq!(session.list(name(spec)).unwrap(), probes, "{spec}");
    }
    assert_eq!(session.list(name("proc:::nosuch")).unwrap(), []);

    let detail = session.describe(probe.id).unwrap();
    // Private/Private/Unknown, the weakest of the parts; arguments Private/Private/ISA.
    assert_eq!((detail.probe, detail.args), ([1, 1, 0], [1, 1, 4]));
    let types: Vec<_> = detail.types.iter().map(|of| &*of.native).collect();
    assert_eq!(types, ["char *"]);
}

fn every_exec_is_one_hit_with_2_cpus(arch: Arch, route: Route) {
    every_exec_is_one_hit(arch, 2, route);
}

fn every_exec_is_one_hit_with_4_cpus(arch: Arch, route: Route) {
    every_exec_is_one_hit(arch, 4, route);
}

fn every_exec_is_one_hit(arch: Arch, cpus: u32, route: Route) {
    let mut session = boot_with_module_by(arch, cpus, route);
    let probe = probe_id(&mut session);
    let consumer = session.open().unwrap();
    assert_eq!(session.enable(consumer, exec_success()).unwrap(), 1);
    session.go(consumer).unwrap();
    let before = session.counters().unwrap();
    let mut executed = vec![0; cpus as usize];
    let log = log();
    for batch in log.chunks(100) {
        let per_cpu = session.exec(batch).unwrap();
        assert_eq!(per_cpu.len(), executed.len());
        executed.iter_mut().zip(per_cpu).for_each(|(sum, more)| *sum += more);
    }
    let after = session.counters().unwrap();
    session.stop(consumer).unwrap();
    let tally = tally(&mut session, consumer);

    assert_eq!(tally.drops, 0);
    assert_eq!(executed.iter().sum::<u64>(), log.len() as u64);
    // No lost and no duplicate hits, for each CPU.
    assert_eq!(tally.per_cpu(cpus), executed);
    assert!(executed.iter().all(|&on| on > 0), "every CPU takes its share: {executed:?}");
    // On the provider route, each hit is one breakpoint exception. On the native route, none is.
    let breakpoints = if route == Route::Provider { log.len() as u64 } else { 0 };
    assert_eq!(after.breakpoints - before.breakpoints, breakpoints);
    assert_eq!(after.hits - before.hits, log.len() as u64);
    assert_eq!(after.reentered, before.reentered);
    for records in tally.records.values() {
        assert!(records.iter().all(|record| record.probe == probe && record.args[0] != 0));
        let times = records.iter().map(|record| record.timestamp);
        assert!(times.is_sorted(), "records of one CPU come in order");
    }
    assert!(after.ticks > before.ticks, "interrupts were on");
}

fn disabled_probes_are_not_hit(arch: Arch, route: Route) {
    let mut session = boot_with_module_by(arch, 2, route);
    let consumer = session.open().unwrap();
    session.enable(consumer, exec_success()).unwrap();
    session.go(consumer).unwrap();
    session.exec(&log()[..50]).unwrap();
    session.stop(consumer).unwrap();
    assert_eq!(tally(&mut session, consumer).hits(), 50);
    session.close(consumer).unwrap();
    let before = session.counters().unwrap();
    session.exec(&log()[..50]).unwrap();
    let after = session.counters().unwrap();
    assert_eq!((after.breakpoints, after.hits), (before.breakpoints, before.hits));
}

fn text_is_patched_while_enabled_and_only_then(arch: Arch, route: Route) {
    let mut session = boot_with_module_by(arch, 2, route);
    let original = session.read_text(EXAMPLE).unwrap();
    let nop = arch.encoding().nop;
    let nop = nop.as_bytes();
    let mut disabled = original.clone();
    for _ in 0..3 {
        let consumer = session.open().unwrap();
        session.enable(consumer, exec_success()).unwrap();
        let enabled = session.read_text(EXAMPLE).unwrap();
        assert_eq!(enabled.len(), original.len());
        // The example has one site, and nothing else has changed.
        let differs = (0..original.len()).find(|&at| enabled[at] != original[at]);
        let differs = differs.expect("enabling patches the text");
        let at = (differs.saturating_sub(nop.len() - 1)..=differs)
            .find(|&at| original[at..at + nop.len()] == *nop)
            .unwrap_or_else(|| panic!("no nop was at {differs:#x}"));
        let id = probe_id(&mut session);
        let sites = session.sites(id).unwrap();
        assert_eq!(sites.len(), 1, "{sites:?}");
        let mut expected = disabled.clone();
        let patched = patched(arch, route, sites[0].target.wrapping_sub(sites[0].address));
        expected[at..at + patched.len()].copy_from_slice(&patched);
        assert!(
            enabled == expected,
            "only the bytes at {at:#x} have changed: {:02x?}",
            &enabled[at..][..5]
        );
        session.close(consumer).unwrap();
        if (arch, route) == (Arch::X86_64, Route::Native) {
            // The bytes that FreeBSD stores there for one nop.
            disabled[at..at + nop.len()].fill(0x90);
        }
        assert!(session.read_text(EXAMPLE).unwrap() == disabled, "disabling restores every byte");
    }
}

/// Returns the bytes of an enabled site: a module's own breakpoint, or the kernel's jump.
fn patched(arch: Arch, route: Route, distance: u64) -> Vec<u8> {
    let encoding = arch.encoding();
    let code = match route {
        Route::Provider => encoding.breakpoint,
        Route::Native => (encoding.jump)(0, distance as usize).expect("the cold block is in reach"),
    };
    code.as_bytes().to_vec()
}

fn unload_is_refused_while_enabled(arch: Arch, route: Route) {
    let mut session = boot_with_module_by(arch, 2, route);
    let consumer = session.open().unwrap();
    session.enable(consumer, exec_success()).unwrap();
    session.go(consumer).unwrap();
    match session.kldunload(EXAMPLE) {
        Err(SessionError::Refused(refusal)) => assert_eq!(refusal.errno, BUSY, "{refusal:?}"),
        other => panic!("unloading an enabled module: {other:?}"),
    }
    // After a refusal everything still works.
    session.exec(&log()[..50]).unwrap();
    session.stop(consumer).unwrap();
    assert_eq!(tally(&mut session, consumer).hits(), 50);
    assert_eq!(session.list(exec_success()).unwrap().len(), 1);

    session.close(consumer).unwrap();
    session.kldunload(EXAMPLE).unwrap();
    assert_eq!(session.list(exec_success()).unwrap(), []);
    assert!(session.kldstat().unwrap().iter().all(|loaded| loaded.file != EXAMPLE));
    // The list of event handlers is empty, so that no handler of the module runs.
    session.exec(&log()[..50]).unwrap();
}

fn the_module_can_be_loaded_again_and_again(arch: Arch, route: Route) {
    let mut session = boot(arch, 2);
    let log = log();
    for round in 0..20 {
        session
            .kldload(EXAMPLE, module_by(arch, route))
            .unwrap_or_else(|error| panic!("{round}: {error}"));
        let consumer = session.open().unwrap();
        assert_eq!(session.enable(consumer, exec_success()).unwrap(), 1, "{round}");
        session.go(consumer).unwrap();
        session.exec(&log[..20]).unwrap();
        session.stop(consumer).unwrap();
        assert_eq!(tally(&mut session, consumer).hits(), 20, "{round}");
        session.close(consumer).unwrap();
        session.kldunload(EXAMPLE).unwrap_or_else(|error| panic!("{round}: {error}"));
    }
}

fn the_machine_powers_off_in_order(arch: Arch, route: Route) {
    let session = boot_with_module_by(arch, 2, route);
    let ended = session.power_off().unwrap().expect("the machine ends");
    assert!(ended.in_order(), "{ended}");
}
