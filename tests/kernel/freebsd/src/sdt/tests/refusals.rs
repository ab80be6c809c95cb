//! Tests of records that FreeBSD ignores, and of records that would crash FreeBSD.

use crate::release;
use sdt_framework::registration::RegistrationError;

use super::*;
use crate::errno;
use crate::fixture::sdt::Word::{Data, Number, Text};

/// Returns the fault of a file, and checks that the refused file has no effect.
fn fault(file: SdtBuilder) -> Fault {
    let linker = kernel();
    let refusal = linker.load("one.ko", &file.finish()).unwrap_err();
    assert_eq!(refusal.errno(), errno::ENOEXEC);
    assert_eq!(linker.console(), [format!("kldload: one.ko: {refusal}")]);
    // No code of it has run.
    assert_eq!(linker.log(), [""; 0]);
    assert_eq!((linker.files(), linker.probes()), (vec![], vec![]));
    linker.load("one.ko", &one(release::DEFAULT, "one", "proc").0).unwrap();
    match refusal {
        Refusal::Sdt(fault) => fault,
        other => panic!("{other:?}"),
    }
}

fn builder() -> (SdtBuilder, u64) {
    let mut file = SdtBuilder::new("one");
    let provider = file.provider("test");
    (file, provider)
}

#[test]
fn records_of_another_version_are_ignored() {
    for (version, built, running) in [(96, 1_404_000, 1_500_068), (112, 1_500_068, 1_404_000)] {
        let linker = kernel_of(Memory::default(), release(running));
        let mut file = SdtBuilder::of(release(running), "one");
        let provider = file.provider("test");
        // A record as the other release's header defines it.
        let mut other = SdtBuilder::of(release(built), "one");
        let size = other.probe_words(Number(0), ["", "", ""]).len();
        let mut words = vec![Number(0); size];
        (words[0], words[1]) = (Number(version), Data(provider));
        let probe = file.record("probes", &words);
        file.argtype(probe, 0, [Some("int"), None]);
        file.probe(provider, ["", "", "good"]);
        linker.load("one.ko", &file.finish()).unwrap();
        let address = linker.base("one.ko") + DATA + probe;
        let expected = 112 + 96 - version;
        assert_eq!(
            linker.console(),
            [format!("ignoring probe {address:#x}, version {version} expected {expected}")]
        );
        assert_eq!(linker.probes(), ["test:one:none:good"]);
        // Nothing of the record has changed.
        assert_eq!(linker.word("one.ko", probe), version);
        for word in 2..size as u64 {
            assert_eq!(linker.word("one.ko", probe + 8 * word), 0);
        }
        linker.unload("one.ko").unwrap();
    }
}

#[test]
fn invalid_tracepoints_are_passed_over() {
    let (mut file, provider) = builder();
    let probe = file.probe(provider, ["m", "f", "a__b"]);
    let set = file.set("tracepoints");
    file.words(set, &[Data(probe), Number(0), Text(40), Number(0)]);
    file.words(set, &[Data(probe), Text(8), Text(8), Number(0)]);
    file.tracepoint(probe, 16, 48);
    let linker = kernel();
    linker.load("one.ko", &file.finish()).unwrap();
    let base = linker.base("one.ko");
    assert_eq!(
        linker.console(),
        [
            format!("invalid tracepoint 0->{:#x} for test:m:f:a__b", base + 40),
            format!("invalid tracepoint {0:#x}->{0:#x} for test:m:f:a__b", base + 8),
        ]
    );
    linker.log();
    linker.enable("test:::");
    let log = linker.log();
    assert!(log.len() == 2 && log[1].starts_with("patch 0x10:"), "{log:?}");
}

#[test]
fn sets_have_whole_records() {
    for (set, name, size, record) in [
        ("providers", "sdt_providers_set", 12, 8),
        ("probes", "sdt_probes_set", 4, 8),
        ("argtypes", "sdt_argtypes_set", 4, 8),
        ("tracepoints", "sdt_tracepoint_set", 24, 32),
    ] {
        let (mut file, _) = builder();
        let section = file.set(set);
        file.module.file.append(section, &vec![0; if set == "tracepoints" { 24 } else { 4 }]);
        assert_eq!(fault(file), Fault::Unfinished { set: name, size, record });
    }
}

#[test]
fn records_are_data_of_the_file() {
    for (set, name, size) in [
        ("providers", "sdt_providers_set", 40),
        ("probes", "sdt_probes_set", 4),
        ("argtypes", "sdt_argtypes_set", 48),
    ] {
        for at in [Number(0), Number(0x1234), Number(u64::MAX), Text(0), Data(1 << 20)] {
            let (mut file, _) = builder();
            let section = file.set(set);
            file.words(section, &[at]);
            match fault(file) {
                Fault::NotData { set, size: found, .. } => assert_eq!((set, found), (name, size)),
                other => panic!("{at:?}: {other:?}"),
            }
        }
    }
    // The first field is inside, the rest is not.
    let (mut file, provider) = builder();
    let words = file.probe_words(Data(provider), ["", "", "cut"]);
    let data = file.module.file.data();
    let length = file.module.file.append(data, &[]);
    file.module.file.append(data, &vec![0; (2 * PAGE as u64 - 64 - length) as usize]);
    file.words(data, &words[..1]);
    let probes = file.set("probes");
    file.words(probes, &[Data(2 * PAGE as u64 - 64)]);
    assert!(matches!(fault(file), Fault::NotData { size: 112, .. }));
}

