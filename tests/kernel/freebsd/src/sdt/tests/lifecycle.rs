//! Loading, listing, enabling.

use crate::release;
use object_core::elf;

use super::*;
use crate::Generation;
use stand_in_base::fixture::shared::{self, SharedBuilder};

const RELEASES: [u32; 5] = [1_003_000, 1_103_000, 1_302_000, 1_404_000, 1_500_068];

#[test]
fn probes_appear_when_the_module_has_been_loaded() {
    for version in RELEASES {
        let linker = kernel_of(Memory::default(), release(version));
        let (file, _) = one(release(version), "one", "proc");
        linker.load("one.ko", &file).unwrap();
        // The probes do not exist yet while the module handles MOD_LOAD.
        assert_eq!(linker.log(), ["event 0, 0 probes"], "{version}");
        assert_eq!(linker.probes(), ["proc:one:none:exec-success"]);
        assert_eq!(linker.types("proc:::"), [("char *".into(), String::new())]);
        linker.unload("one.ko").unwrap();
        assert_eq!(linker.probes(), [""; 0]);
        // The probes are destroyed before the module receives MOD_QUIESCE.
        assert_eq!(linker.log(), ["event 3, 0 probes", "event 1, 0 probes"]);
        assert_eq!(linker.console(), [""; 0]);
        for _ in 0..3 {
            linker.load("one.ko", &file).unwrap();
            assert_eq!(linker.probes(), ["proc:one:none:exec-success"]);
            linker.unload("one.ko").unwrap();
        }
    }
}

#[test]
fn a_probes_attributes_are_sdts() {
    let linker = kernel();
    linker.load("one.ko", &one(release::DEFAULT, "one", "proc").0).unwrap();
    let mut found = None;
    let framework = linker.kernel().framework;
    framework
        .for_each_probe(&spec("proc:::"), |probe| found = framework.describe(probe.id()))
        .unwrap();
    let detail = found.unwrap();
    let triple = |of: sdt_core::ops::Attribute| [of.name as u8, of.data as u8, of.class as u8];
    assert_eq!((triple(detail.probe), triple(detail.args)), ([1, 1, 0], [1, 1, 4]));
}

#[test]
fn enabling_sets_the_id_and_patches_every_tracepoint() {
    let linker = kernel();
    let (file, probe) = one(release::DEFAULT, "one", "proc");
    linker.load("one.ko", &file).unwrap();
    let id = DATA + probe + 88;
    let place = id & (PAGE as u64 - 1);
    let memory = linker.kernel().memory;
    linker.log();

    let consumer = linker.enable("proc:::exec-success");
    assert_eq!(linker.word("one.ko", probe + 88), 1);
    assert_eq!(
        linker.log(),
        [
            format!("write {place:#x}: 1"),
            "patch 0x8: [e9, 1b, 00, 00, 00]".into(),
            "patch 0x10: [e9, 1b, 00, 00, 00]".into()
        ]
    );
    assert!(memory.probes_enabled.load(Ordering::Relaxed));
    // Another consumer changes nothing.
    let second = linker.enable("proc:::exec-success");
    linker.close(second);
    assert_eq!(linker.log(), [""; 0]);

    linker.close(consumer);
    let nops = "[90, 90, 90, 90, 90]";
    assert_eq!(
        linker.log(),
        [
            format!("patch 0x8: {nops}"),
            format!("patch 0x10: {nops}"),
            format!("write {place:#x}: 0")
        ]
    );
    assert!(!memory.probes_enabled.load(Ordering::Relaxed));
    assert_eq!(linker.word("one.ko", probe + 88), 0);
}

#[test]
fn before_15_enabling_sets_the_id_only() {
    for version in &RELEASES[..4] {
        let release = release(*version);
        assert_eq!(release.generation(), Generation::Tested);
        let linker = kernel_of(Memory::default(), release);
        let (file, probe) = one(release, "one", "proc");
        linker.load("one.ko", &file).unwrap();
        linker.log();
        let consumer = linker.enable("proc:::");
        assert_eq!(linker.word("one.ko", probe + 72), 1);
        assert!(linker.kernel().memory.probes_enabled.load(Ordering::Relaxed));
        assert_eq!(linker.log().len(), 1);
        linker.close(consumer);
        assert_eq!(linker.word("one.ko", probe + 72), 0);
        assert!(!linker.kernel().memory.probes_enabled.load(Ordering::Relaxed));
    }
}

