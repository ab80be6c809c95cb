//! Slots: the memory of runtime probes, and their states.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::arg::{ArgType, Argument};
use crate::atomic::{self, AtomicPtr};
use crate::ops::{ARGS, FUNCTION_NAME_LEN, Name, PROBE_NAME_LEN};

/// Memory for one runtime probe.
pub struct Slot {
    /// A [`State`], and in the higher bits the number of [`Probe`](super::Probe)s: both change in one step, so that no
    /// slot becomes free while a handle of it exists.
    word: atomic::AtomicU32,
    /// The framework's id while the probe is enabled, otherwise 0.
    enabled_id: AtomicU32,
    /// The provider that owns the slot; null until one with this slot was opened.
    owner: AtomicPtr<()>,
    /// Written while the slot is free, and read while it is not.
    contents: UnsafeCell<Contents>,
}

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// It is free.
    Free,
    /// A probe that must be created in the framework.
    Wanted,
    /// A thread is creating it in the framework.
    Creating,
    /// The framework destroyed it while the thread was creating it. The thread will create it again.
    Lost,
    /// The framework knows it.
    Listed,
    /// It is being removed, but the framework still knows it.
    Leaving,
    /// Removed, but a [`Probe`](super::Probe) of it exists.
    Gone,
}

/// One [`Probe`](super::Probe) in the word.
const HANDLE: u32 = 1 << 8;

/// The greatest number of [`Probe`](super::Probe)s of one probe.
const MOST: u32 = u32::MAX / HANDLE / 2;

impl State {
    fn of(word: u32) -> Self {
        match word % HANDLE {
            0 => Self::Free,
            1 => Self::Wanted,
            2 => Self::Creating,
            3 => Self::Lost,
            4 => Self::Listed,
            5 => Self::Leaving,
            _ => Self::Gone,
        }
    }
}

/// The names that identify a probe of a provider.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) function: Name<FUNCTION_NAME_LEN>,
    pub(super) name: Name<PROBE_NAME_LEN>,
}

impl Names {
    /// Creates the names; returns `None` if one of them is too long.
    pub(super) fn new(function: &CStr, name: &CStr) -> Option<Self> {
        let function = Name::new(function.to_bytes())?;
        Some(Self { function, name: Name::new(name.to_bytes())? })
    }
}

struct Contents {
    names: Names,
    args: [&'static ArgType; ARGS],
    count: usize,
}

// SAFETY: the cell is written while the slot is free, by the one thread that may take it, and read while it is not.
unsafe impl Sync for Slot {}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}

impl Slot {
    /// Returns a free slot.
    pub const fn new() -> Self {
        let names = Names { function: Name::EMPTY, name: Name::EMPTY };
        let contents = Contents { names, args: [&<u64 as Argument>::TYPES[0]; ARGS], count: 0 };
        Self {
            word: atomic::AtomicU32::new(State::Free as u32),
            enabled_id: AtomicU32::new(0),
            owner: AtomicPtr::new(core::ptr::null_mut()),
            contents: UnsafeCell::new(contents),
        }
    }

    /// Returns whether the provider at this address owns the slot. A slot without an owner becomes that provider's
    /// permanently.
    pub(super) fn belongs_to(&self, provider: *const ()) -> bool {
        let provider = provider.cast_mut();
        let none = core::ptr::null_mut();
        match self.owner.compare_exchange(none, provider, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(owner) => owner == provider,
        }
    }

    pub(super) fn state(&self) -> State {
        State::of(self.word.load(Ordering::Acquire))
    }

    pub(super) fn is_free(&self) -> bool {
        self.state() == State::Free
    }

    /// Returns whether it is the probe with these names. The calling thread has the right to change the provider.
    pub(super) fn is(&self, names: &Names) -> bool {
        !matches!(self.state(), State::Free | State::Gone) && self.names() == names
    }

