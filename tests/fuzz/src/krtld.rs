//! The stand-in kernel's loader for illumos modules: files are refused or loaded, and leave no state. In addition
//! `cargo xtask check`: a file without findings is loaded, with the same number of sites.
//!
//! The kernel around it executes no code: the test checks the functions that krtld would call.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::sync::Mutex;

use stand_in_illumos::PREFIX;
use stand_in_illumos::errno::{EALREADY, EBUSY, EINVAL};
use stand_in_illumos::file::File;
use stand_in_illumos::marking::Marking;
use stand_in_illumos::modctl::{Kernel, ModCtl, ModInfo, Modules};
use stand_in_illumos::refusal::Refusal;

use crate::edit::{ILLUMOS, Input};
use crate::memory::{MODULES, Memory};

/// The address of every symbol of the kernel.
const KERNEL: u64 = 0xffff_ffff_8020_1000;

/// Bits of [`Input::choices`].
mod choice {
    /// The unedited module is loaded before.
    pub(super) const SECOND: u8 = 1;
    /// `_init` fails.
    pub(super) const REFUSE_INIT: u8 = 2;
    /// `_fini` fails, the first time.
    pub(super) const REFUSE_FINI: u8 = 4;
    /// No memory is available.
    pub(super) const NO_MEMORY: u8 = 8;
    /// The kernel exports nothing.
    pub(super) const NO_SYMBOLS: u8 = 16;
    /// The module is a driver.
    pub(super) const DRIVER: u8 = 32;
    /// `_fini` returns EALREADY, which is an error like others, the first time.
    pub(super) const ALREADY: u8 = 64;
}

thread_local! {
    // One for many inputs: the kernel never frees a module's record.
    static KRTLD: RefCell<Modules<Machinery>> = const { RefCell::new(Modules::new(Machinery::new())) };
}

/// All records of modules, so that leak checkers find them.
static KNOWN: Mutex<Vec<&ModCtl>> = Mutex::new(Vec::new());

/// Runs the target.
///
/// # Panics
/// An image is not as expected, memory is left behind, or the check passes a file that krtld refuses.
pub fn run(input: &[u8]) {
    let Some(Input { whole, choices, file, .. }) = Input::new(ILLUMOS, input) else { return };
    beside_the_check(&file);
    KRTLD.with_borrow_mut(|modules| {
        if !load(modules, whole, choices, &file) {
            *modules = Modules::new(Machinery::new());
        }
    });
}

/// Loads a module into a kernel of its own and, if it lets that happen, unloads it again.
///
/// # Errors
/// Why it is refused.
pub(crate) fn load_alone(file: &[u8]) -> Result<(), Refusal> {
    KRTLD.with_borrow_mut(|modules| {
        modules.kernel().choose(0);
        let loaded = modules.load("module", file);
        if loaded.is_ok() && !unload(modules, "module") {
            *modules = Modules::new(Machinery::new());
        }
        loaded
    })
}

/// Resolves every symbol except those of probes, which must not be looked up.
fn symbol(name: &str) -> Option<u64> {
    (!name.starts_with(PREFIX)).then_some(KERNEL)
}

/// Links a file for a kernel that exports everything, and runs the check on it.
fn beside_the_check(file: &[u8]) {
    let linked =
        File::parse(file).and_then(|parsed| parsed.link(MODULES, Marking::default(), &symbol));
    match cargo_sdt::internal::check::illumos_module(
        file,
        cargo_sdt::internal::check::Against::default(),
    ) {
        Ok(summary) => {
            assert!(!summary.to_string().is_empty());
            let linked = match linked {
                // The file is sound, but too large for the memory of this test.
                Err(Refusal::OutOfMemory) => return,
                other => other.expect("what the check passes is taken"),
            };
            assert_eq!(linked.sites.len(), summary.sites);
            for site in &linked.sites {
                assert_eq!(linked.image.read::<5>(site.address - 1), Some(&[0x90; 5]));
                assert!(linked.image.is_code(site.address));
            }
        }
        Err(findings) => {
            assert!(!findings.is_empty());
            assert!(findings.iter().all(|finding| !finding.to_string().is_empty()));
        }
    }
}

