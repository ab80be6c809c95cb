//! Two values of the same type: a CPU writes to one while a thread reads the other.

use crate::base::sync::{AtomicUsize, Ordering, UnsafeCell};

/// Two values: the writer's, to which a CPU writes, and the reader's.
#[derive(Debug)]
pub(crate) struct Pair<T> {
    halves: [UnsafeCell<T>; 2],
    /// The lowest bit selects the writer's half.
    turn: AtomicUsize,
}

// SAFETY: the contracts of the unsafe functions below allow only one user of each half at a time, in any thread.
unsafe impl<T: Send> Sync for Pair<T> {}

impl<T> Pair<T> {
    /// Creates a pair from the writer's value and the reader's.
    pub(crate) fn new(writers: T, readers: T) -> Self {
        Self {
            halves: [UnsafeCell::new(writers), UnsafeCell::new(readers)],
            turn: AtomicUsize::new(0),
        }
    }

    /// Returns the addresses of the halves and of the turn, whose lowest bit is set if the second half is the writer's.
    pub(crate) fn places(&self) -> ([*const T; 2], *const AtomicUsize) {
        let [even, odd] = &self.halves;
        ([even.with(|half| half), odd.with(|half| half)], &raw const self.turn)
    }

    fn half(&self, turn: usize) -> &UnsafeCell<T> {
        let [even, odd] = &self.halves;
        if turn.is_multiple_of(2) { even } else { odd }
    }

    /// Calls `f` with the writer's half. Probe context.
    ///
    /// # Safety
    /// There is one writer: this CPU, in probe context, and `f` does not call this function again.
    pub(crate) unsafe fn write<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // Acquire, with the Release of `switch`: the reader no longer uses this half.
        let turn = self.turn.load(Ordering::Acquire);
        // SAFETY: the writer has this half alone until `switch`, which waits for this CPU to leave probe context.
        self.half(turn).with_mut(|half| f(unsafe { &mut *half }))
    }

    /// Resets the reader's half with `reset`, and gives it to the writer. After the return, the reader has the writer's
    /// previous half.
    ///
    /// # Safety
    /// There is one reader. `sync` returns after every CPU has been outside probe context since it was called, and
    /// makes visible what they did there.
    pub(crate) unsafe fn switch(&self, reset: impl FnOnce(&mut T), sync: impl FnOnce()) {
        let turn = self.turn.load(Ordering::Relaxed);
        // SAFETY: the half belongs to the reader, which is the caller.
        self.half(turn.wrapping_add(1)).with_mut(|half| reset(unsafe { &mut *half }));
        self.turn.store(turn.wrapping_add(1), Ordering::Release);
        sync();
    }

    /// Calls `f` with the reader's half.
    ///
    /// # Safety
    /// There is one reader, and since the last switch `sync` has returned.
    pub(crate) unsafe fn read<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let turn = self.turn.load(Ordering::Relaxed);
        // SAFETY: there is one reader, and no CPU writes to this half since `sync` returned, by the contract of this function.
        self.half(turn.wrapping_add(1)).with_mut(|half| f(unsafe { &mut *half }))
    }

    /// Calls `f` with the writer's half, while no CPU writes.
    ///
    /// # Safety
    /// There is one reader, no CPU writes any more, and every CPU has been outside probe context since the last write.
    pub(crate) unsafe fn read_writers<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let turn = self.turn.load(Ordering::Relaxed);
        // SAFETY: there is one reader and no writer, by the contract of this function.
        self.half(turn).with_mut(|half| f(unsafe { &mut *half }))
    }
}