#[test]
fn read_only_records_are_no_data() {
    let (mut file, _) = builder();
    let name = file.text("test");
    let flags = object_core::elf::SHF_ALLOC;
    let kind = object_core::elf::SHT_PROGBITS;
    let constants = file.module.file.section(".rodata", kind, flags, &[0; 40], 8);
    let data = file.module.file.data();
    let symbol = file.module.file.section_symbol(data);
    let absolute = object_core::elf::R_X86_64_64;
    file.module.file.relocate(constants, 0, absolute, symbol, name as i64);
    let providers = file.set("providers");
    file.module.file.pointer(providers, constants, 0);
    assert!(matches!(fault(file), Fault::NotData { set: "sdt_providers_set", size: 40, .. }));
}

#[test]
fn names_are_text_of_the_file() {
    for what in ["probe's module", "probe's function", "probe's name"] {
        for pointer in [Number(0), Number(0x1234), Data(1 << 20)] {
            let (mut file, provider) = builder();
            let mut words = file.probe_words(Data(provider), ["", "", "p"]);
            let field = 8 + ["probe's module", "probe's function"]
                .iter()
                .take_while(|&&name| name != what)
                .count();
            words[field] = pointer;
            file.record("probes", &words);
            match fault(file) {
                Fault::Text { what: found, .. } => assert_eq!(found, what),
                other => panic!("{other:?}"),
            }
        }
    }
    let mut file = SdtBuilder::new("one");
    file.record("providers", &[Number(0); 5]);
    assert!(matches!(fault(file), Fault::Text { what: "provider's name", pointer: 0, .. }));
    for (field, what) in [(1, "argument's type"), (2, "argument's translated type")] {
        let (mut file, provider) = builder();
        let probe = file.probe(provider, ["", "", "p"]);
        let mut words = [Number(0); 6];
        (words[field], words[5]) = (Number(0x1234), Data(probe));
        file.record("argtypes", &words);
        match fault(file) {
            Fault::Text { what: found, pointer: 0x1234, .. } => assert_eq!(found, what),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_probe_has_a_provider() {
    for at in [Number(0), Number(0x1234), Data(0), Data(1 << 20), Text(0)] {
        let (mut file, _) = builder();
        let words = file.probe_words(at, ["m", "", "p"]);
        file.record("probes", &words);
        match fault(file) {
            Fault::NoProvider { probe, .. } => assert_eq!(probe, "?:m::p"),
            other => panic!("{at:?}: {other:?}"),
        }
    }
    // A record that is in no set.
    let (mut file, _) = builder();
    let name = file.text("forgotten");
    let data = file.module.file.data();
    let provider = file.words(data, &[Data(name), Number(0), Number(0), Number(0), Number(0)]);
    file.probe(provider, ["", "", "p"]);
    assert!(fault(file).to_string().starts_with("probe defined without a provider: ?:::p "));
}

#[test]
fn providers_have_names_that_dtrace_takes() {
    for (name, error) in [
        ("", RegistrationError::EmptyName),
        ("1st", RegistrationError::BadName),
        ("a b", RegistrationError::BadName),
        (&"x".repeat(64), RegistrationError::LongName),
    ] {
        let mut file = SdtBuilder::new("one");
        file.provider(name);
        match fault(file) {
            Fault::ProviderName { name: found, error: why }
            | Fault::LongProviderName { name: found, error: why } => {
                assert_eq!((found.to_str().unwrap(), why), (name, error));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn arguments_and_tracepoints_are_those_of_a_probe() {
    for at in [0, 1 << 20] {
        let (mut file, _) = builder();
        file.argtype(at, 0, [Some("int"), None]);
        assert!(matches!(fault(file), Fault::NoProbe { of: "argument type", .. }));
        let (mut file, _) = builder();
        file.tracepoint(at, 8, 40);
        assert!(matches!(fault(file), Fault::NoProbe { of: "tracepoint", .. }));
    }
    let (mut file, provider) = builder();
    let probe = file.probe(provider, ["", "", "p"]);
    let argtype = file.argtype(probe, 0, [Some("int"), None]);
    let set = file.set("argtypes");
    file.words(set, &[Data(argtype)]);
    assert!(matches!(fault(file), Fault::Twice { .. }));
}

#[test]
fn tracepoints_are_code_of_the_file() {
    for (patchpoint, target) in [
        (Number(0xffff_ffff_8020_0000), Text(40)),
        (Text(8), Number(0xffff_ffff_8020_0000)),
        (Data(0), Text(40)),
        (Text(8), Data(0)),
        // The site extends beyond the end of the code's page.
        (Text(PAGE as u64 - 4), Text(40)),
    ] {
        let (mut file, provider) = builder();
        let probe = file.probe(provider, ["", "", "p"]);
        let set = file.set("tracepoints");
        if let Text(4092) = patchpoint {
            let text = file.module.file.text();
            file.module.file.append(text, &[0x90; PAGE - 64]);
        }
        file.words(set, &[Data(probe), patchpoint, target, Number(0)]);
        assert!(matches!(fault(file), Fault::NotCode { .. }), "{patchpoint:?} {target:?}");
    }
}
