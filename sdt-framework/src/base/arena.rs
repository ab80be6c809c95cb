//! The allocator of the memory that the host provides.

use core::alloc::Layout;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use linked_list_allocator::Heap;

use super::sync::{AtomicBool, Ordering};

/// Memory for [`Dtrace::init`](crate::Dtrace::init), for a host that has no other memory at boot. Put it into a `static`. Its
/// initial content is zero, so it takes no space in the kernel's file.
///
/// ```
/// static MEMORY: sdt_framework::Memory<65536> = sdt_framework::Memory::new();
/// assert_eq!(MEMORY.take().map(|memory| memory.len()), Some(65536));
/// assert!(MEMORY.take().is_none());
/// ```
pub struct Memory<const BYTES: usize> {
    is_taken: AtomicBool,
    bytes: core::cell::UnsafeCell<[MaybeUninit<u8>; BYTES]>,
}

// SAFETY: `is_taken` gives the bytes to one caller of `take`, and no other code accesses them.
unsafe impl<const BYTES: usize> Sync for Memory<BYTES> {}

impl<const BYTES: usize> Memory<BYTES> {
    /// Creates memory that is not taken.
    pub const fn new() -> Self {
        let bytes = core::cell::UnsafeCell::new([MaybeUninit::zeroed(); BYTES]);
        Self { is_taken: AtomicBool::new(false), bytes }
    }

    /// Returns the memory at the first call, and `None` afterwards.
    #[allow(clippy::mut_from_ref, reason = "it is given once")]
    pub fn take(&'static self) -> Option<&'static mut [MaybeUninit<u8>]> {
        if self.is_taken.swap(true, Ordering::Relaxed) {
            return None;
        }
        // SAFETY: `self` is `'static`, and `is_taken` was false, so this is the only reference.
        Some(unsafe { &mut *self.bytes.get() })
    }
}

impl<const BYTES: usize> Default for Memory<BYTES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const BYTES: usize> fmt::Debug for Memory<BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("bytes", &BYTES).finish_non_exhaustive()
    }
}

/// A value in the arena, with one owner. It stays allocated until [`Arena::free`].
pub(crate) struct Owned<T: ?Sized + 'static>(NonNull<T>);

// SAFETY: it owns the value, as a `Box` does.
unsafe impl<T: ?Sized + Send> Send for Owned<T> {}
// SAFETY: it owns the value, as a `Box` does.
unsafe impl<T: ?Sized + Sync> Sync for Owned<T> {}

impl<T: ?Sized> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `alloc` or `slice` made the value, and it is not freed while it is borrowed.
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Owned<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: `alloc` or `slice` made the value; `Owned` is its only owner and is borrowed exclusively.
        unsafe { self.0.as_mut() }
    }
}

impl<T: ?Sized> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized> Owned<T> {
    /// Returns the value, which is never freed.
    pub(crate) fn leak(mut self) -> &'static mut T {
        // SAFETY: this consumes the only owner, so `free` cannot be called for the value.
        unsafe { self.0.as_mut() }
    }

    /// Returns the place of the value, which is no longer owned: only [`from_raw`](Self::from_raw) frees it.
    pub(crate) const fn into_raw(self) -> NonNull<T> {
        self.0
    }

    /// Returns the owner of a value.
    ///
    /// # Safety
    /// [`into_raw`](Self::into_raw) returned the place, this is the first call for it since, and no reference to the
    /// value is used any more.
    pub(crate) const unsafe fn from_raw(place: NonNull<T>) -> Self {
        Self(place)
    }
}

/// The free memory, and the host's function for memory that was freed ([`Host::discard`](super::host::Host::discard)).
pub(crate) struct Arena(Heap, fn(NonNull<[u8]>));

impl Arena {
    /// Creates an arena without memory.
    pub(crate) const fn none() -> Self {
        Self(Heap::empty(), |_| {})
    }

    /// Creates an arena of this memory. `Control::init` has checked that the tables fit.
    pub(crate) fn new(memory: &'static mut [MaybeUninit<u8>], discard: fn(NonNull<[u8]>)) -> Self {
        Self(Heap::from_slice(memory), discard)
    }

