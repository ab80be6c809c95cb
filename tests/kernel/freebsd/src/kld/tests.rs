//! Tests of loading and unloading, with a mock kernel that logs the calls of the linker.

mod release;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use object_core::elf;

use super::*;
use crate::fixture::ModuleBuilder;
use crate::release::DEFAULT;
use crate::sdt::Fault;
use stand_in_base::fixture;
use stand_in_base::fixture::shared::{DATA, SharedBuilder, TEXT};
use stand_in_base::image::PAGE;
use stand_in_base::memory::Memory;

const REGISTER_INIT: u64 = 0xffff_ffff_8020_1000;
const VERSION: i32 = DEFAULT.version().cast_signed();
const KERNEL: [i32; 3] = [VERSION, VERSION, 1_599_999];

/// A mock kernel that logs the calls of the linker. The log identifies a handler by its offset in the module's image.
#[derive(Default)]
struct Machine {
    memory: fixture::machine::Machine,
    log: RefCell<Vec<String>>,
    enabled: Cell<bool>,
    /// Whether modules are shared objects, as on arm64.
    shared: Cell<bool>,
    /// The offset of the handler that fails on MOD_LOAD.
    refusing: Cell<Option<u64>>,
    /// The error numbers that all handlers return, by event; 0 if absent.
    answers: RefCell<BTreeMap<i32, i32>>,
}

impl Machine {
    fn log(&self, line: String) {
        self.log.borrow_mut().push(line);
    }
}

impl Kernel for Machine {
    fn machine(&self) -> loader::Machine {
        if self.shared.get() { loader::Machine::Aarch64 } else { loader::Machine::X86_64 }
    }

    fn memory(&self) -> &dyn Memory {
        &self.memory
    }

    fn symbol(&self, name: &str) -> Option<u64> {
        (name == "module_register_init").then_some(REGISTER_INIT)
    }

    fn is_function(&self, address: u64) -> bool {
        address == REGISTER_INIT
    }

    fn call(&self, linker: &Linker<Self>, function: u64, argument: u64) {
        if function == REGISTER_INIT {
            linker.module_register_init(argument);
        } else {
            self.log(format!("call {}", self.memory.offset(function)));
        }
    }

    fn call_event(&self, handler: u64, module: u64, event: i32, private: u64) -> i32 {
        assert_ne!(module, 0);
        assert_eq!(private, 0);
        self.log(format!("event {event} to {}", self.memory.offset(handler)));
        if event == event::LOAD && self.refusing.get() == Some(self.memory.offset(handler)) {
            return errno::EINVAL;
        }
        self.answers.borrow().get(&event).copied().unwrap_or(0)
    }

    fn kld_check(&self, _: &Records) -> Result<(), Fault> {
        Ok(())
    }

    fn kld_load(&self, file: &FileInfo, records: Records, _: Release) {
        assert!(records.is_empty());
        self.log(format!("{} is loaded", file.name));
    }

    fn kld_unload_try(&self, file: &FileInfo) -> bool {
        self.log(format!("may {} go", file.name));
        !self.enabled.get()
    }

    fn kld_unload(&self, file: &FileInfo) {
        self.log(format!("{} is gone", file.name));
    }
}

impl Linker<Machine> {
    fn log(&self) -> Vec<String> {
        self.kernel.log.take()
    }

    fn console(&self) -> Vec<String> {
        self.kernel.memory.console()
    }

    fn answer(&self, event: i32, error: i32) {
        self.kernel.answers.borrow_mut().insert(event, error);
    }

    /// Asserts that the linker has no files, no modules and no memory.
    fn assert_empty(&self) {
        assert_eq!(self.files(), []);
        assert!(self.modules.lock().is_empty());
        assert!(self.kernel.memory.is_empty());
    }
}

fn linker() -> Linker<Machine> {
    Linker::new(Machine::default())
}

fn module(name: &str) -> ModuleBuilder {
    ModuleBuilder::new().depend("kernel", KERNEL).module(name, 8)
}

