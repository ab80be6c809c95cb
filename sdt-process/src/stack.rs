//! The stack of the function that fired, and the room that is left on it.
//!
//! Programs seldom keep frame pointers, and this crate need not have been compiled with them, so the chain of frames cannot be
//! followed from here. But the thunk that a site calls has a frame with a mark in it while the hit is recorded. It returns to the
//! function that fired, however that was compiled. From there the chain is followed while it is valid: each frame is further up
//! in this thread's stack and returns to text. A program that is built with `-C force-frame-pointers=yes` has all frames.
//!
//! [`SiteFramework`](crate::framework::SiteFramework) notes for each hit whether a site made it, and its stack pointer. The nearest mark
//! above is the hit's own; it is searched for at most once in a hit. Probes made at run time, `tick-N` and BEGIN have no thunk, so there
//! is no search, and no stack. A sample (`profile-N`) has the registers of the interrupted thread: its stack begins with the interrupted
//! instruction, and the chain begins at the frame pointer.
//!
//! The frame of the thunk is read by loads: the thunk has not returned, so the frame is on this stack. The frames above
//! it are read by loads as far as [`own_stack`] proves that they are on this thread's stack. All other frames are read
//! like memory of unknown origin: two words at a time, up to a kilobyte with one system call. So a chain that leads to
//! invalid memory ends.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::OnceLock;

use sdt_core::frames::{NEXT_FRAME, thunk_frame};

use crate::borrowed::Arguments;
use crate::errno::Errno;
use crate::sampling::Registers;
use crate::{hit, image, memory, own_stack, raw_load, rseq};

/// The largest number of frames that are counted.
pub(crate) const DEEPEST: usize = 256;
/// The largest distance in bytes between [`SiteFramework::hit`](crate::framework::SiteFramework) and the frame of the thunk. Most of it
/// is the frame of the function that evaluates the arguments.
const THUNK_DISTANCE: usize = 64 << 10;
/// The size of a word in bytes.
const WORD: usize = size_of::<usize>();

/// The place of a breakpoint at the boundary of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Boundary {
    /// The address of the breakpoint.
    pub(crate) counter: usize,
    /// The function's return address; on x86_64, the address of it.
    pub(crate) caller: usize,
    /// The lowest address at which the caller can have a frame.
    pub(crate) stack: usize,
    /// The frame pointer of the caller, if it has one.
    pub(crate) frame: usize,
}

/// The way in which the stack of a hit is found.
#[derive(Clone, Copy, Debug)]
enum Thunk {
    /// No site made the hit.
    None,
    /// The frame is above this address.
    Above(usize),
    /// The frame is at this address.
    Found(usize),
    /// A breakpoint made the hit, at the boundary of a function.
    Function(Boundary),
    /// A signal has interrupted the thread with these registers, so there is no thunk.
    Interrupted(Registers),
}

thread_local! {
    /// The thunk of the innermost hit. Neither allocated nor dropped, so signal handlers can use it.
    static THUNK: Cell<Thunk> = const { Cell::new(Thunk::None) };
    /// The stack and the arguments of the hit that is about to be recorded. Neither allocated nor dropped, so signal handlers can use it.
    static NOTED: Cell<Option<(Room, Arguments)>> = const { Cell::new(None) };
}

/// Notes the thunk, the stack and the arguments of a hit. When this is dropped, the notes of the interrupted hit are valid again.
#[derive(Debug)]
pub(crate) struct Note(Thunk, Option<(Room, Arguments)>);

impl Note {
    /// Notes that a site made the hit, through a thunk whose frame is above this address, or that no site made it.
    #[inline(always)]
    pub(crate) fn new(site: Option<usize>, room: Room, arguments: Arguments) -> Self {
        let thunk = THUNK.replace(site.map_or(Thunk::None, Thunk::Above));
        Self(thunk, NOTED.replace(Some((room, arguments))))
    }

    /// Notes that a breakpoint at the boundary of a function made the hit.
    pub(crate) fn at_function(at: Boundary, room: Room) -> Self {
        Self(THUNK.replace(Thunk::Function(at)), NOTED.replace(Some((room, Arguments::NONE))))
    }

