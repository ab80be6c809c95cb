//! Tests of loading and unloading, with a mock kernel that logs its calls of module functions. The expected messages about broken
//! modules are those that illumos's own code prints for the same modules.

mod refusals;
mod sdt;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use object_core::elf;
use object_core::write::{SectionId, SymbolId};

use super::errno::*;
use super::modctl::*;
use super::refusal::Refusal;
use super::*;
use core::ffi::c_void;
use stand_in_base::fixture;
use stand_in_base::fixture::Builder;
use stand_in_base::image::PAGE;
use stand_in_base::memory::Memory;

const BASE: u64 = 0xffff_ffff_c000_0000;
const MOD_INSTALL: u64 = 0xffff_ffff_8010_0000;

/// Offsets of `_init`, `_info` and `_fini` in the text.
const INIT: u64 = 0;
const INFO: u64 = 8;
const FINI: u64 = 16;

/// A mock kernel that logs the calls of module functions. It identifies a function by its offset in the module.
#[derive(Default)]
struct Machine {
    memory: fixture::machine::Machine,
    log: RefCell<Vec<String>>,
    /// Whether calls of other functions are allowed, too; then every call returns 0.
    lenient: Cell<bool>,
    /// The results of functions, by offset; 0 if absent.
    answers: RefCell<BTreeMap<u64, i32>>,
}

impl Kernel for Machine {
    fn memory(&self) -> &dyn Memory {
        &self.memory
    }

    fn is_built_in(&self, module: &str) -> bool {
        module == "drv/dtrace"
    }

    fn symbol(&self, module: &str, name: &str) -> Option<u64> {
        match (module, name) {
            (UNIX, "mod_install") => Some(MOD_INSTALL),
            (UNIX, "cmn_err") => Some(MOD_INSTALL + 16),
            ("dtrace", "dtrace_register") => Some(MOD_INSTALL + 32),
            _ => None,
        }
    }

    fn call(&self, function: u64, argument: *mut c_void) -> i32 {
        let offset = self.memory.offset(function);
        if self.lenient.get() {
            return 0;
        }
        let name = match offset {
            INIT => "_init",
            INFO => "_info",
            FINI => "_fini",
            other => panic!("a call of {other:#x}"),
        };
        assert_eq!(name == "_info", !argument.is_null());
        self.log.borrow_mut().push(name.into());
        self.answers.borrow().get(&offset).copied().unwrap_or(0)
    }

    fn module_loaded(&self, module: &'static ModCtl) {
        let name = module.name().to_str().unwrap();
        self.log.borrow_mut().push(format!("{name} loaded"));
    }

    fn module_unloaded(&self, module: &'static ModCtl) {
        let name = module.name().to_str().unwrap();
        self.log.borrow_mut().push(format!("{name} unloaded"));
    }
}

impl Machine {
    fn log(&self) -> Vec<String> {
        core::mem::take(&mut self.log.borrow_mut())
    }

    fn console(&self) -> Vec<String> {
        self.memory.console()
    }
}

/// Builds a module. Its text has room for three functions of 8 bytes, followed by `work`, a function of 40 bytes.
pub(crate) struct ModuleBuilder {
    pub(crate) file: Builder,
    text: SectionId,
}

impl ModuleBuilder {
    pub(crate) fn new() -> Self {
        let mut file = Builder::new();
        let text = file.text();
        file.function("work", text, 24, 40);
        Self { file, text }
    }

    /// Creates a module with `_init`, `_info` and `_fini`.
    pub(crate) fn whole() -> Self {
        let mut module = Self::new();
        for (name, at) in [("_init", INIT), ("_info", INFO), ("_fini", FINI)] {
            module.file.define(name, module.text, at);
        }
        module
    }

    /// Adds a call of `symbol` at offset `at` of the text.
    pub(crate) fn call(&mut self, at: u64, symbol: SymbolId) {
        self.file.patch(self.text, at, &[0xe8, 0, 0, 0, 0]);
        self.file.relocate(self.text, at + 1, elf::R_X86_64_PLT32, symbol, -4);
    }

    /// Adds a probe that fires at offset `at` of the text.
    pub(crate) fn probe(&mut self, name: &str, at: u64) {
        let symbol = self.file.undefined(&format!("{PREFIX}{name}"), false);
        self.call(at, symbol);
    }

    /// Defines the string `_depends_on`.
    pub(crate) fn depends(&mut self, names: &str) {
        let data = self.file.data();
        let at = self.file.append(data, &[names.as_bytes(), &[0]].concat());
        self.file.object_symbol("_depends_on", data, at, names.len() as u64 + 1);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.file.finish()
    }
}