#[test]
fn a_module_is_loaded_and_unloaded() {
    let linker = linker();
    let file = module("one").depend("dtrace", [1, 1, 1]).finish();
    let id = linker.load("one.ko", &file).unwrap();
    assert_eq!(linker.log(), ["event 0 to 8", "one.ko is loaded"]);
    let [info] = &linker.files()[..] else { panic!() };
    assert_eq!((info.id, &info.name[..]), (id, "one.ko"));
    assert_eq!(linker.segments("one.ko").unwrap().0, info.base);

    assert_eq!(linker.load("one.ko", &file), Err(Refusal::AlreadyLoaded));
    assert_eq!(Refusal::AlreadyLoaded.errno(), errno::EEXIST);

    linker.unload("one.ko").unwrap();
    assert_eq!(linker.log(), ["may one.ko go", "event 3 to 8", "event 1 to 8", "one.ko is gone"]);
    linker.assert_empty();
    assert_eq!(linker.console(), [""; 0]);
    let error = linker.unload("one.ko").unwrap_err();
    assert_eq!(error.errno(), errno::ENOENT);
    assert_eq!(linker.load("one.ko", &file).unwrap(), id + 1);
}

#[test]
fn sysinits_run_in_order_and_sysuninits_the_other_way_round() {
    let linker = linker();
    let file = module("one")
        .sysinit(false, 0x310_0000, 1, 1)
        .sysinit(false, 0x200_0000, 9, 2)
        .sysinit(false, 0x400_0000, 0, 3)
        .sysinit(false, 0x200_0000, 8, 4)
        .sysinit(false, 0, 0, 5)
        .sysinit(true, 0x200_0000, 0, 11)
        .sysinit(true, 0x310_0000, 7, 12)
        .sysinit(true, 0x310_0000, 8, 13)
        .finish();
    linker.load("one.ko", &file).unwrap();
    assert_eq!(
        linker.log(),
        ["call 4", "call 2", "event 0 to 8", "call 1", "call 3", "one.ko is loaded"]
    );
    linker.unload("one.ko").unwrap();
    assert_eq!(linker.log()[3..], ["call 13", "call 12", "call 11", "one.ko is gone"]);
    linker.assert_empty();
}

#[test]
fn a_module_that_refuses_to_load_is_undone() {
    let linker = linker();
    linker.answer(event::LOAD, errno::ENOMEM);
    let file = module("one").sysinit(true, 0x310_0000, 0, 11).finish();
    let refusal = linker.load("one.ko", &file).unwrap_err();
    assert_eq!(refusal, Refusal::ModulesRefused { error: errno::ENOMEM });
    assert_eq!(refusal.errno(), errno::ENOEXEC);
    assert_eq!(linker.log(), ["event 0 to 8", "event 1 to 8", "call 11", "one.ko is gone"]);
    let handler = 0xffff_ffff_c000_0008u64;
    assert_eq!(
        linker.console()[0],
        format!("module_register_init: MOD_LOAD (one, {handler:#x}, 0) error {}", errno::ENOMEM)
    );
    linker.assert_empty();

    linker.answer(event::LOAD, 0);
    linker.load("one.ko", &file).unwrap();
}

#[test]
fn modules_of_a_file_are_unloaded_the_other_way_round() {
    let linker = linker();
    let file = module("one").module("two", 16).finish();
    linker.load("both.ko", &file).unwrap();
    assert_eq!(linker.log(), ["event 0 to 8", "event 0 to 16", "both.ko is loaded"]);
    linker.unload("both.ko").unwrap();
    assert_eq!(
        linker.log()[1..],
        ["event 3 to 16", "event 3 to 8", "event 1 to 16", "event 1 to 8", "both.ko is gone"]
    );
    linker.assert_empty();
}

