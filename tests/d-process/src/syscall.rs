//! The provider `syscall` for one system call: the process's own `write` to its line, with entry and return, as on systems that
//! trace system calls.

use core::ffi::{c_int, c_void};

use sdt_core::ops::{Attribute, Class, Privileges, ProviderAttr, Stability};
use sdt_core::runtime::{Probe, Provider, Slot, arg};
use sdt_framework::Dtrace;

use crate::Process;

const ATTRIBUTE: Attribute =
    Attribute::new(Stability::Evolving, Stability::Evolving, Class::Common);
const ATTRIBUTES: ProviderAttr = ProviderAttr {
    provider: ATTRIBUTE,
    module: ATTRIBUTE,
    function: ATTRIBUTE,
    name: ATTRIBUTE,
    args: ATTRIBUTE,
};

static SLOTS: [Slot; 2] = [const { Slot::new() }; 2];
static SYSCALL: Provider = Provider::new(&SLOTS);

/// The probes at entry and return of `write`.
#[derive(Debug)]
pub struct Syscalls {
    entry: Probe,
    ret: Probe,
}

impl Syscalls {
    /// Registers the provider and its probes.
    ///
    /// # Panics
    /// They are registered already.
    pub fn register(framework: &'static Dtrace<Process>) -> Self {
        // SAFETY: this program is never unloaded.
        let opened = unsafe {
            SYSCALL.open_with(framework, c"d-process", c"syscall", &ATTRIBUTES, Privileges::empty())
        };
        opened.expect("the provider is registered once");
        let entry = [arg::<c_int>(), arg::<*const c_void>(), arg::<usize>()];
        let entry = SYSCALL.add(c"write", c"entry", &entry).expect("there is room");
        let ret = SYSCALL.add(c"write", c"return", &[arg::<isize>(); 2]).expect("there is room");
        Self { entry, ret }
    }

    /// The call begins.
    pub fn entry(&self, args: [u64; 3]) {
        if self.entry.is_enabled() {
            self.entry.fire(&args).expect("they are as many as its types");
        }
    }

    /// The call has ended.
    pub fn ret(&self, value: u64) {
        if self.ret.is_enabled() {
            self.ret.fire(&[value; 2]).expect("they are as many as its types");
        }
    }
}