    /// Notes that a signal has interrupted the thread, and that the hit is recorded on another stack.
    pub(crate) fn interrupted(registers: Registers, room: Room) -> Self {
        Self(
            THUNK.replace(Thunk::Interrupted(registers)),
            NOTED.replace(Some((room, Arguments::NONE))),
        )
    }
}

impl Drop for Note {
    #[inline(always)]
    fn drop(&mut self) {
        THUNK.set(self.0);
        NOTED.set(self.1);
    }
}

/// Returns the stack and the arguments that were noted for a hit, once. Probe context.
#[inline(always)]
pub(crate) fn noted() -> Option<(Room, Arguments)> {
    NOTED.take()
}

/// Fills in the addresses of the stack of the hit that this thread is recording, beginning with the function that fired or was
/// interrupted. Returns their number: 0 if the hit has no stack. Probe context.
pub(crate) fn of_hit(frames: &mut [u64]) -> usize {
    let thunk = THUNK.get();
    if matches!(thunk, Thunk::None) {
        return 0;
    }
    if let Thunk::Interrupted(registers) = thunk {
        return of_interrupted(&registers, frames);
    }
    // The hit stored the end of the alternate stack when it began, so the kernel is not queried again.
    let alternate = hit::current().and_then(|hit| hit.alternate_end);
    let end = end(own_stack::stack_pointer(), alternate);
    let frame = match thunk {
        Thunk::Function(at) => return of_function(at, frames, end),
        Thunk::Found(frame) => Some(frame),
        // SAFETY: `SiteFramework::hit` noted its stack pointer and has not returned, so the thunk's frame is further up this stack.
        Thunk::Above(start) => unsafe { search(start, end) },
        Thunk::None | Thunk::Interrupted(_) => None,
    };
    THUNK.set(frame.map_or(Thunk::None, Thunk::Found));
    let Some(frame) = frame else { return 0 };
    // SAFETY: the thunk has not returned, so its frame with the two words is on this thread's stack.
    let thunk =
        unsafe { [0, WORD].map(|at| raw_load::word(frame.wrapping_add_signed(NEXT_FRAME) + at)) };
    follow(frames, frame, Some(thunk), end, read_frame)
}

/// Reads two words of a stack.
fn read(words: usize) -> Option<[usize; 2]> {
    if own_stack::contains(words, 2 * WORD) {
        // SAFETY: `own_stack::contains` has proved that the two words are mapped while this function runs.
        return Some([0, WORD].map(|at| unsafe { raw_load::word(words + at) }));
    }
    memory::words::<2>(words)
}

/// Reads the two words of a frame.
fn read_frame(frame: usize) -> Option<[usize; 2]> {
    read(frame.wrapping_add_signed(NEXT_FRAME))
}

/// Fills in the frames of a function: the breakpoint, the return address, and the frames of its callers.
fn of_function(at: Boundary, frames: &mut [u64], end: usize) -> usize {
    let [first, rest @ ..] = frames else { return 0 };
    *first = at.counter as u64;
    let returns = match cfg!(target_arch = "x86_64") {
        true => read(at.caller).map(|[returns, _]| returns),
        false => Some(at.caller),
    };
    let returns = returns.filter(|of| is_text(*of));
    let (Some(returns), [second, rest @ ..]) = (returns, rest) else { return 1 };
    *second = returns as u64;
    let words = at.frame.wrapping_add_signed(NEXT_FRAME);
    let is_above = words >= at.stack && at.frame < end && at.frame.is_multiple_of(WORD);
    2 + if is_above && !rest.is_empty() {
        follow(rest, at.frame, read_frame(at.frame), end, read_frame)
    } else {
        0
    }
}