#[test]
fn a_file_goes_on_when_one_of_its_modules_loads() {
    let linker = linker();
    linker.kernel.refusing.set(Some(16));
    linker.load("both.ko", &module("one").module("two", 16).finish()).unwrap();
    assert_eq!(
        linker.log(),
        ["event 0 to 8", "event 0 to 16", "event 1 to 16", "both.ko is loaded"]
    );
    assert_eq!(linker.modules.lock().len(), 1);
    linker.unload("both.ko").unwrap();
    assert_eq!(linker.log()[1..], ["event 3 to 8", "event 1 to 8", "both.ko is gone"]);
    linker.assert_empty();
}

#[test]
fn dependencies_must_be_there_in_the_right_version() {
    let refused = [
        ("kernel", [1_404_000, 1_404_000, 1_499_999]),
        ("kernel", [1_600_000, 1_600_000, 1_699_999]),
        ("kernel", [VERSION + 1, VERSION + 1, 1_599_999]),
        ("dtrace", [2, 2, 2]),
        ("nosuch", [1, 1, 1]),
    ];
    for (name, range) in refused {
        let linker = linker();
        let file = ModuleBuilder::new().depend(name, range).module("one", 8).finish();
        let refusal = linker.load("one.ko", &file).unwrap_err();
        assert_eq!(refusal, Refusal::Dependency { interface: name.into() });
        assert_eq!(
            linker.console(),
            [format!("KLD one.ko: depends on {name} - not available or version mismatch")]
        );
        assert_eq!(linker.log(), [""; 0]);
        linker.assert_empty();
    }
}

#[test]
fn a_file_stays_while_others_depend_on_it() {
    let linker = linker();
    let base = module("base").version("base", 3).finish();
    linker.load("base.ko", &base).unwrap();
    let user = module("user").depend("base", [1, 2, 3]).finish();
    linker.load("user.ko", &user).unwrap();
    linker.log();

    assert_eq!(
        linker.load("again.ko", &module("again").version("base", 3).finish()).unwrap_err(),
        Refusal::InterfacePresent {
            interface: "base".into(),
            version: 3,
            container: "base.ko".into()
        }
    );
    // kldunload drops the user's reference; the file is unloaded with the last reference.
    linker.unload("base.ko").unwrap();
    assert_eq!(linker.log(), [""; 0]);
    assert_eq!(linker.unload("base.ko").unwrap_err().errno(), errno::EBUSY);
    assert_eq!(linker.files().len(), 2);
    linker.unload("user.ko").unwrap();
    assert_eq!(linker.log().iter().filter(|line| line.starts_with("event 1")).count(), 2);
    linker.assert_empty();
}

#[test]
fn a_module_has_its_name_for_itself() {
    let linker = linker();
    linker.load("one.ko", &module("same").finish()).unwrap();
    let refusal = linker.load("two.ko", &module("same").finish()).unwrap_err();
    assert!(matches!(refusal, Refusal::ModulePresent { .. }));
    assert_eq!(
        linker.console(),
        ["module_register: cannot register same from two.ko; already loaded from one.ko"]
    );
    assert_eq!(linker.files().len(), 1);
    linker.unload("one.ko").unwrap();
    linker.assert_empty();
}

#[test]
fn unloading_is_refused_while_probes_are_enabled() {
    let linker = linker();
    linker.load("one.ko", &module("one").finish()).unwrap();
    linker.log();
    linker.kernel.enabled.set(true);
    for _ in 0..2 {
        let refusal = linker.unload("one.ko").unwrap_err();
        assert_eq!(refusal.errno(), errno::EBUSY);
        assert_eq!(refusal.to_string(), "can't unload file: Device busy");
        assert_eq!(linker.log(), ["may one.ko go"]);
    }
    linker.kernel.enabled.set(false);
    linker.unload("one.ko").unwrap();
    linker.assert_empty();
}

