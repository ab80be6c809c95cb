//! Names, where probe context can read them.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

use dtrace_abi::name::Name;
use sdt_core::ops::{FUNCTION_NAME_LEN, MODULE_NAME_LEN, PROBE_NAME_LEN, PROVIDER_NAME_LEN};

/// A provider's name.
pub(crate) type ProviderName = Name<PROVIDER_NAME_LEN>;

/// A probe's names, but for its provider's. As in C, so that they are found in a dump.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Names {
    pub(crate) module: Name<MODULE_NAME_LEN>,
    pub(crate) function: Name<FUNCTION_NAME_LEN>,
    pub(crate) name: Name<PROBE_NAME_LEN>,
    /// Bytes of these, as nobody wants to count them while a probe fires.
    lengths: [u8; 3],
}

impl Names {
    /// `None` for one that is too long.
    pub(crate) fn new([module, function, name]: [&[u8]; 3]) -> Option<Self> {
        Some(Self {
            module: Name::new(module)?,
            function: Name::new(function)?,
            name: Name::new(name)?,
            lengths: [module.len() as u8, function.len() as u8, name.len() as u8],
        })
    }

    /// Module, function and name. Probe context.
    pub(crate) fn texts(&self) -> [&[u8]; 3] {
        let [module, function, name] = self.lengths.map(usize::from);
        [self.module.first(module), self.function.first(function), self.name.first(name)]
    }
}

const _: () = assert!(FUNCTION_NAME_LEN <= 256 && MODULE_NAME_LEN <= 256 && PROBE_NAME_LEN <= 256);

/// A cell that is filled while nobody looks at it.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct NameCell<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: it is written by `fill` only, when by its contract nobody else uses it.
unsafe impl<T: Send + Sync> Sync for NameCell<T> {}

impl<T> NameCell<T> {
    /// An empty one.
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Fills it.
    ///
    /// # Safety
    /// What was returned before is not used any more, by anyone.
    pub(crate) unsafe fn fill(&'static self, value: T) -> &'static T {
        // SAFETY: nobody else uses it, by the contract above.
        unsafe { (*self.0.get()).write(value) }
    }
}