    /// Returns the largest number of bytes that `count` values and their alignment take.
    pub(crate) const fn footprint<T>(count: usize) -> usize {
        let bytes = size_of::<T>().saturating_mul(count);
        bytes.saturating_add(align_of::<T>() + 4 * size_of::<usize>())
    }

    /// Returns the number of free bytes. They can be in several pieces.
    pub(crate) fn left(&self) -> usize {
        self.0.free()
    }

    /// Allocates a value; returns `None` if there is no room.
    pub(crate) fn alloc<T>(&mut self, value: T) -> Option<Owned<T>> {
        let place = self.0.allocate_first_fit(Layout::new::<T>()).ok()?.cast::<T>();
        // SAFETY: fresh memory of the right layout.
        unsafe { place.write(value) };
        Some(Owned(place))
    }

    /// Allocates this number of values in a row; `None` if there is no room.
    pub(crate) fn slice<T>(
        &mut self,
        count: usize,
        mut value: impl FnMut(usize) -> T,
    ) -> Option<Owned<[T]>> {
        let layout = Layout::array::<T>(count).ok()?;
        let start = self.0.allocate_first_fit(layout).ok()?.cast::<T>();
        for at in 0..count {
            // SAFETY: fresh memory of the right layout, of which this is the `at`th place.
            unsafe { start.add(at).write(value(at)) };
        }
        Some(Owned(NonNull::slice_from_raw_parts(start, count)))
    }

    /// Allocates room for this number of values in a row, without writing to it; `None` if there is no room.
    pub(crate) fn uninit<T>(&mut self, count: usize) -> Option<Owned<[MaybeUninit<T>]>> {
        let layout = Layout::array::<T>(count).ok()?;
        let start = self.0.allocate_first_fit(layout).ok()?.cast();
        Some(Owned(NonNull::slice_from_raw_parts(start, count)))
    }

    /// Frees a value that `alloc` or `slice` of this arena returned.
    pub(crate) fn free<T: ?Sized>(&mut self, owned: Owned<T>) {
        let layout = Layout::for_value::<T>(&owned);
        // SAFETY: `owned` is the only owner, and `alloc` or `slice` allocated it with this layout.
        unsafe {
            owned.0.drop_in_place();
            self.deallocate(owned.0.cast(), layout);
        }
    }

    /// Frees memory, and offers it to the host, except the first words: the allocator keeps the size of the free piece there.
    ///
    /// # Safety
    /// It was allocated from this arena with this layout, and is not used any more.
    unsafe fn deallocate(&mut self, place: NonNull<u8>, layout: Layout) {
        const KEPT: usize = 2 * size_of::<usize>();
        // SAFETY: the contract of this function is that of `Heap::deallocate`.
        unsafe { self.0.deallocate(place, layout) };
        if let Some(length) = layout.size().checked_sub(KEPT) {
            // SAFETY: the layout has more than `KEPT` bytes.
            let start = unsafe { place.add(KEPT) };
            self.1(NonNull::slice_from_raw_parts(start, length));
        }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("left", &self.left()).finish_non_exhaustive()
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Values in the arena that are freed together.
pub(crate) struct Bundle(Option<Owned<Held>>);

struct Held {
    place: NonNull<u8>,
    layout: Layout,
    next: Option<Owned<Held>>,
}

// SAFETY: it owns the allocation, and only `Bundle::free` uses the pointer.
unsafe impl Send for Held {}

/// An integer. If all bits are zero, it is 0.
///
/// # Safety
/// All bits zero are a value of the type, which needs no drop.
pub(crate) unsafe trait Zero {}

// SAFETY: it is an integer.
unsafe impl Zero for u8 {}

// SAFETY: it is an integer.
unsafe impl Zero for u32 {}

// SAFETY: it is an integer.
unsafe impl Zero for u64 {}

impl Bundle {
    /// Creates an empty bundle.
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Returns the largest number of bytes that `count` values on their own cache lines take.
    pub(crate) const fn footprint<T>(count: usize) -> usize {
        Arena::footprint::<T>(count)
            .saturating_add(2 * LINE)
            .saturating_add(Arena::footprint::<Held>(1))
    }

    /// Allocates a value; returns `None` if there is no room.
    pub(crate) fn alloc<T>(&mut self, arena: &mut Arena, value: T) -> Option<&'static mut T> {
        let mut value = Some(value);
        let slice = self.slice_of(arena, 1, 1, |_| value.take())?;
        slice.first_mut()
    }

    /// Allocates this number of values in a row; `None` if there is no room.
    pub(crate) fn slice<T>(
        &mut self,
        arena: &mut Arena,
        count: usize,
        mut value: impl FnMut(usize) -> T,
    ) -> Option<&'static mut [T]> {
        self.slice_of(arena, count, 1, |at| Some(value(at)))
    }

