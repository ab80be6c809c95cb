//! Load, list, enable, hit, disable, unload.

use xtask::session::SessionError;
use xtask::workspace::Arch;

use crate::bench::{
    EXAMPLE, boot, boot_with_module, exec_success, log, module, name, on_every_architecture,
    probe_id, tally,
};

/// `EBUSY`.
const BUSY: i32 = 16;

on_every_architecture!(
    the_module_loads_and_its_probe_is_listed,
    every_exec_is_one_hit_with_2_cpus,
    every_exec_is_one_hit_with_4_cpus,
    disabled_probes_are_not_hit,
    text_is_patched_while_enabled_and_only_then,
    unload_is_refused_while_enabled,
    the_module_can_be_loaded_again_and_again,
    the_machine_powers_off_in_order,
);

fn the_module_loads_and_its_probe_is_listed(arch: Arch) {
    let mut session = boot(arch, 2);
    assert_eq!(session.list(exec_success()).unwrap(), []);
    session.kldload(EXAMPLE, module(arch)).unwrap();
    let modules = session.kldstat().unwrap();
    assert!(modules.iter().any(|loaded| loaded.file == EXAMPLE && loaded.size > 0), "{modules:?}");

    let probes = session.list(exec_success()).unwrap();
    assert_eq!(probes.len(), 1, "{probes:?}");
    let probe = &probes[0];
    assert_eq!((&*probe.provider, &*probe.name), ("proc", "exec-success"));
    assert_eq!(probe.module, "proc_example");
    for spec in ["exec-success", "proc:::exec-*", "proc_example::exec-success", "p*:::", ":::*c?ss"]
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

fn every_exec_is_one_hit_with_2_cpus(arch: Arch) {
    every_exec_is_one_hit(arch, 2);
}

fn every_exec_is_one_hit_with_4_cpus(arch: Arch) {
    every_exec_is_one_hit(arch, 4);
}

fn every_exec_is_one_hit(arch: Arch, cpus: u32) {
    let mut session = boot_with_module(arch, cpus);
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
    session.stop(consumer).unwrap();
    let after = session.counters().unwrap();
    let tally = tally(&mut session, consumer);

    assert_eq!(tally.drops, 0);
    assert_eq!(executed.iter().sum::<u64>(), log.len() as u64);
    // No loss and no duplicate, CPU by CPU.
    assert_eq!(tally.per_cpu(cpus), executed);
    assert!(executed.iter().all(|&on| on > 0), "every CPU takes its share: {executed:?}");
    // Each through one breakpoint exception, and none of them any other way.
    assert_eq!(after.breakpoints - before.breakpoints, log.len() as u64);
    assert_eq!(after.hits - before.hits, log.len() as u64);
    assert_eq!(after.reentered, before.reentered);
    for records in tally.records.values() {
        assert!(records.iter().all(|record| record.probe == probe && record.args[0] != 0));
        let times = records.iter().map(|record| record.timestamp);
        assert!(times.is_sorted(), "records of one CPU come in order");
    }
    assert!(after.ticks > before.ticks, "interrupts were on");
}

fn disabled_probes_are_not_hit(arch: Arch) {
    let mut session = boot_with_module(arch, 2);
    let consumer = session.open().unwrap();
    session.enable(consumer, exec_success()).unwrap();
    session.go(consumer).unwrap();
    session.exec(&log()[..50]).unwrap();
    assert_eq!(session.disable(consumer, exec_success()).unwrap(), 1);
    let before = session.counters().unwrap();
    session.exec(&log()[..50]).unwrap();
    let after = session.counters().unwrap();
    session.stop(consumer).unwrap();
    assert_eq!(tally(&mut session, consumer).hits(), 50);
    assert_eq!((after.breakpoints, after.hits), (before.breakpoints, before.hits));
}

fn text_is_patched_while_enabled_and_only_then(arch: Arch) {
    let mut session = boot_with_module(arch, 2);
    let original = session.read_text(EXAMPLE).unwrap();
    let encoding = arch.encoding();
    let (nop, trap) = (encoding.nop.as_bytes(), encoding.breakpoint.as_bytes());
    let consumer = session.open().unwrap();
    for _ in 0..3 {
        session.enable(consumer, exec_success()).unwrap();
        let enabled = session.read_text(EXAMPLE).unwrap();
        assert_eq!(enabled.len(), original.len());
        // The example has one site: its nop begins with a breakpoint now, and nothing else has changed.
        let differs = (0..original.len()).find(|&at| enabled[at] != original[at]);
        let at = differs.expect("enabling patches the text");
        let mut expected = original.clone();
        assert_eq!(original[at..at + nop.len()], *nop, "{at:#x} is no site");
        expected[at..at + trap.len()].copy_from_slice(trap);
        assert!(enabled == expected, "only the breakpoint at {at:#x} is new");
        session.disable(consumer, exec_success()).unwrap();
        assert!(session.read_text(EXAMPLE).unwrap() == original, "disabling restores every byte");
    }
}

fn unload_is_refused_while_enabled(arch: Arch) {
    let mut session = boot_with_module(arch, 2);
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
    // Nobody is left in the event handlers' list.
    session.exec(&log()[..50]).unwrap();
}

fn the_module_can_be_loaded_again_and_again(arch: Arch) {
    let mut session = boot(arch, 2);
    let log = log();
    for round in 0..20 {
        session.kldload(EXAMPLE, module(arch)).unwrap_or_else(|error| panic!("{round}: {error}"));
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

fn the_machine_powers_off_in_order(arch: Arch) {
    let session = boot_with_module(arch, 2);
    let ended = session.power_off().unwrap().expect("the machine ends");
    assert!(ended.in_order(), "{ended}");
}