    /// Makes the slot a wanted probe with one handle. Its provider has to list it.
    ///
    /// # Safety
    /// The slot is free, and no other thread takes it.
    pub(super) unsafe fn take(&self, names: Names, args: &[&'static ArgType]) {
        // SAFETY: the slot is free, so no thread reads it, and no other thread writes, by the contract of this function.
        let contents = unsafe { &mut *self.contents.get() };
        contents.names = names;
        contents.count = args.len().min(ARGS);
        contents.args[..contents.count].copy_from_slice(&args[..contents.count]);
        self.word.store(HANDLE | State::Wanted as u32, Ordering::Release);
    }

    fn contents(&self) -> &Contents {
        // SAFETY: the slot is not free: the caller has a `Probe`, or the framework calls it for a known probe, or it
        // has seen that the slot is not free and has the right to change the provider.
        unsafe { &*self.contents.get() }
    }

    pub(super) fn names(&self) -> &Names {
        &self.contents().names
    }

    pub(super) fn args(&self) -> &[&'static ArgType] {
        let Contents { args, count, .. } = self.contents();
        &args[..*count]
    }

    /// Changes the state from `from` to `to`. Returns whether the state was `from`.
    pub(super) fn turn(&self, from: State, to: State) -> bool {
        self.change(|state, _| (state == from).then_some(to))
    }

    /// Records that the framework has destroyed the probe.
    pub(super) fn destroyed(&self) {
        self.change(|state, handles| match state {
            State::Listed => Some(State::Wanted),
            State::Creating => Some(State::Lost),
            State::Leaving => Some(gone(handles)),
            _ => None,
        });
    }

    /// Marks the probe as removed. The framework does not know it.
    pub(super) fn remove(&self) {
        self.change(|state, handles| (state != State::Free).then(|| gone(handles)));
    }

    /// Counts one more [`Probe`](super::Probe). The calling thread has one, or has the right to change the provider and
    /// has seen that the slot is not free.
    ///
    /// # Panics
    /// If there are too many. This happens only if code leaks them. A new one is not counted then: code that catches
    /// the panic could otherwise repeat the call until the count overflows to 0.
    pub(super) fn retain(&self) {
        let more = |word: u32| (word / HANDLE < MOST).then(|| word + HANDLE);
        let counted = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        assert!(counted, "more than {MOST} values of type `Probe` refer to one probe");
    }

    /// Counts one [`Probe`](super::Probe) less, and frees the slot of a removed probe without [`Probe`](super::Probe)s.
    pub(super) fn release(&self) {
        let less = |word: u32| {
            let word = word - HANDLE;
            let is_last = word / HANDLE == 0 && State::of(word) == State::Gone;
            Some(if is_last { State::Free as u32 } else { word })
        };
        let _ = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    /// Changes the state to the result of `to`, which gets the state and the number of [`Probe`](super::Probe)s.
    fn change(&self, to: impl Fn(State, u32) -> Option<State>) -> bool {
        let changed = |word: u32| {
            let state = to(State::of(word), word / HANDLE)?;
            Some((word / HANDLE * HANDLE) | state as u32)
        };
        self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed).is_ok()
    }

    /// Returns whether it is enabled. Probe context.
    #[inline]
    pub(super) fn is_enabled(&self) -> bool {
        // Relaxed: the framework loads it once more, with acquire.
        self.enabled_id.load(Ordering::Relaxed) != 0
    }

    pub(super) fn enabled_id(&self) -> &AtomicU32 {
        &self.enabled_id
    }
}

/// Returns the state of a removed probe with this number of handles.
fn gone(handles: u32) -> State {
    if handles == 0 { State::Free } else { State::Gone }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_one_handle_too_many_is_not_counted() {
        static SLOT: Slot = Slot::new();
        let slot = &SLOT;
        slot.word.store((MOST * HANDLE) | State::Gone as u32, Ordering::Relaxed);
        for _ in 0..2 {
            let one_more = std::panic::AssertUnwindSafe(|| slot.retain());
            std::panic::catch_unwind(one_more).unwrap_err();
            assert_eq!(slot.word.load(Ordering::Relaxed) / HANDLE, MOST);
        }
        slot.release();
        slot.retain();
        slot.release();
        assert_eq!(slot.word.load(Ordering::Relaxed) / HANDLE, MOST - 1);
    }
}