    /// Allocates values on their own cache lines, for data that one CPU writes.
    pub(crate) fn lines<T>(
        &mut self,
        arena: &mut Arena,
        count: usize,
        mut value: impl FnMut(usize) -> T,
    ) -> Option<&'static mut [T]> {
        self.slice_of(arena, count, LINE, |at| Some(value(at)))
    }

    /// Allocates zeros on their own cache lines, for data that one CPU writes.
    pub(crate) fn zeros<T: Zero>(
        &mut self,
        arena: &mut Arena,
        count: usize,
    ) -> Option<&'static mut [T]> {
        let start = self.place_of(arena, count, LINE)?;
        // SAFETY: fresh memory for `count` values.
        unsafe { start.write_bytes(0, count) };
        // SAFETY: all bits of these values are zero, which is a value, and the allocation is new, so this is the only reference.
        Some(unsafe { NonNull::slice_from_raw_parts(start, count).as_mut() })
    }

    /// Allocates memory on its own cache lines, for data that one CPU writes, without writing to it.
    pub(crate) fn uninit<T>(
        &mut self,
        arena: &mut Arena,
        count: usize,
    ) -> Option<&'static mut [MaybeUninit<T>]> {
        const { assert!(!core::mem::needs_drop::<T>(), "freed values are not dropped") };
        let start = self.place_of(arena, count, LINE)?;
        // SAFETY: `place_of` has allocated memory for `count` values, which need no initialisation, and the allocation is new, so this
        // is the only reference.
        Some(unsafe { NonNull::slice_from_raw_parts(start, count).as_mut() })
    }

    fn slice_of<T>(
        &mut self,
        arena: &mut Arena,
        count: usize,
        align: usize,
        mut value: impl FnMut(usize) -> Option<T>,
    ) -> Option<&'static mut [T]> {
        const { assert!(!core::mem::needs_drop::<T>(), "freed values are not dropped") };
        let start = self.place_of(arena, count, align)?;
        for at in 0..count {
            // SAFETY: fresh memory of the right layout, of which this is the `at`th place.
            unsafe { start.add(at).write(value(at)?) };
        }
        // SAFETY: the loop above has initialised all `count` values, and the allocation is new, so this is the only reference.
        Some(unsafe { NonNull::slice_from_raw_parts(start, count).as_mut() })
    }

    /// Allocates memory for this number of values, which are not initialised. Without a byte, it is at any address.
    fn place_of<T>(&mut self, arena: &mut Arena, count: usize, align: usize) -> Option<NonNull<T>> {
        if count == 0 || size_of::<T>() == 0 {
            return Some(NonNull::dangling());
        }
        let layout = Layout::array::<T>(count).ok()?.align_to(align).ok()?.pad_to_align();
        let start = arena.0.allocate_first_fit(layout).ok()?;
        let held = Held { place: start, layout, next: None };
        let Some(mut held) = arena.alloc(held) else {
            // SAFETY: allocated above, with this layout.
            unsafe { arena.deallocate(start, layout) };
            return None;
        };
        held.next = self.0.take();
        self.0 = Some(held);
        Some(start.cast())
    }

    /// Moves the allocations of another bundle to this one.
    pub(crate) fn append(&mut self, mut other: Self) {
        while let Some(mut held) = other.0.take() {
            other.0 = held.next.take();
            held.next = self.0.take();
            self.0 = Some(held);
        }
    }

    /// Frees everything.
    ///
    /// # Safety
    /// The bundle is of this arena, and no reference to its allocations is used any more.
    pub(crate) unsafe fn free(mut self, arena: &mut Arena) {
        while let Some(mut held) = self.0.take() {
            self.0 = held.next.take();
            // SAFETY: allocated from this arena with this layout, and unused, as `# Safety` requires.
            unsafe { arena.deallocate(held.place, held.layout) };
            arena.free(held);
        }
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle").finish_non_exhaustive()
    }
}
