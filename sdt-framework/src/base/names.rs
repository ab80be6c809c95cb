//! Names of probes that probe context can read.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

use dtrace_abi::name::Name;
use sdt_core::ops::{FUNCTION_NAME_LEN, MODULE_NAME_LEN, PROBE_NAME_LEN, PROVIDER_NAME_LEN};

/// A provider's name.
pub(crate) type ProviderName = Name<PROVIDER_NAME_LEN>;

/// The names of a probe, except the provider's. The layout is C's, because readers of dumps use it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Names {
    pub(crate) module: Name<MODULE_NAME_LEN>,
    pub(crate) function: Name<FUNCTION_NAME_LEN>,
    pub(crate) name: Name<PROBE_NAME_LEN>,
    /// The lengths of the names, so that a hit does not have to count them.
    lengths: [u8; 3],
}

impl Names {
    /// Creates the names; `None` if one is too long.
    pub(crate) fn new([module, function, name]: [&[u8]; 3]) -> Option<Self> {
        Some(Self {
            module: Name::new(module)?,
            function: Name::new(function)?,
            name: Name::new(name)?,
            lengths: [module.len() as u8, function.len() as u8, name.len() as u8],
        })
    }

    /// Returns module, function and name. Probe context.
    pub(crate) fn texts(&self) -> [&[u8]; 3] {
        let [module, function, name] = self.lengths.map(usize::from);
        [self.module.first(module), self.function.first(function), self.name.first(name)]
    }
}

const _: () = assert!(FUNCTION_NAME_LEN <= 256 && MODULE_NAME_LEN <= 256 && PROBE_NAME_LEN <= 256);

/// A cell for names that probe context reads.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct NameCell<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: only `fill` writes the cell, and it requires that no reference to the content is used any more.
unsafe impl<T: Send + Sync> Sync for NameCell<T> {}

impl<T> NameCell<T> {
    /// Creates an empty cell.
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Writes the content.
    ///
    /// # Safety
    /// No reference that an earlier call returned is used any more.
    pub(crate) unsafe fn fill(&'static self, value: T) -> &'static T {
        // SAFETY: earlier references are unused, as `# Safety` requires, so this is the only one.
        unsafe { (*self.0.get()).write(value) }
    }
}