/// Fills in the program counter of an interrupted function, and the return addresses of its callers.
fn of_interrupted(registers: &Registers, frames: &mut [u64]) -> usize {
    let Some((first, rest)) = frames.split_first_mut() else { return 0 };
    *first = registers.counter as u64;
    let (frame, end) = (registers.frame, end(registers.stack, registers.alternate_end));
    // A function without a frame pointer may have any value in its register.
    if rest.is_empty() || frame < registers.stack || frame >= end || !frame.is_multiple_of(WORD) {
        return 1;
    }
    // An alternate stack can be any memory, so nothing is proved about it.
    let proved = if registers.alternate_end.is_none() {
        own_stack::end(registers.stack).unwrap_or(0)
    } else {
        0
    };
    let read = |frame: usize| {
        let words = frame.wrapping_add_signed(NEXT_FRAME);
        if words >= registers.stack
            && words.checked_add(2 * WORD).is_some_and(|past| past <= proved)
        {
            // SAFETY: `own_stack::end` has proved that everything from the interrupted stack pointer up to `proved` is mapped while this
            // thread runs.
            return Some([0, WORD].map(|at| unsafe { raw_load::word(words + at) }));
        }
        memory::words::<2>(words)
    };
    1 + follow(rest, frame, read(frame), end, read)
}

/// Follows the chain from a frame with these two words up to `end`, and fills in the return addresses. Returns how many there are.
fn follow(
    frames: &mut [u64],
    mut frame: usize,
    mut words: Option<[usize; 2]>,
    end: usize,
    read: impl Fn(usize) -> Option<[usize; 2]>,
) -> usize {
    let mut count = 0;
    while let (Some(place), Some([next, returns])) = (frames.get_mut(count), words) {
        if !is_text(returns) {
            break;
        }
        *place = returns as u64;
        count += 1;
        if next <= frame || next >= end || !next.is_multiple_of(WORD) {
            break;
        }
        frame = next;
        words = if count < frames.len() { read(frame) } else { None };
    }
    count
}

/// Returns the frame of the nearest thunk above an address, among thunks whose hit is being recorded.
///
/// # Safety
/// The address is in this thread's stack, which reaches to `end` or to a thunk further up.
unsafe fn search(start: usize, end: usize) -> Option<usize> {
    let end = end.min(start.saturating_add(THUNK_DISTANCE)) & !(WORD - 1);
    (start.next_multiple_of(WORD)..end).step_by(WORD).find_map(|at| {
        // SAFETY: the caller guarantees that this thread's stack reaches from `start` to the mark, and the search ends at the mark.
        thunk_frame(at, unsafe { raw_load::word(at) })
    })
}

/// Returns an address that this thread's stack does not reach, the lowest of these: the thread-local variables, which C libraries place
/// above the stack for all threads except the first; the end of the alternate stack, if `here` is on one; and the random
/// bytes (`AT_RANDOM`) that the kernel places above the stack of the first thread.
fn end(here: usize, alternate: Option<usize>) -> usize {
    // SAFETY: returns a number that never changes.
    let first = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    let ends = [Some(hit::thread_local_address()), Some(first), alternate];
    ends.into_iter().flatten().filter(|end| *end > here).min().unwrap_or(usize::MAX)
}

/// The alternate stack on which this thread runs.
enum Alternate {
    /// It runs on this one, in a signal handler.
    In(Range<usize>),
    /// This thread does not run on an alternate stack.
    Out,
    /// `sigaltstack(2)` fails, for example in a sandbox.
    Unknown,
}

/// The alternate stack of a thread, as the kernel reported it last while the thread was not on it.
#[derive(Clone, Copy)]
struct Seen {
    /// Its bounds; both 0 if the thread had none.
    start: usize,
    end: usize,
    /// Whether the kernel disarms it while a handler runs on it, and then reports that the thread has none (`SS_AUTODISARM`).
    disarms: bool,
}

impl Seen {
    const NONE: Self = Self { start: 0, end: 0, disarms: false };

    const fn range(self) -> Range<usize> {
        self.start..self.end
    }

    /// Returns whether the kernel always reports whether the thread is on this stack.
    const fn is_plain(self) -> bool {
        self.end != 0 && !self.disarms
    }
}