#[test]
fn modules_may_refuse_to_go() {
    for (event, errors) in [
        (event::QUIESCE, &[errno::EBUSY][..]),
        (event::UNLOAD, &[errno::EBUSY, errno::EOPNOTSUPP][..]),
    ] {
        for &error in errors {
            let linker = linker();
            linker.load("one.ko", &module("one").finish()).unwrap();
            linker.answer(event, error);
            assert_eq!(linker.unload("one.ko"), Err(Refusal::Unload { error }));
            assert_eq!(linker.files().len(), 1);
            assert_eq!(linker.modules.lock().len(), 1);
            linker.answer(event, 0);
            linker.unload("one.ko").unwrap();
            linker.assert_empty();
        }
    }
    // A module that does not support MOD_QUIESCE can be unloaded.
    for error in [errno::EOPNOTSUPP, errno::EINVAL] {
        let linker = linker();
        linker.load("one.ko", &module("one").finish()).unwrap();
        linker.answer(event::QUIESCE, error);
        linker.unload("one.ko").unwrap();
        linker.assert_empty();
    }
}

#[test]
fn no_memory_leaves_nothing_behind() {
    let linker = linker();
    linker.kernel.memory.no_memory.store(true, Ordering::Relaxed);
    let refusal = linker.load("one.ko", &module("one").finish()).unwrap_err();
    assert_eq!(refusal, Refusal::OutOfMemory);
    linker.assert_empty();
}

#[test]
fn records_outside_the_module_are_refused() {
    for set in ["modmetadata_set", "sysinit_set", "sysuninit_set"] {
        let linker = linker();
        let mut builder = fixture::Builder::new();
        builder.set(&format!("set_{set}"), &0x1234u64.to_le_bytes());
        let refusal = linker.load("bad.ko", &builder.finish()).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            format!("set_{set} has a record at 0x1234 that cannot be used")
        );
        linker.assert_empty();
    }
    // A handler or function that is not code.
    for file in [
        module("one").module("two", 1 << 20).finish(),
        module("one").sysinit(false, 1, 0, 1 << 20).finish(),
    ] {
        let linker = linker();
        assert!(matches!(linker.load("bad.ko", &file), Err(Refusal::Record(_))));
        assert_eq!(linker.log(), [""; 0]);
        linker.assert_empty();
    }
}

#[test]
fn a_file_cut_off_anywhere_changes_nothing() {
    let linker = linker();
    let file = module("one").sysinit(false, 1, 0, 1).finish();
    for end in 0..file.len() {
        let refusal = linker.load("one.ko", &file[..end]).unwrap_err();
        assert_eq!(refusal.errno(), errno::ENOEXEC);
        assert_eq!(linker.console(), [format!("kldload: one.ko: {refusal}")]);
        linker.assert_empty();
    }
    assert_eq!(linker.log(), [""; 0]);
    linker.load("one.ko", &file).unwrap();
}

#[test]
fn modules_that_are_not_started_once_at_load_are_refused() {
    let linker = linker();
    let refused = |file: ModuleBuilder, told: &str| {
        let refusal = linker.load("one.ko", &file.finish()).unwrap_err();
        assert_eq!(refusal.errno(), errno::ENOEXEC);
        assert_eq!(refusal.to_string(), told);
        let end = if refusal.would_have_panicked() { " (FreeBSD would have panicked)" } else { "" };
        assert_eq!(linker.console(), [format!("kldload: one.ko: {told}{end}")]);
        assert_eq!(linker.log(), [""; 0]);
        linker.assert_empty();
    };
    // For each of these files, FreeBSD would panic or call the handler of a module that has been removed.
    let record = {
        let id = linker.load("one.ko", &module("one").finish()).unwrap();
        let record = linker.modules.lock()[0].data.record;
        let base = linker.files().iter().find(|file| file.id == id).unwrap().base;
        let data = linker.segments("one.ko").unwrap().1[1].offset as u64;
        linker.unload("one.ko").unwrap();
        linker.log();
        record - base - data
    };
    let address =
        |record: u64| format!("{:#x}", linker.kernel.memory.next_base() + PAGE as u64 + record);
    let told = format!("two SYSINITs start the module at {}", address(record));
    refused(module("one").start(false, record), &told);
    let told =
        format!("a SYSINIT starts a module at {} that the file does not declare", address(0));
    refused(module("one").start(false, 0), &told);
    let at = address(record);
    let told = format!("a SYSUNINIT starts the module at {at}, after all modules were unloaded");
    refused(module("one").start(true, record), &told);
    refused(module("one").module("one", 16), "module one is in the file twice");
}

