//! The provider `syscall`: what the process itself writes to its line, as systems that trace system calls have it. One
//! call, both ends of it.

use std::sync::atomic::{AtomicU32, Ordering};

use sdt_core::ops::{
    Attribute, Class, FrameworkError, Name, Privileges, ProbeDesc, ProbeId, ProviderAttr, Stability,
};
use sdt_framework::{ArgumentType, Dtrace, Provider, RuntimeProvider};

use crate::Userland;

const ATTRIBUTE: Attribute =
    Attribute::new(Stability::Evolving, Stability::Evolving, Class::Common);
const ATTRIBUTES: ProviderAttr = ProviderAttr {
    provider: ATTRIBUTE,
    module: ATTRIBUTE,
    function: ATTRIBUTE,
    name: ATTRIBUTE,
    args: ATTRIBUTE,
};

/// The tags of the two probes.
pub const ENTRY: usize = 0;
pub const RETURN: usize = 1;

/// Numbers of `write`'s probes, 0 while they are not enabled.
#[derive(Debug, Default)]
pub struct Syscalls([AtomicU32; 2]);

impl Provider<Userland> for Syscalls {
    fn provide(&self, registered: &RuntimeProvider<Userland, Self>, _: Option<&ProbeDesc>) {
        for (tag, name) in [c"entry", c"return"].into_iter().enumerate() {
            registered.create(c"userland", c"write", name, tag).expect("there is room");
        }
    }

    fn enable(&self, probe: ProbeId, tag: usize) {
        self.0[tag].store(probe.get(), Ordering::Relaxed);
    }

    fn disable(&self, _: ProbeId, tag: usize) {
        self.0[tag].store(0, Ordering::Relaxed);
    }

    fn argument(&self, _: ProbeId, tag: usize, index: usize) -> Option<ArgumentType> {
        let types: &[&str] =
            if tag == ENTRY { &["int", "void *", "size_t"] } else { &["ssize_t"; 2] };
        let native = Name::new(types.get(index)?.as_bytes())?;
        Some(ArgumentType { native, translated: Name::EMPTY })
    }
}

impl Syscalls {
    /// Registers it.
    pub fn register(
        framework: &'static Dtrace<Userland>,
    ) -> Result<&'static RuntimeProvider<Userland, Self>, FrameworkError> {
        let provider = Box::leak(Box::new(RuntimeProvider::new(framework, Self::default())));
        provider.register(c"syscall", &ATTRIBUTES, Privileges::empty())?;
        Ok(provider)
    }

    /// An end of the call fires, if that is enabled.
    pub fn fire<const COUNT: usize>(
        &self,
        framework: &Dtrace<Userland>,
        tag: usize,
        args: &[u64; COUNT],
    ) {
        if let Some(probe) = ProbeId::new(self.0[tag].load(Ordering::Relaxed)) {
            framework.probe(probe, args);
        }
    }
}