fn modules() -> Modules<Machine> {
    Modules::new(Machine::default())
}

#[test]
fn a_module_comes_and_goes() {
    let modules = modules();
    let module = || {
        let mut module = ModuleBuilder::whole();
        module.probe("foo__bar", 24);
        module.finish()
    };
    modules.load("tmod", &module()).unwrap();
    assert_eq!(modules.kernel().log(), ["_info", "tmod loaded", "_init"]);
    modules.load("tmod", &module()).unwrap();
    assert_eq!(modules.kernel().log(), [""; 0], "it is there already");
    let infos = modules.modules();
    assert_eq!(infos.len(), 1);
    assert_eq!((infos[0].id, &*infos[0].name, infos[0].base), (1, "tmod", BASE));
    assert_eq!(modules.class_of(BASE + 3).as_deref(), Some("misc"));
    modules.unload("misc/tmod").unwrap();
    assert_eq!(modules.kernel().log(), ["_fini", "tmod unloaded"]);
    assert!(modules.kernel().memory.is_empty());
    assert_eq!(modules.unload("tmod"), Ok(()), "it has gone already");
    assert_eq!(modules.unload("other"), Err(Refusal::NoSuchModule));
    modules.load("drv/tmod", &module()).unwrap();
    assert_eq!(modules.kernel().console(), [""; 0]);
    assert_eq!(modules.modules()[0].id, 1, "its modctl is used again");
}

#[test]
fn text_comes_first_and_fields_are_relocated() {
    let modules = modules();
    let mut module = ModuleBuilder::whole();
    let install = module.file.undefined("mod_install", false);
    module.call(24, install);
    let (text, data) = (module.file.text(), module.file.data());
    let at = module.file.pointer(data, text, 24);
    let common = module.file.common("shared");
    module.file.relocate(data, 0, elf::R_X86_64_64, common, 0);
    modules.load("tmod", &module.finish()).unwrap();
    let memory = &modules.kernel().memory;
    let distance = MOD_INSTALL.wrapping_sub(BASE + 29) as u32;
    assert_eq!(memory.read::<5>(BASE + 24)[1..], distance.to_le_bytes());
    let data = BASE + PAGE as u64;
    assert_eq!(memory.read(data + at), (BASE + 24).to_le_bytes());
    let shared = u64::from_le_bytes(memory.read(data));
    assert_eq!(shared, data + PAGE as u64, "it is behind the data");
}

#[test]
fn a_module_that_refuses_is_unloaded() {
    let modules = modules();
    modules.kernel().answers.borrow_mut().insert(INIT, 1);
    let refusal = modules.load("init_wrong", &ModuleBuilder::whole().finish()).unwrap_err();
    assert_eq!((refusal.clone(), refusal.errno()), (Refusal::Init(1), 1));
    assert_eq!(
        modules.kernel().console(),
        [
            "loadmodule:misc/init_wrong(init_wrong): _init() error 1",
            "error loading 'misc/init_wrong', error 1"
        ]
    );
    let log = modules.kernel().log();
    assert_eq!(log, ["_info", "init_wrong loaded", "_init", "init_wrong unloaded"]);
    assert!(modules.modules().is_empty());
}

#[test]
fn functions_in_data_are_not_called() {
    for name in ["_init", "_info", "_fini"] {
        let modules = modules();
        let mut module = ModuleBuilder::new();
        let (text, data) = (module.file.text(), module.file.data());
        module.file.append(data, &[0; 64]);
        for (other, at) in [("_init", INIT), ("_info", INFO), ("_fini", FINI)] {
            module.file.define(other, if other == name { data } else { text }, at);
        }
        let refusal = modules.load("odd", &module.finish()).unwrap_err();
        assert_eq!(refusal.errno(), EINVAL);
        assert!(refusal.to_string().contains("a function in data"), "{refusal}");
        assert_eq!(modules.kernel().log(), [""; 0]);
        assert!(modules.kernel().memory.is_empty());
    }
}