#[test]
fn the_machine_is_asked_for_the_sixth_argument() {
    let linker = kernel();
    linker.load("one.ko", &one(release::DEFAULT, "one", "proc").0).unwrap();
    let consumer = linker.enable("proc:::");
    let framework = linker.kernel().framework;
    framework.go(consumer).unwrap();
    // SAFETY: SDT's `getargval` calls the mock machine, which accesses no memory.
    unsafe { framework.probe5(1, [1, 2, 3, 4, 5]) };
    let mut bytes = [0; 2 * Record::SIZE];
    let found = framework.snapshot(consumer, 0, Which::Records, 0, &mut bytes).unwrap();
    let args: Vec<_> = records(&bytes[..found.size]).map(|record| record.args).collect();
    // A seventh argument is not supported and is recorded as 0.
    assert_eq!(args, [[1, 2, 3, 4, 5, 6, 0, 0, 0, 0]]);
}

#[test]
fn names_are_the_records_or_made_up() {
    let linker = kernel();
    let mut file = SdtBuilder::new("one");
    let provider = file.provider("my_prov");
    file.probe(provider, ["", "", "a__b_c"]);
    file.probe(provider, ["other", "f__g", "d___e"]);
    linker.load("one.ko", &file.finish()).unwrap();
    assert_eq!(linker.probes(), ["my_prov:one:none:a-b_c", "my_prov:other:f__g:d-_e"]);
}

#[test]
fn arguments_are_as_their_records_say() {
    let linker = kernel();
    let mut file = SdtBuilder::new("one");
    let provider = file.provider("test");
    let probe = file.probe(provider, ["", "", "whole"]);
    // The set is in no particular order.
    file.argtype(probe, 1, [Some("struct bio *"), Some("bufinfo_t *")]);
    file.argtype(probe, 0, [Some("int"), None]);
    file.argtype(probe, 2, [None, Some("never_seen")]);
    let probe = file.probe(provider, ["", "", "holes"]);
    file.argtype(probe, 0, [Some("int"), None]);
    file.argtype(probe, 7, [Some("long"), None]);
    let probe = file.probe(provider, ["", "", "long"]);
    let long = "x".repeat(200);
    file.argtype(probe, 0, [Some(&long), Some(&long)]);
    file.probe(provider, ["", "", "nothing"]);
    linker.load("one.ko", &file.finish()).unwrap();

    let typed = |native: &str, translated: &str| (native.to_string(), translated.to_string());
    assert_eq!(
        linker.types("test:::whole"),
        [typed("int", ""), typed("struct bio *", "bufinfo_t *"), typed("", "")]
    );
    // There are as many arguments as records; an argument without a record in between has no type.
    assert_eq!(linker.types("test:::holes"), [typed("int", ""), typed("", "")]);
    let cut = "x".repeat(127);
    assert_eq!(linker.types("test:::long"), [typed(&cut, &cut)]);
    assert_eq!(linker.types("test:::nothing"), []);
}

#[test]
fn the_second_record_of_a_name_never_comes_to_life() {
    let linker = kernel();
    let mut file = SdtBuilder::new("one");
    let provider = file.provider("test");
    let first = file.probe(provider, ["", "", "twice"]);
    let second = file.probe(provider, ["", "", "twice"]);
    file.tracepoint(first, 0, 40);
    file.tracepoint(second, 8, 48);
    linker.load("one.ko", &file.finish()).unwrap();
    assert_eq!(linker.probes(), ["test:one:none:twice"]);
    linker.log();
    let consumer = linker.enable("test:::");
    assert_ne!(linker.word("one.ko", first + 88), 0);
    assert_eq!(linker.word("one.ko", second + 88), 0);
    let log = linker.log();
    assert!(log.len() == 2 && log[1].starts_with("patch 0x0:"), "{log:?}");
    linker.close(consumer);
    linker.unload("one.ko").unwrap();
}

