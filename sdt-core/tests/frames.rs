//! After a hit, the stack contains no marks that could make a later frame look like a hit.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use sdt_core::__private::arch;
use sdt_core::patch::Mode;
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(open);

/// The mark of `frames.rs`. The test would find no marks during hits if the values differed.
const MARK: usize = 0x5d74_7468_756e_6b21;

/// The number of bytes of the stack that are searched.
const LOOKED_AT: usize = 32 * 1024;

/// The upper end of the searched stack, for the hook.
static TOP: AtomicUsize = AtomicUsize::new(0);
/// The largest and the smallest number of marks during a hit.
static MOST: AtomicUsize = AtomicUsize::new(0);
static FEWEST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Returns the number of words on this thread's stack that would mark a frame as that of a thunk.
fn marks(stack: Range<usize>) -> usize {
    let marked = |at: &usize| {
        let frame = at.wrapping_add_signed(-arch::HIT_SLOTS);
        // SAFETY: a word of this thread's stack, all of which is mapped.
        unsafe { (*at as *const usize).read_volatile() == MARK ^ frame }
    };
    stack.step_by(size_of::<usize>()).filter(marked).count()
}

fn stack_below(top: usize) -> Range<usize> {
    top - LOOKED_AT..top
}

fn hook(_: u32, _: &[u64; 10]) {
    let found = marks(stack_below(TOP.load(Ordering::Relaxed)));
    MOST.fetch_max(found, Ordering::Relaxed);
    FEWEST.fetch_min(found, Ordering::Relaxed);
}

#[inline(never)]
fn inner(x: u64) -> u64 {
    sdt_probe!(open::inner, x);
    x
}

#[inline(never)]
fn outer(x: u64) {
    sdt_probe!(open::outer, inner(x + 1000), x);
}

/// Fires from a deep stack frame, so that the later search does not overwrite marks.
#[inline(never)]
fn deep(x: u64) {
    let mut room = MaybeUninit::<[u64; 1024]>::uninit();
    black_box(&mut room);
    outer(x);
    inner(x);
    black_box(&mut room);
}

#[test]
fn a_hit_is_marked_while_it_is_recorded_and_never_after() {
    let recorder = recording_host::attach(Mode::Jump);
    for probe in ["inner", "outer"] {
        recorder.enable(recorder.find("open", probe).unwrap());
    }
    *recorder.hook.write().unwrap() = Some(hook);
    let here = 0_usize;
    let top = (&raw const here).addr() & !7;
    TOP.store(top, Ordering::Relaxed);
    deep(5);
    let hits = ["inner", "outer"].map(|name| recorder.hits(recorder.find("open", name).unwrap()));
    assert_eq!(hits, [2, 1]);
    assert_eq!(marks(stack_below(top)), 0, "of hits that are over");
    let found = [FEWEST.load(Ordering::Relaxed), MOST.load(Ordering::Relaxed)];
    assert_eq!(found, [1, 1], "of each hit, while it is recorded");
}