#[test]
fn functions_that_are_missing() {
    let modules = modules();
    let without = |name: &str| {
        let mut module = ModuleBuilder::new();
        for (other, at) in [("_init", INIT), ("_info", INFO), ("_fini", FINI)] {
            if other != name {
                let text = module.file.text();
                module.file.define(other, text, at);
            }
        }
        module.finish()
    };
    assert_eq!(modules.load("no_init", &without("_init")).unwrap_err().errno(), EFAULT);
    let console = modules.kernel().console();
    assert_eq!(console[0], "WARNING: _init() not defined properly in misc/no_init");
    modules.load("no_info", &without("_info")).unwrap();
    let console = modules.kernel().console();
    assert_eq!(console, ["WARNING: _info() not defined properly in misc/no_info"]);
    modules.unload("no_info").unwrap();
    modules.load("no_fini", &without("_fini")).unwrap();
    assert_eq!(modules.unload("no_fini").unwrap_err().errno(), EBUSY);
    assert_eq!(modules.kernel().console(), [""; 0]);
    assert_eq!(modules.modules().len(), 1, "for ever");
}

#[test]
fn a_module_that_is_used_stays() {
    let modules = modules();
    modules.load("tmod", &ModuleBuilder::whole().finish()).unwrap();
    for (answer, error) in [(EBUSY, EBUSY), (EALREADY, EINVAL)] {
        modules.kernel().answers.borrow_mut().insert(FINI, answer);
        assert_eq!(modules.unload("tmod").unwrap_err(), Refusal::Fini(error));
    }
    modules.kernel().answers.borrow_mut().clear();
    let mut dependent = ModuleBuilder::whole();
    dependent.depends("misc/tmod drv/dtrace");
    let register = dependent.file.undefined("dtrace_register", false);
    dependent.call(24, register);
    modules.load("dependent", &dependent.finish()).unwrap();
    assert_eq!(modules.unload("tmod").unwrap_err(), Refusal::Busy);
    modules.unload("dependent").unwrap();
    modules.unload("tmod").unwrap();
}

#[test]
fn dependencies_give_symbols() {
    let modules = modules();
    let needs = |depends: &str| {
        let mut module = ModuleBuilder::whole();
        if !depends.is_empty() {
            module.depends(depends);
        }
        let helper = module.file.undefined("helper", false);
        module.call(24, helper);
        module.finish()
    };
    let mut library = ModuleBuilder::whole();
    let text = library.file.text();
    library.file.define("helper", text, 24);
    modules.load("lib", &library.finish()).unwrap();
    modules.load("user", &needs("misc/lib")).unwrap();
    assert!(modules.load("stranger", &needs("")).is_err(), "it is not the kernel's");
    let console = modules.kernel().console();
    assert_eq!(
        console[..2],
        [
            "/kernel/misc/amd64/stranger: undefined symbol 'helper'",
            "WARNING: mod_load: cannot load module 'stranger'"
        ]
    );
}

#[test]
fn dependencies_that_are_not_there() {
    let modules = modules();
    let mut module = ModuleBuilder::whole();
    module.depends("misc/nosuch");
    modules.load("unknown_dep", &module.finish()).expect("nothing is missing");
    assert_eq!(modules.kernel().console(), [""; 0]);
    let missing = |depends: &str| {
        let mut module = ModuleBuilder::whole();
        module.depends(depends);
        let symbol = module.file.undefined("missing_in_dep", false);
        module.call(24, symbol);
        module.finish()
    };
    modules.load("unknown_dep2", &missing("misc/nosuch")).unwrap_err();
    assert_eq!(
        modules.kernel().console(),
        [
            "/kernel/misc/amd64/unknown_dep2: undefined symbol 'missing_in_dep'",
            "WARNING: mod_load: cannot load module 'unknown_dep2'",
            "WARNING: unknown_dep2: unable to resolve dependency, module 'misc/nosuch' not found",
            "error loading 'misc/unknown_dep2', error 22",
        ]
    );
    let long = format!("misc/{}", "x".repeat(40));
    modules.load("long", &missing(&long)).unwrap_err();
    let console = modules.kernel().console();
    assert_eq!(console[0], format!("long: dependency '{long}' too long (max 32 chars)"));
    let cut = "misc/xxxxxxxxxxxxxxxxxxxxxxxxxx";
    let expected = format!("WARNING: long: unable to resolve dependency, module '{cut}' not found");
    assert_eq!(console[3], expected);
}

#[test]
fn symbols_that_the_kernel_has_too() {
    let modules = modules();
    let mut module = ModuleBuilder::whole();
    let text = module.file.text();
    module.file.define("cmn_err", text, 24);
    module.file.define("memcpy", text, 32);
    modules.load("multiply_defined", &module.finish()).unwrap();
    let line = "/kernel/misc/amd64/multiply_defined symbol cmn_err multiply defined";
    assert_eq!(modules.kernel().console(), [line]);
}
