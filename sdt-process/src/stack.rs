//! The stack of the function that fired, and how much room is left on it.
//!
//! Programs seldom keep frame pointers, and this crate need not have been compiled with them, so the chain cannot be followed from
//! here. But the thunk that a site calls has a frame with a mark in it while the hit is recorded. Where it returns to is the
//! function that fired, whatever that was compiled with; from there on the
//! chain is followed as far as there is one: frames that are further up, in this thread's stack, and return to text. A program that
//! is built with `-C force-frame-pointers=yes` has all of them.
//!
//! [`Hits`](crate::hits::Hits) notes for each hit whether a site made it, and where on the stack that was: the nearest mark
//! above is the hit's own, and is searched for at most once. Probes made at run time, timers and BEGIN have no thunk: nothing
//! is searched, and there is no stack.
//!
//! The chain is read like any memory: one that leads astray ends.

use std::arch::asm;
use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::OnceLock;

use sdt_core::frames::{NEXT_FRAME, thunk_frame};

use crate::{cpus, memory};

/// Most frames that are counted.
pub(crate) const DEEPEST: usize = 256;
/// Bytes between [`Hits`](crate::hits::Hits) and the frame of the thunk, at most. Most of them are the frame of the function that
/// evaluates the arguments.
const OURS: usize = 64 << 10;
/// Bytes of a word.
const WORD: usize = size_of::<usize>();

/// What a thread knows of the thunk of the hit that it is recording.
#[derive(Clone, Copy, Debug)]
enum Thunk {
    /// There is none: no site made the hit.
    None,
    /// Its frame is above this address.
    Above(usize),
    /// Its frame.
    Found(usize),
}

thread_local! {
    // Of the innermost hit. Neither allocated nor dropped, so signal handlers can use it.
    static THUNK: Cell<Thunk> = const { Cell::new(Thunk::None) };
}

/// Notes the thunk of a hit; when this is dropped, that of the hit that this one has interrupted, if there is one.
#[derive(Debug)]
pub(crate) struct Noted(Thunk);

impl Noted {
    /// Notes that a site made the hit, by a thunk whose frame is above this address of the stack, or that no site did.
    #[inline(always)]
    pub(crate) fn new(site: Option<usize>) -> Self {
        Self(THUNK.replace(site.map_or(Thunk::None, Thunk::Above)))
    }
}

impl Drop for Noted {
    #[inline(always)]
    fn drop(&mut self) {
        THUNK.set(self.0);
    }
}

/// Fills in return addresses, the function that fired first: of the hit that this thread is recording. Says how many there
/// are, and none if the hit came by no site. Probe context.
pub(crate) fn of_hit(frames: &mut [u64]) -> usize {
    let thunk = THUNK.get();
    if matches!(thunk, Thunk::None) {
        return 0;
    }
    let end = end(pointer());
    let frame = match thunk {
        Thunk::Found(frame) => Some(frame),
        // SAFETY: `Hits` has noted it, and waits further up this stack for the end of the hit.
        Thunk::Above(start) => unsafe { search(start, end) },
        Thunk::None => None,
    };
    THUNK.set(frame.map_or(Thunk::None, Thunk::Found));
    let Some(mut frame) = frame else { return 0 };
    let mut count = 0;
    while let Some(place) = frames.get_mut(count) {
        let saved = frame.wrapping_add_signed(NEXT_FRAME);
        let Some(returns) = memory::word(saved.wrapping_add(WORD)) else { break };
        if !is_text(returns) {
            break;
        }
        *place = returns as u64;
        count += 1;
        match memory::word(saved) {
            Some(next) if next > frame && next < end && next.is_multiple_of(WORD) => frame = next,
            _ => break,
        }
    }
    count
}

/// Returns the frame of the nearest thunk above an address whose hit is being recorded.
///
/// # Safety
/// The address is in this thread's stack, which reaches to `end` or to a thunk further up.
unsafe fn search(start: usize, end: usize) -> Option<usize> {
    let end = end.min(start.saturating_add(OURS)) & !(WORD - 1);
    (start.next_multiple_of(WORD)..end).step_by(WORD).find_map(|at| {
        // SAFETY: by contract the words from `start` to the mark are this thread's stack, and the search ends at the mark.
        thunk_frame(at, unsafe { word(at) })
    })
}

/// Loads a word of this thread's stack, whichever function's it is. An instruction of its own, as AddressSanitizer would report a
/// load of Rust's from another function's frame.
///
/// # Safety
/// The address is that of a word of this thread's stack.
#[inline(always)]
unsafe fn word(at: usize) -> usize {
    let word;
    // SAFETY: by contract it can be read.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, [{}]", out(reg) word, in(reg) at, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("ldr {}, [{}]", out(reg) word, in(reg) at, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        asm!("ld {}, 0({})", out(reg) word, in(reg) at, options(nostack, readonly, preserves_flags));
    }
    word
}