/// Loads and unloads a file. Returns whether no module is loaded at the end.
fn load(modules: &Modules<Machinery>, whole: &[u8], choices: u8, file: &[u8]) -> bool {
    let kernel = modules.kernel();
    let second = choices & choice::SECOND != 0;
    if second {
        // The kernel must not refuse the unedited module.
        kernel.choose(0);
        modules.load("first", whole).expect("the unedited module");
    }
    kernel.choose(choices);
    let before = modules.modules();

    let path = if choices & choice::DRIVER != 0 { "drv/module" } else { "module" };
    match modules.load(path, file) {
        Ok(()) => {
            let info = modules.modules().into_iter().find(|info| info.name == "module");
            let info = info.expect("a loaded module is listed");
            kernel.memory.assert_mapped(info.base, info.size);
            assert!(modules.segments("module").is_some());
            if !unload(modules, "module") {
                return false;
            }
        }
        Err(refusal) => {
            assert_ne!(refusal.errno(), 0);
            assert!(!refusal.to_string().is_empty());
        }
    }
    assert_eq!(modules.modules(), before);
    if second {
        assert!(unload(modules, "first"));
    }
    kernel.memory.assert_empty();
    true
}

/// Unloads a loaded module. Tries again, because it may refuse the first time. Returns `false` if it has no `_fini` that can be
/// called, so that it stays loaded.
fn unload(modules: &Modules<Machinery>, name: &str) -> bool {
    let kernel = modules.kernel();
    let before = modules.modules();
    kernel.removing.set(true);
    let mut result = modules.unload(name);
    if let Err(refusal) = &result {
        assert_ne!(refusal.errno(), 0);
        assert_eq!(modules.modules(), before);
        kernel.choose(0);
        result = modules.unload(name);
    }
    kernel.removing.set(false);
    !matches!(result, Err(Refusal::Busy | Refusal::NoFini))
}

/// The kernel around krtld.
#[derive(Debug)]
struct Machinery {
    choices: Cell<u8>,
    /// A module is being removed.
    removing: Cell<bool>,
    memory: Memory,
}

impl Machinery {
    const fn new() -> Self {
        Self { choices: Cell::new(0), removing: Cell::new(false), memory: Memory::new(true) }
    }

    fn choose(&self, choices: u8) {
        self.choices.set(choices);
        self.memory.full.set(self.chosen(choice::NO_MEMORY));
    }

    fn chosen(&self, choice: u8) -> bool {
        self.choices.get() & choice != 0
    }
}

impl Kernel for Machinery {
    fn memory(&self) -> &dyn stand_in_base::memory::Memory {
        &self.memory
    }

    fn is_built_in(&self, module: &str) -> bool {
        module == "drv/dtrace"
    }

    fn symbol(&self, _module: &str, name: &str) -> Option<u64> {
        if self.chosen(choice::NO_SYMBOLS) { None } else { symbol(name) }
    }

    fn call(&self, function: u64, argument: *mut c_void) -> i32 {
        self.memory.assert_code(function);
        // SAFETY: the argument is null, or that of `_info`, which is valid during this call.
        if let Some(info) = unsafe { argument.cast::<ModInfo>().as_ref() } {
            assert!(info.wants_linkage());
            return 1;
        }
        match self.removing.get() {
            false if self.chosen(choice::REFUSE_INIT) => EINVAL,
            true if self.chosen(choice::ALREADY) => EALREADY,
            true if self.chosen(choice::REFUSE_FINI) => EBUSY,
            _ => 0,
        }
    }

    fn module_loaded(&self, module: &'static ModCtl) {
        assert!(module.is_loaded());
        let mut known = KNOWN.lock().expect("no thread panics while it holds the lock");
        if !known.iter().any(|&of| std::ptr::eq(of, module)) {
            known.push(module);
        }
    }

    fn module_unloaded(&self, module: &'static ModCtl) {
        assert!(!module.is_loaded());
    }
}