/// Builds a module as a shared object, with `MODULE_DEPEND` on the kernel, `DECLARE_MODULE` whose handler is at offset 8 of the
/// code, and a SYSUNINIT.
fn shared_module(name: &str) -> SharedBuilder {
    const RELATIVE: elf::RelocationType = elf::R_AARCH64_RELATIVE;
    let mut file = SharedBuilder::new(183);
    let name = file.append(&[name.as_bytes(), b"\0"].concat());
    let kernel = file.append(b"kernel\0");
    let versions = file.append(KERNEL.map(i32::to_le_bytes).as_flattened());
    let module = file.pointer(RELATIVE, name);
    file.pointer(RELATIVE, TEXT + 8);
    file.append(&[0; 8]);
    let mut metadata = Vec::new();
    for (kind, record, name) in [(1i32, versions, kernel), (2, module, name)] {
        metadata.push(file.append(&[1i32.to_le_bytes(), kind.to_le_bytes()].concat()));
        file.pointer(RELATIVE, record);
        file.pointer(RELATIVE, name);
    }
    let init = file.append(&[0x310_0000u32.to_le_bytes(), [0; 4], [0; 4], [0; 4]].concat());
    let function = file.append(&[0; 8]);
    let register = file.undefined("module_register_init", false);
    file.relocate(function, elf::R_AARCH64_ABS64, register, 0);
    file.pointer(RELATIVE, module);
    let uninit = file.append(&[0x310_0000u32.to_le_bytes(), [0; 4], [0; 4], [0; 4]].concat());
    file.pointer(RELATIVE, TEXT + 12);
    file.append(&[0; 8]);
    for (set, records) in
        [("modmetadata_set", &metadata[..]), ("sysinit_set", &[init]), ("sysuninit_set", &[uninit])]
    {
        let places: Vec<u64> =
            records.iter().map(|&record| file.pointer(RELATIVE, record)).collect();
        file.define(&format!("__start_set_{set}"), places[0]);
        file.define(&format!("__stop_set_{set}"), places[0] + 8 * places.len() as u64);
    }
    file
}

#[test]
fn a_shared_object_is_loaded_and_unloaded() {
    let linker = linker();
    linker.kernel.shared.set(true);
    let file = shared_module("one").finish();
    linker.load("one.ko", &file).unwrap();
    assert_eq!(linker.log(), [format!("event 0 to {}", TEXT + 8), "one.ko is loaded".into()]);
    linker.unload("one.ko").unwrap();
    assert_eq!(
        linker.log()[1..],
        [
            format!("event 3 to {}", TEXT + 8),
            format!("event 1 to {}", TEXT + 8),
            format!("call {}", TEXT + 12),
            "one.ko is gone".into()
        ]
    );
    linker.assert_empty();

    // A kernel that loads shared objects refuses relocatable files, and the other way round.
    for (shared, file) in [(true, module("one").finish()), (false, file)] {
        linker.kernel.shared.set(shared);
        assert_eq!(linker.load("one.ko", &file).unwrap_err().errno(), errno::ENOEXEC);
        linker.assert_empty();
    }
}

#[test]
fn a_shared_object_that_wants_what_is_not_there_is_refused() {
    let linker = linker();
    linker.kernel.shared.set(true);
    let mut file = shared_module("one");
    let symbol = file.undefined("nosuch", false);
    file.relocate(DATA, elf::R_AARCH64_ABS64, symbol, 0);
    assert_eq!(linker.load("one.ko", &file.finish()).unwrap_err().errno(), errno::ENOEXEC);
    assert_eq!(linker.console(), ["link_elf: symbol nosuch undefined"]);
    linker.assert_empty();
}