/// Returns the stack pointer of the function that this is inlined into.
#[inline(always)]
pub(crate) fn pointer() -> usize {
    let pointer;
    // SAFETY: reads a register.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        asm!("mv {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

/// An address that this thread's stack does not reach. Of what is known to be above it the lowest: what is the thread's own, which
/// C libraries put there for all threads but the first; the end of the alternate stack, if a signal handler runs on it; and what
/// the kernel has put above the first thread's.
fn end(here: usize) -> usize {
    // SAFETY: looks a number up that stays what it is.
    let first = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    let alternate = match alternate(here) {
        Alternate::In(stack) => Some(stack.end),
        Alternate::Out | Alternate::Unknown => None,
    };
    let ends = [Some(cpus::thread_local_address()), Some(first), alternate];
    ends.into_iter().flatten().filter(|end| *end > here).min().unwrap_or(usize::MAX)
}

/// What is known of the alternate stack of this thread.
enum Alternate {
    /// A signal handler runs on it.
    In(Range<usize>),
    /// This thread does not run on one.
    Out,
    /// The system does not tell.
    Unknown,
}

thread_local! {
    // The alternate stack that the kernel forgets while a handler runs on it (SS_AUTODISARM), as last seen by this thread.
    // Neither allocated nor dropped, so signal handlers can use it.
    static DISARMED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// `SS_AUTODISARM` (Linux, `include/uapi/linux/signal.h`).
const AUTODISARM: libc::c_int = 1 << 31;

/// Whether this thread, whose stack pointer is near `here`, runs on an alternate stack. Asked for each hit, as the program may
/// make any memory one, or none any more.
fn alternate(here: usize) -> Alternate {
    // SAFETY: all zeros is a stack.
    let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: asks, and changes nothing; safe in signal handlers (POSIX).
    if unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) } != 0 {
        return Alternate::Unknown;
    }
    let start = stack.ss_sp.addr();
    let range = start..start.saturating_add(stack.ss_size);
    if stack.ss_flags & libc::SS_ONSTACK != 0 {
        return Alternate::In(range);
    }
    let range = if stack.ss_flags & libc::SS_DISABLE == 0 {
        let disarms = stack.ss_flags & AUTODISARM != 0;
        DISARMED.set(if disarms { (range.start, range.end) } else { (0, 0) });
        range
    } else {
        let (start, end) = DISARMED.get();
        start..end
    };
    if range.contains(&here) || has_left(&range, here) {
        Alternate::In(range)
    } else {
        Alternate::Out
    }
}

/// Whether a thread at `here` has probably overflown this stack: it is just below. To the kernel it is on another one then. So
/// is a thread at the top of its own stack, which happens to be there; what is the thread's own is in between then.
fn has_left(stack: &Range<usize>, here: usize) -> bool {
    let own = cpus::thread_local_address();
    here < stack.start && stack.start - here < NEEDED && !(here..stack.start).contains(&own)
}

/// Bytes of stack that recording a hit is given, whatever program in D records it: twice what has been seen of one that does all
/// that takes much (5 kB, and 20 kB without optimisation).
pub(crate) const NEEDED: usize = if cfg!(debug_assertions) { 40 << 10 } else { 10 << 10 };

/// Whether there is room to record a hit here. Alternate stacks are small (8 kB are usual), and what overflows one ends the
/// program, or overwrites what is below it; of other stacks nobody knows where they end. Where the system does not tell whether
/// this is one, there is no room. Probe context.
pub(crate) fn has_room() -> bool {
    let here = pointer();
    match alternate(here) {
        Alternate::In(stack) => here.saturating_sub(stack.start) >= NEEDED,
        Alternate::Out => true,
        Alternate::Unknown => false,
    }
}

/// Executable segments of what was loaded when tracing began.
static TEXT: OnceLock<Box<[Range<usize>]>> = OnceLock::new();

/// Finds out where text is: before the first hit, and never in probe context.
pub(crate) fn prepare() {
    TEXT.get_or_init(|| {
        let mut found: Vec<Range<usize>> = Vec::new();
        // SAFETY: `each` gets the vector, and calls nothing that would list objects itself.
        unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut found).cast()) };
        found.into()
    });
}

fn is_text(address: usize) -> bool {
    TEXT.get().is_some_and(|all| all.iter().any(|text| text.contains(&address)))
}

unsafe extern "C" fn each(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    found: *mut c_void,
) -> libc::c_int {
    // SAFETY: what `dl_iterate_phdr` gives, and `prepare` has given it.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Range<usize>>>()) };
    // SAFETY: as above.
    found.extend(unsafe { crate::image::text(info) });
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_hit_has_no_stack() {
        prepare();
        assert_eq!(of_hit(&mut [0; 4]), 0);
        std::thread::spawn(|| assert_eq!(of_hit(&mut [0; 4]), 0)).join().unwrap();
    }

    #[test]
    fn text_is_text() {
        prepare();
        assert!(is_text(prepare as *const () as usize));
        assert!(is_text(libc::getpid as *const () as usize), "the C library's, too");
        assert!(!is_text((&raw const TEXT).addr()) && !is_text(0));
    }

    #[test]
    fn stacks_end_near_where_they_are() {
        let here = || {
            let here = pointer();
            let size = end(here) - here;
            assert!(size < 1 << 30, "{size:#x}");
        };
        here();
        std::thread::spawn(here).join().unwrap();
    }
}
