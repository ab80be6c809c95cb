//! Memory that is initialised as it is used.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// The size in bytes by which the initialised part grows at a time.
const STEP: usize = 4096;

/// Memory whose beginning is initialised. The rest is not touched, so that it costs nothing in a process.
#[derive(Debug)]
pub(crate) struct Prefix<'a, T> {
    memory: &'a mut [MaybeUninit<T>],
    /// The number of values at the beginning that are initialised.
    initialised: usize,
}

impl<'a, T: Copy> Prefix<'a, T> {
    /// The number of values by which the initialised part grows at a time.
    pub(crate) const STEP: usize = STEP / size_of::<T>();

    /// Wraps memory of which nothing is initialised.
    pub(crate) const fn new(memory: &'a mut [MaybeUninit<T>]) -> Self {
        Self { memory, initialised: 0 }
    }

    /// Returns the whole memory.
    pub(crate) const fn memory(&self) -> &[MaybeUninit<T>] {
        self.memory
    }

    /// Returns the number of values for which there is memory.
    #[inline(always)]
    pub(crate) const fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// Returns the initialised values.
    #[inline(always)]
    pub(crate) fn values(&self) -> &[T] {
        let values = self.memory.get(..self.initialised).unwrap_or_default();
        // SAFETY: `extend` has initialised all values before `initialised`, and `cut` has discarded only values behind it.
        unsafe { &*(core::ptr::from_ref(values) as *const [T]) }
    }

    /// Returns the initialised values.
    #[inline(always)]
    pub(crate) fn values_mut(&mut self) -> &mut [T] {
        let values = self.memory.get_mut(..self.initialised).unwrap_or_default();
        // SAFETY: `extend` has initialised all values before `initialised`, and `cut` has discarded only values behind it. A `&mut [T]`
        // cannot make a value uninitialised.
        unsafe { &mut *(core::ptr::from_mut(values) as *mut [T]) }
    }

    /// Initialises the values before `end` with `value`, and those up to a multiple of [`STEP`](Self::STEP). Does not change initialised
    /// ones.
    pub(crate) fn extend(&mut self, end: usize, value: T) {
        let end = end.next_multiple_of(Self::STEP).min(self.memory.len());
        if let Some(values) = self.memory.get_mut(self.initialised..end) {
            values.fill(MaybeUninit::new(value));
            self.initialised = end;
        }
    }

    /// Makes all values from `end` on uninitialised, and returns the memory of those that were initialised. The caller may discard its
    /// content.
    pub(crate) fn cut(&mut self, end: usize) -> Option<NonNull<[u8]>> {
        let values =
            self.memory.get_mut(end..self.initialised).filter(|values| !values.is_empty())?;
        let bytes = NonNull::from(&mut *values).cast();
        let bytes = NonNull::slice_from_raw_parts(bytes, size_of_val(values));
        self.initialised = end;
        Some(bytes)
    }
}