#[test]
fn tracepoints_are_listed_by_probe() {
    let linker = kernel();
    linker.load("one.ko", &one(release::DEFAULT, "one", "proc").0).unwrap();
    let base = linker.base("one.ko");
    let sdt = linker.kernel().sdt;
    let places: Vec<_> = sdt
        .tracepoints(1)
        .iter()
        .map(|tracepoint| (tracepoint.patchpoint - base, tracepoint.target - base))
        .collect();
    assert_eq!(places, [(8, 40), (16, 48)]);
    assert_eq!(sdt.tracepoints(2), []);
    linker.unload("one.ko").unwrap();
    assert_eq!(sdt.tracepoints(1), []);
}

#[test]
fn other_files_may_fire_a_probe() {
    let linker = kernel();
    let mut file = SdtBuilder::new("one");
    let provider = file.provider("test");
    let probe = file.probe(provider, ["", "", "shared"]);
    let data = file.module.file.data();
    file.module.file.define("sdt_test___shared", data, probe);
    file.module = file.module.version("one", 1);
    linker.load("one.ko", &file.finish()).unwrap();

    let mut user = SdtBuilder::new("two");
    user.module = user.module.depend("one", [1, 1, 1]);
    let set = user.set("tracepoints");
    let words = [Word::Symbol("sdt_test___shared"), Word::Text(0), Word::Text(32), Word::Number(0)];
    user.words(set, &words);
    linker.load("two.ko", &user.finish()).unwrap();
    linker.log();
    let consumer = linker.enable("test:::");
    assert!(linker.log()[1].starts_with("patch 0x0: [e9, 1b,"));
    linker.close(consumer);
    linker.unload("two.ko").unwrap();
    linker.log();
    // Its tracepoint is no longer linked to the probe.
    let consumer = linker.enable("test:::");
    assert_eq!(linker.log().len(), 1);
    linker.close(consumer);
    linker.unload("one.ko").unwrap();
}

/// In a shared object, a set is the range between two symbols.
#[test]
fn sets_of_shared_objects_are_found() {
    const RELATIVE: elf::RelocationType = elf::R_AARCH64_RELATIVE;
    let mut file = SharedBuilder::new(183);
    let provider_name = file.append(b"test\0");
    let empty = file.append(b"\0");
    let name = file.append(b"a__b\0");
    let int = file.append(b"int\0");
    let provider = file.pointer(RELATIVE, provider_name);
    file.append(&[0; 32]);
    let probe = file.append(&112u64.to_le_bytes());
    file.pointer(RELATIVE, provider);
    file.append(&[0; 48]);
    for text in [empty, empty, name] {
        file.pointer(RELATIVE, text);
    }
    file.append(&[0; 24]);
    let argtype = file.append(&[0; 8]);
    file.pointer(RELATIVE, int);
    file.append(&[0; 24]);
    file.pointer(RELATIVE, probe);
    let tracepoint = file.pointer(RELATIVE, probe);
    file.pointer(RELATIVE, shared::TEXT + 4);
    file.pointer(RELATIVE, shared::TEXT + 16);
    file.append(&[0; 8]);
    for (set, record) in [("providers", provider), ("probes", probe), ("argtypes", argtype)] {
        let at = file.pointer(RELATIVE, record);
        file.define(&format!("__start_set_sdt_{set}_set"), at);
        file.define(&format!("__stop_set_sdt_{set}_set"), at + 8);
    }
    file.define("__start_set_sdt_tracepoint_set", tracepoint);
    file.define("__stop_set_sdt_tracepoint_set", tracepoint + 32);

    let memory = Memory { machine: Some(loader::Machine::Aarch64), ..Memory::default() };
    let linker = kernel_of(memory, release::DEFAULT);
    linker.load("one.ko", &file.finish()).unwrap();
    assert_eq!(linker.probes(), ["test:one:none:a-b"]);
    assert_eq!(linker.types("test:::"), [("int".into(), String::new())]);
    let consumer = linker.enable("test:::");
    assert_eq!(linker.log()[1..], ["patch 0x4: [03, 00, 00, 14]"]);
    linker.close(consumer);
    assert_eq!(linker.log()[..1], ["patch 0x4: [1f, 20, 03, d5]"]);
    linker.unload("one.ko").unwrap();
    assert_eq!(linker.probes(), [""; 0]);
}