thread_local! {
    /// The alternate stack of this thread as seen last. Neither allocated nor dropped, so signal handlers can use it.
    static SEEN: Cell<Seen> = const { Cell::new(Seen::NONE) };
}

/// `SS_AUTODISARM` (Linux, `include/uapi/linux/signal.h`).
const AUTODISARM: libc::c_int = 1 << 31;

/// Returns whether this thread, whose stack pointer is near `here`, runs on an alternate stack.
///
/// The program may change its alternate stack at any time, so only the kernel knows. If it reports that the thread is not on its stack,
/// the thread gets a [mark](rseq). While the mark remains, no signal has interrupted the thread. So the thread is on that stack only if
/// its stack pointer is there: a coroutine that a signal handler has begun may continue. If the program has replaced the stack meanwhile, and
/// continues a coroutine on the new one, this is a stack like that of any coroutine, whose limits are not known.
///
/// A thread without an alternate stack gets no mark: it may have one that the kernel has disarmed, and this function notices such a stack
/// only before the signal.
#[inline(always)]
fn alternate(here: usize) -> Alternate {
    let Seen { start, end, .. } = SEEN.get();
    let is_doubtful = (start.saturating_sub(NEEDED)..end).contains(&here);
    if rseq::is_marked() && !is_doubtful {
        return Alternate::Out;
    }
    let place = Errno::here();
    let errno = place.get();
    let answer = asked(here);
    place.set(errno);
    answer
}

/// Asks the kernel whether this thread runs on an alternate stack.
#[cold]
fn asked(here: usize) -> Alternate {
    // SAFETY: all zeros are a valid `stack_t`.
    let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes `stack` and changes nothing else; async-signal-safe (POSIX).
    if unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) } != 0 {
        return Alternate::Unknown;
    }
    let start = stack.ss_sp.addr();
    let end = start.saturating_add(stack.ss_size);
    if stack.ss_flags & libc::SS_ONSTACK != 0 {
        return Alternate::In(start..end);
    }
    let mut seen = SEEN.get();
    if stack.ss_flags & libc::SS_DISABLE == 0 {
        seen = Seen { start, end, disarms: stack.ss_flags & AUTODISARM != 0 };
    } else if seen.is_plain() {
        // The program has no alternate stack any more, or has replaced it by one that is disarmed now.
        if let Some(disarmed) = disarmed(here) {
            return Alternate::In(disarmed);
        }
        seen = Seen::NONE;
    }
    let range = seen.range();
    if range.contains(&here) || has_overflown(&range, here) {
        return Alternate::In(range);
    }
    // A signal handler that interrupts this function may be on an alternate stack, but it has returned when this function continues.
    SEEN.set(seen);
    if seen.is_plain() {
        rseq::mark();
    }
    Alternate::Out
}

/// The part of a disarmed stack in bytes, above the stack pointer, in which the frame of the signal is searched.
const SEARCHED: usize = 64 << 10;

/// Returns the disarmed alternate stack on which a handler runs whose stack pointer is near `here`. The frame of the signal is on this stack,
/// and contains the description of the stack (`uc_stack`).
#[cold]
fn disarmed(here: usize) -> Option<Range<usize>> {
    memory::begin_hit();
    let first = here.next_multiple_of(WORD);
    (first..first.saturating_add(SEARCHED))
        .step_by(WORD)
        .map_while(|at| Some((at, memory::words(at)?)))
        .find_map(|(at, [start, flags, size]): (usize, [usize; 3])| {
            let range = start..start.checked_add(size)?;
            // The field is half a word, and the rest of the word is undefined.
            let is_disarmed = flags as libc::c_int & !libc::SS_ONSTACK == AUTODISARM;
            (is_disarmed && range.contains(&here) && range.contains(&at)).then_some(range)
        })
}

/// Returns whether a thread at `here` has probably overflown an alternate stack: `here` is just below it, and the kernel reports that
/// the thread is not on it. A thread near the top of its ordinary stack can be just below, too, but then its thread-local variables
/// are in between.
fn has_overflown(stack: &Range<usize>, here: usize) -> bool {
    let own = hit::thread_local_address();
    here < stack.start && stack.start - here < NEEDED && !(here..stack.start).contains(&own)
}

