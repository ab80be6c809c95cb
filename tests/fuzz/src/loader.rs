//! The stand-in kernel's module loader: files are refused or loaded, and leave no state.
//!
//! The kernel around it executes no code: the test checks the functions that the loader would call.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use stand_in_base::image::PAGE;
use stand_in_freebsd::kld::{FileInfo, Kernel, Linker, Refusal, event};
use stand_in_freebsd::loader::{File, Linked, Machine};
use stand_in_freebsd::sdt::{Fault, Records};
use stand_in_freebsd::{Release, errno};

use crate::edit::{FREEBSD, Input};
use crate::memory::{MODULES, Memory, check};
use stand_in_base::image::MAX_SIZE;

/// The address of `module_register_init`, which SYSINITs of modules call.
const REGISTER_INIT: u64 = 0xffff_ffff_8020_1000;

/// Bits of [`Input::choices`].
mod choice {
    /// The unedited module is loaded before.
    pub(super) const SECOND: u8 = 1;
    /// Handlers refuse to be loaded.
    pub(super) const REFUSE_LOAD: u8 = 2;
    /// Handlers refuse to quiesce, the first time.
    pub(super) const REFUSE_QUIESCE: u8 = 4;
    /// No memory is available.
    pub(super) const NO_MEMORY: u8 = 8;
    /// The kernel exports only the functions by which modules register.
    pub(super) const NO_SYMBOLS: u8 = 16;
    /// The file is linked only, against a kernel that exports everything.
    pub(super) const LINK: u8 = 32;
    /// Handlers refuse to be unloaded, the first time.
    pub(super) const REFUSE_UNLOAD: u8 = 64;
}

/// Runs the target.
///
/// # Panics
/// An image is not as expected, or memory is left behind.
pub fn run(input: &[u8]) {
    let Some(Input { machine, whole, choices, release, file }) = Input::new(FREEBSD, input) else {
        return;
    };
    if choices & choice::LINK != 0 {
        return link(machine, &file);
    }
    let linker = Linker::new(Machinery::new(machine, choices));
    let second = choices & choice::SECOND != 0;
    if second {
        // The kernel must not refuse the unedited module.
        linker.kernel().choose(0);
        linker.load("first.ko", whole).expect("the unedited module");
        linker.kernel().choose(choices);
    } else {
        let release =
            Release::of_major(release.cast_unsigned()).expect("one of those it can stand in for");
        linker.set_release(release).expect("nothing is loaded");
    }
    let before = linker.files();

    match linker.load("module.ko", &file) {
        Ok(id) => {
            let files = linker.files();
            let info = files.iter().find(|info| info.id == id).expect("a loaded file is listed");
            assert_eq!(info.name, "module.ko");
            assert_eq!(files.len(), before.len() + 1);
            unload(&linker, "module.ko");
        }
        Err(refusal) => {
            assert_ne!(refusal.errno(), 0);
            assert!(!refusal.to_string().is_empty());
        }
    }
    assert_eq!(linker.files(), before);
    if second {
        unload(&linker, "first.ko");
    }
    assert!(linker.kernel().started.borrow().is_empty());
    linker.kernel().memory.assert_empty();
}

/// Loads a file into a kernel of its own, of a major release, and unloads it again.
///
/// # Errors
/// Why it is refused.
pub(crate) fn load_alone(machine: Machine, major: u32, file: &[u8]) -> Result<(), Refusal> {
    let linker = Linker::new(Machinery::new(machine, 0));
    let release = Release::of_major(major).expect("one of those it can stand in for");
    linker.set_release(release).expect("nothing is loaded");
    linker.load("module.ko", file)?;
    unload(&linker, "module.ko");
    Ok(())
}

/// Unloads a loaded file. Tries again, because its handlers may refuse the first time.
fn unload(linker: &Linker<Machinery>, name: &str) {
    let before = linker.files();
    if let Err(refusal) = linker.unload(name) {
        assert_ne!(refusal.errno(), 0);
        assert_eq!(linker.files(), before);
        linker.kernel().choose(0);
        linker.unload(name).expect("no handler refuses twice");
    }
}

/// Links a file, up to the first error.
fn link(machine: Machine, file: &[u8]) {
    let Ok(parsed) = File::parse(file, machine) else { return };
    let size = parsed.size();
    assert!(size.is_multiple_of(PAGE) && size <= MAX_SIZE);
    if let Ok(image) = parsed.link(MODULES, &|_| Some(REGISTER_INIT)) {
        assert_eq!((image.base(), image.size()), (MODULES, size));
        check(&image);
        check_linked(&image);
    }
}

/// The kernel around the loader.
struct Machinery {
    machine: Machine,
    choices: Cell<u8>,
    memory: Memory,
    /// The modules whose handlers were called for the load.
    started: RefCell<BTreeSet<u64>>,
}

impl Machinery {
    fn new(machine: Machine, choices: u8) -> Self {
        let made = Self {
            machine,
            choices: Cell::new(0),
            memory: Memory::new(false),
            started: RefCell::default(),
        };
        made.choose(choices);
        made
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
    fn machine(&self) -> Machine {
        self.machine
    }

    fn memory(&self) -> &dyn stand_in_base::memory::Memory {
        &self.memory
    }

    fn symbol(&self, name: &str) -> Option<u64> {
        (name == "module_register_init" || !self.chosen(choice::NO_SYMBOLS))
            .then_some(REGISTER_INIT)
    }

    fn is_function(&self, address: u64) -> bool {
        address == REGISTER_INIT
    }

    fn call(&self, linker: &Linker<Self>, function: u64, argument: u64) {
        if function == REGISTER_INIT {
            linker.module_register_init(argument);
        } else {
            self.memory.assert_code(function);
        }
    }

    fn call_event(&self, handler: u64, module: u64, event: i32, _private: u64) -> i32 {
        self.memory.assert_code(handler);
        assert_ne!(module, 0);
        let answer = match event {
            event::LOAD if self.chosen(choice::REFUSE_LOAD) => errno::ENOMEM,
            event::QUIESCE if self.chosen(choice::REFUSE_QUIESCE) => errno::EBUSY,
            event::UNLOAD if self.chosen(choice::REFUSE_UNLOAD) => errno::EBUSY,
            _ => 0,
        };
        let mut started = self.started.borrow_mut();
        match event {
            event::LOAD if answer == 0 => assert!(started.insert(module), "started twice"),
            event::UNLOAD if answer == 0 => drop(started.remove(&module)),
            _ => {}
        }
        answer
    }

    fn kld_check(&self, _: &Records) -> Result<(), Fault> {
        Ok(())
    }

    fn kld_load(&self, file: &FileInfo, _: Records, _: Release) {
        assert!(file.name == "first.ko" || file.name == "module.ko");
    }

    fn kld_unload_try(&self, file: &FileInfo) -> bool {
        assert!(file.name == "first.ko" || file.name == "module.ko");
        true
    }

    fn kld_unload(&self, file: &FileInfo) {
        assert!(file.name == "first.ko" || file.name == "module.ko");
    }
}

/// Checks the parts of an image that the kernel uses after linking.
fn check_linked(image: &Linked) {
    for function in image.constructors().chain(image.destructors()) {
        assert!(image.is_code(function));
    }
    for set in ["modmetadata_set", "sysinit_set", "sysuninit_set", "none"] {
        assert!(image.set(set).count() <= image.size() / 8);
    }
    assert!(image.sites().len() <= image.size() / 32);
}
