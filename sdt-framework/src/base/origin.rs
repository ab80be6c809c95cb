//! The provider of a probe, as probe context uses it.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;

use sdt_core::ops::ProviderOps;

use super::names::{NameRef, NameTable, ProviderName};

/// The type of the ops `suspend` and `resume`.
pub(crate) type Notify = unsafe extern "C" fn(*mut c_void, u32, *mut c_void);

/// The data of a provider that do not change while it is registered.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Source {
    /// First, because readers of dumps find the name of a provider at the address of its [`SourceCell`].
    pub(crate) name: ProviderName,
    /// The number of bytes of the name, so that a hit does not have to count them.
    length: usize,
    pub(crate) ops: ProviderOps,
    pub(crate) arg: *mut c_void,
}

impl Source {
    pub(crate) fn new(name: ProviderName, ops: ProviderOps, arg: *mut c_void) -> Self {
        Self { length: name.to_bytes().len(), name, ops, arg }
    }

    /// Returns the bytes of the name.
    pub(crate) fn text(&self) -> &[u8] {
        self.name.first(self.length)
    }
}

// SAFETY: the framework only passes `arg` back to the provider, and the contract of `register` allows calling the ops with it from
// any thread.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Sync for Source {}

/// A cell for the data of a provider.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct SourceCell(UnsafeCell<MaybeUninit<Source>>);

// SAFETY: only `fill` writes the cell, and it requires that no reference to the content is used any more.
unsafe impl Sync for SourceCell {}

impl SourceCell {
    /// Creates an empty cell.
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Writes the content.
    ///
    /// # Safety
    /// No reference that an earlier call returned is used any more.
    pub(crate) unsafe fn fill(&'static self, source: Source) -> &'static Source {
        // SAFETY: earlier references are unused, as `# Safety` requires, so this is the only one.
        unsafe { (*self.0.get()).write(source) }
    }
}

/// The providers and the names of all probes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources {
    pub(crate) providers: &'static [SourceCell],
    pub(crate) names: NameTable,
}

/// The state of a probe: 0 if there is none, otherwise the index of its provider plus 1, and flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeState(pub(crate) u32);

impl ProbeState {
    /// Set while the probe is live.
    pub(crate) const LIVE: u32 = 1 << 31;
    /// Set after the probe was enabled for all retained enablings that matched it when it was created.
    pub(crate) const MATCHED: u32 = 1 << 30;
    /// The bits that have the number of the provider.
    pub(crate) const PROVIDER: u32 = Self::MATCHED - 1;

    /// Returns the index of the provider of the probe, if there is a probe.
    #[inline(always)]
    pub(crate) fn provider(self) -> Option<usize> {
        ((self.0 & Self::PROVIDER) as usize).checked_sub(1)
    }

    /// Returns whether the probe is live.
    #[inline(always)]
    pub(crate) const fn is_live(self) -> bool {
        self.0 & Self::LIVE != 0
    }
}

/// The data of a probe that do not change while it exists. The layout is C's, because readers of dumps use it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Fixed {
    pub(crate) parg: *mut c_void,
    pub(crate) aframes: u32,
    /// Module, function and name.
    pub(crate) names: [NameRef; 3],
}

/// A probe that is live, or was live when this CPU entered probe context, and its provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    probe: &'a Fixed,
    state: ProbeState,
    sources: &'a Sources,
}

impl<'a> Origin<'a> {
    /// Returns the origin of a probe.
    ///
    /// # Safety
    /// The provider is registered, and the probe has the names, as long as the result is used: the probe is live and the result is
    /// used in this probe context only, or the framework is locked.
    #[inline(always)]
    pub(crate) unsafe fn new(probe: &'a Fixed, state: ProbeState, sources: &'a Sources) -> Self {
        Self { probe, state, sources }
    }

    /// Returns the provider's part.
    pub(crate) fn source(self) -> Option<&'a Source> {
        let cell = self.sources.providers.get(self.state.provider()?)?;
        // SAFETY: the provider is registered (`new`), so the cell was filled, and is not filled again as long as this is used.
        Some(unsafe { (*cell.0.get()).assume_init_ref() })
    }

    pub(crate) const fn aframes(self) -> u32 {
        self.probe.aframes
    }

    pub(crate) const fn parg(self) -> *mut c_void {
        self.probe.parg
    }

    /// Returns provider, module, function or name, by its position in this list. Probe context.
    pub(crate) fn name(self, item: usize) -> Option<&'a [u8]> {
        let Some(own) = item.checked_sub(1) else {
            return self.source().map(|source| source.text());
        };
        let name = *self.probe.names.get(own)?;
        // SAFETY: the probe has the name as long as this is used (`new`).
        Some(unsafe { self.sources.names.text(name) })
    }

    /// Returns an argument that the hit does not contain; 0 if the provider has no `getargval`. Probe context.
    pub(crate) fn arg_value(self, id: u32, argno: c_int) -> u64 {
        let Some(source) = self.source() else { return 0 };
        match source.ops.getargval {
            // SAFETY: the safety contract of `register` allows calling the op in probe context with these pointers.
            Some(op) => unsafe { op(source.arg, id, self.parg(), argno, self.aframes() as c_int) },
            None => 0,
        }
    }

    /// Returns whether this hit was in user mode; false if the provider has no `usermode`. Probe context.
    pub(crate) fn is_usermode(self, id: u32) -> bool {
        let Some(source) = self.source() else { return false };
        // SAFETY: the safety contract of `register` allows calling the op in probe context with these pointers.
        source.ops.usermode.is_some_and(|op| unsafe { op(source.arg, id, self.parg()) } != 0)
    }
}
