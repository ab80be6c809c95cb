//! Refused unloads, and the probes that are left afterwards.

use super::*;
use crate::errno;
use crate::release;

#[test]
fn an_enabled_probe_keeps_its_file() {
    for version in [1_404_000, 1_500_068] {
        let linker = kernel_of(Memory::default(), release(version));
        linker.load("one.ko", &one(release(version), "one", "proc").0).unwrap();
        let consumer = linker.enable("proc:::");
        linker.log();
        for _ in 0..2 {
            let refusal = linker.unload("one.ko").unwrap_err();
            assert_eq!(refusal, Refusal::Unload { error: errno::EBUSY });
            assert_eq!(
                linker.console(),
                ["kldunload: attempt to unload module that has DTrace probes enabled"]
            );
            // Nothing has happened to it.
            assert_eq!(linker.log(), [""; 0]);
            assert_eq!(linker.probes(), ["proc:one:none:exec-success"]);
        }
        linker.close(consumer);
        linker.unload("one.ko").unwrap();
    }
}

#[test]
fn the_only_file_of_a_provider_stays_while_anybody_has_dtrace_open() {
    for version in [1_404_000, 1_500_068] {
        let linker = kernel_of(Memory::default(), release(version));
        let (file, probe) = one(release(version), "one", "proc");
        linker.load("one.ko", &file).unwrap();
        let consumer = linker.kernel().framework.open().unwrap();
        linker.log();
        let refusal = linker.unload("one.ko").unwrap_err();
        assert_eq!(refusal.to_string(), "can't unload file: Device busy");
        // The kernel calls no function of the module and prints nothing on the console, but the probes are removed.
        assert_eq!((linker.log(), linker.console()), (vec![], vec![]));
        assert_eq!(linker.probes(), [""; 0]);
        assert_eq!(linker.files().len(), 1);
        linker.kernel().framework.enable(consumer, &spec("proc:::")).unwrap();
        assert_eq!(linker.word("one.ko", probe + 88), 0);
        linker.close(consumer);
        // The probes do not come back until the file is loaded again.
        assert_eq!(linker.probes(), [""; 0]);
        linker.unload("one.ko").unwrap();
        linker.load("one.ko", &file).unwrap();
        assert_eq!(linker.probes(), ["proc:one:none:exec-success"]);
    }
}

#[test]
fn a_provider_of_two_files_goes_with_the_last() {
    let linker = kernel();
    let other = |name| one(release::DEFAULT, name, "proc").0;
    linker.load("one.ko", &other("one")).unwrap();
    linker.load("two.ko", &other("two")).unwrap();
    assert_eq!(linker.probes(), ["proc:one:none:exec-success", "proc:two:none:exec-success"]);
    // An open consumer does not prevent the unload, because the provider stays registered for the other file.
    let consumer = linker.enable("proc:two::");
    linker.unload("one.ko").unwrap();
    assert_eq!(linker.probes(), ["proc:two:none:exec-success"]);
    linker.close(consumer);
    let consumer = linker.kernel().framework.open().unwrap();
    linker.unload("two.ko").unwrap_err();
    linker.close(consumer);
    linker.unload("two.ko").unwrap();
}

#[test]
fn a_module_that_refuses_to_go_has_lost_its_probes() {
    let linker = kernel();
    let (file, _) = one(release::DEFAULT, "one", "proc");
    linker.load("one.ko", &file).unwrap();
    *linker.kernel().memory.unload_answer.lock().unwrap() = errno::EBUSY;
    linker.unload("one.ko").unwrap_err();
    assert_eq!(linker.probes(), [""; 0]);
    // Its provider is unregistered, and another file may register it again.
    linker.load("two.ko", &one(release::DEFAULT, "two", "proc").0).unwrap();
    assert_eq!(linker.probes(), ["proc:two:none:exec-success"]);
    *linker.kernel().memory.unload_answer.lock().unwrap() = 0;
    linker.unload("two.ko").unwrap();
    linker.unload("one.ko").unwrap();
    linker.load("one.ko", &file).unwrap();
    assert_eq!(linker.probes(), ["proc:one:none:exec-success"]);
}

#[test]
fn the_kernels_provider_stays() {
    let linker = kernel();
    let mut file = SdtBuilder::new("one");
    let words = file.probe_words(Word::Symbol("sdt_provider_sdt"), ["", "", "mine"]);
    file.record("probes", &words);
    linker.load("one.ko", &file.finish()).unwrap();
    assert_eq!(linker.probes(), ["sdt:one:none:mine"]);
    let consumer = linker.kernel().framework.open().unwrap();
    linker.unload("one.ko").unwrap();
    linker.close(consumer);
    assert_eq!(linker.probes(), [""; 0]);
}

#[test]
fn a_probe_of_another_module_name_outlives_its_file() {
    let linker = kernel();
    let mut file = SdtBuilder::new("one");
    let words = file.probe_words(Word::Symbol("sdt_provider_sdt"), ["elsewhere", "", "mine"]);
    let probe = file.record("probes", &words);
    linker.load("one.ko", &file.finish()).unwrap();
    let record = linker.base("one.ko") + DATA + probe;
    linker.unload("one.ko").unwrap();
    assert_eq!(linker.probes(), ["sdt:elsewhere:none:mine"]);
    let consumer = linker.enable("sdt:::");
    assert_eq!(
        linker.console(),
        [format!(
            "sdt: the record of probe 1 at {record:#x} is gone with its file: FreeBSD would write there"
        )]
    );
    linker.close(consumer);
}