/// The room in bytes that recording a hit needs on an alternate stack: twice the largest use that was seen with any program in D, which
/// was 5 kB, and 20 kB without optimisation.
pub(crate) const NEEDED: usize = if cfg!(debug_assertions) { 40 << 10 } else { 10 << 10 };

/// The stack of a hit that has room to record it. Without padding: the copies of a hit's state are then whole words, for which the CPU need
/// not wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    /// A stack that is not known to be an alternate one.
    Ordinary,
    /// An alternate stack with this end.
    Alternate(usize),
    /// A stack of [`sampling`](crate::sampling) with this end. The hit does not wait for a slot.
    Sample(usize),
}

impl Room {
    /// Returns the end of the alternate stack, if the hit is on one.
    pub(crate) const fn alternate_end(self) -> Option<usize> {
        match self {
            Self::Ordinary => None,
            Self::Alternate(end) | Self::Sample(end) => Some(end),
        }
    }

    /// Returns whether the hit waits for a slot if none is free.
    pub(crate) const fn waits(self) -> bool {
        !matches!(self, Self::Sample(_))
    }
}

/// Returns the stack if there is room on it to record a hit. Alternate stacks are small, usually 8 kB, and overflowing one ends the program
/// or overwrites other memory. The limits of other stacks are not known. If the kernel does not tell whether this is an alternate stack,
/// there is no room. Leaves `errno` as it was. Probe context.
#[inline]
pub(crate) fn room() -> Option<Room> {
    let here = own_stack::stack_pointer();
    match alternate(here) {
        Alternate::In(stack) if here.saturating_sub(stack.start) < NEEDED => None,
        Alternate::In(stack) => Some(Room::Alternate(stack.end)),
        Alternate::Out => Some(Room::Ordinary),
        Alternate::Unknown => None,
    }
}

/// The executable segments of all objects that were loaded when tracing started.
static TEXT: OnceLock<Box<[Range<usize>]>> = OnceLock::new();

/// Lists the executable segments. Called before the first hit, and not in probe context.
pub(crate) fn prepare() {
    TEXT.get_or_init(|| {
        let mut found: Vec<Range<usize>> = Vec::new();
        // SAFETY: `add_text` gets the vector that it expects, and does not list objects itself.
        unsafe { libc::dl_iterate_phdr(Some(add_text), (&raw mut found).cast()) };
        found.into()
    });
}

/// Returns whether an address is in an executable segment.
fn is_text(address: usize) -> bool {
    TEXT.get().is_some_and(|all| all.iter().any(|text| text.contains(&address)))
}

/// Adds the executable segments of an object to the vector `found`.
unsafe extern "C" fn add_text(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    found: *mut c_void,
) -> libc::c_int {
    // SAFETY: `dl_iterate_phdr` passes a valid description, and the pointer to the vector that `prepare` passed to it.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Range<usize>>>()) };
    // SAFETY: `dl_iterate_phdr` passed the description.
    found.extend(unsafe { image::text(info) });
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_stack_outside_of_a_hit() {
        prepare();
        assert_eq!(of_hit(&mut [0; 4]), 0);
        std::thread::spawn(|| assert_eq!(of_hit(&mut [0; 4]), 0)).join().unwrap();
    }

    #[test]
    fn text_is_told_from_data() {
        prepare();
        assert!(is_text(prepare as *const () as usize));
        assert!(is_text(libc::getpid as *const () as usize), "also in the C library");
        assert!(!is_text((&raw const TEXT).addr()) && !is_text(0));
    }

    #[test]
    fn the_end_of_the_stack_is_near() {
        let here = || {
            let here = own_stack::stack_pointer();
            let size = end(here, None) - here;
            assert!(size < 1 << 30, "{size:#x}");
        };
        here();
        std::thread::spawn(here).join().unwrap();
    }
}
