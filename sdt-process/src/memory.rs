//! Reads and writes of this process's memory at any address that a program in D computes.
//!
//! | memory | how it is read | system calls |
//! |---|---|---|
//! | constants of the program: read-only segments of the program's file | by loads | none |
//! | this thread's stack, as far as its limits are proved ([`own_stack`](crate::own_stack)) | by loads | none; 2 once in a thread |
//! | memory without a file that the site borrows, and the rest of its pages ([`borrowed`](crate::borrowed)), since Linux 6.11 | by loads | none if this thread found the page in memory, and its mapping, at most 10 ms before; otherwise up to 4 |
//! | any other | the kernel copies it: `process_vm_readv(2)` of the process itself, up to 256 bytes at once, which are kept until the hit ends | 1 for a piece, and 2 more unless its page was found as above |
//!
//! `process_vm_readv` and `process_vm_writev` return an error for a bad address: no signal is raised, no memory of a device is read, and no
//! read-only page is written. No ptrace policy applies to a process that reads itself, and no protection keys of a thread (pkeys(7)) do.
//! They are system calls, so they work in signal handlers. The caller preserves `errno`.
//!
//! # Why other memory is not read by loads
//!
//! Nothing proves that it is mapped. An argument that is a number, or a raw pointer, looks like the address of borrowed memory, and
//! safe code may give any type the words and the D types of a `&str` (`Value`, `Argument`). Only the types of this project's own
//! implementations prove what a site borrows. Even borrowed memory can end during a hit if it is in a file that another process truncates;
//! so the kernel copies memory in mappings of files, and shared memory. It tells which mappings have a file (`PROCMAP_QUERY`, Linux
//! 6.11); before, it copies all such memory. If a program replaces memory by a mapping of a file, and another process truncates this file,
//! all within 10 ms, a load can raise SIGBUS.
//!
//! The constants of the program are in the same file as its code, and the kernel lets no process truncate that file while the program runs
//! (`ETXTBSY`). Only the server of a network or FUSE file system can truncate it or stop answering, and then the program itself ends or
//! waits where it needs a page that is not in memory. A program that was started as an argument of the dynamic linker is not protected in
//! this way, so its constants are copied ([`Image`]). A userfaultfd does not accept mappings of a file. If a program unmaps its own
//! constants, a program in D that reads them raises SIGSEGV.
//!
//! # No read waits
//!
//! A page that is not in memory has to be fetched: from a disk, from a server (NFS, FUSE), or from a thread of this process
//! (`userfaultfd(2)`), which may be the thread that hits the probe. So this module first reads in `/proc/self/pagemap` whether
//! the page is in memory; if not, nothing is copied. `mincore(2)` is not sufficient: it returns `true` for each page of a file
//! that the user may not write to, and for shared pages that a userfaultfd holds back.
//!
//! Between the two system calls another thread can discard the page, or the kernel can evict it. Then the copy fetches it again. A page
//! that a thread has found in memory is not looked up again during that hit, nor by the hits that begin within 10 ms, so this time can
//! be as long as that. Most programs trace the same few strings again and again. The same holds for loads of borrowed memory.
//!
//! `start` fetches the constants of the program, so that programs in D can read them before the program has used them.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

use crate::image::Image;
use crate::proc_file::{MAPS, PAGES};
use crate::{clock, hit, identity, own_stack, raw_load};

/// The size of a page in bytes; 0 until [`prepare`] has been called.
pub(crate) static PAGE_SIZE: AtomicUsize = AtomicUsize::new(0);

/// Bits of an entry of `/proc/self/pagemap` (Linux, `Documentation/admin-guide/mm/pagemap.rst`).
const PRESENT: u64 = 1 << 63;
const WRITE_PROTECTED: u64 = 1 << 57;
/// A page of a file, or of shared memory.
const FILE: u64 = 1 << 61;
/// The largest number of entries that are read at once.
const ENTRIES: usize = 16;
/// The smallest number of entries that one system call reads. A hit probably uses the following pages next, and more entries cost
/// no more.
const ENTRIES_AHEAD: usize = 4;

/// The number of bytes that a read fetches at least, unless the page ends before.
const AHEAD: usize = 256;
/// The number of bytes that a read of a stack reads ahead: frames are further apart than other data.
const STACK_AHEAD: usize = 1024;

/// The number of pages that a thread remembers as found in memory.
const PAGES_FOUND: usize = 16;
/// The time in nanoseconds for which a thread remembers a page.
const RECENT: u64 = 10_000_000;

/// The pages that a thread has found in memory, at their numbers modulo [`PAGES_FOUND`].
struct Found {
    pages: [Cell<FoundPage>; PAGES_FOUND],
    /// The [generation](identity::generation) of the process in which they were found.
    generation: Cell<u32>,
    /// The time of the current hit in nanoseconds; 0 until it looks for a page.
    now: Cell<u64>,
    /// The time that the current hit has read for another purpose; 0 if it has read none.
    noted: Cell<u64>,
    /// The last mapping without a file that was found: its bounds, and the time in nanoseconds; 0 for none.
    anonymous: Cell<(usize, usize, u64)>,
}

/// A page that was found in memory.
#[derive(Clone, Copy)]
struct FoundPage {
    number: usize,
    /// The time in nanoseconds; 0 for none.
    time: u64,
    /// Whether the page belongs to a file, or is shared.
    has_file: bool,
}

/// The state of some pages, according to their entries in `/proc/self/pagemap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// Some of them are not in memory.
    Absent,
    /// All of them are in memory, some of them are pages of a file or shared.
    Present,
    /// All of them are in memory, and none is a page of a file or shared.
    Anonymous,
}

impl Found {
    const NONE: FoundPage = FoundPage { number: 0, time: 0, has_file: false };

    const fn new() -> Self {
        let pages = [const { Cell::new(Self::NONE) }; PAGES_FOUND];
        let anonymous = Cell::new((0, 0, 0));
        let [now, noted] = [const { Cell::new(0) }; 2];
        Self { pages, generation: Cell::new(0), now, noted, anonymous }
    }

    /// Begins a hit, or a lookup of pages outside of a hit.
    fn begin(&self) {
        self.now.set(0);
        self.noted.set(0);
    }

    /// Returns the time of the current hit. The first call in a hit reads the clock, unless the hit has read it already, and, in the child
    /// of a `fork`, forgets the pages of the parent.
    fn now(&self) -> u64 {
        if self.now.get() == 0 {
            let time = match self.noted.get() {
                0 => clock::now(libc::CLOCK_MONOTONIC).max(1),
                noted => noted,
            };
            self.now.set(time);
            let generation = identity::generation();
            if self.generation.replace(generation) != generation {
                self.pages.iter().for_each(|page| page.set(Self::NONE));
                self.anonymous.set((0, 0, 0));
            }
        }
        self.now.get()
    }

    /// Returns whether all these pages were found in memory recently.
    fn presence(&self, first: usize, last: usize) -> Presence {
        let now = self.now();
        let mut presence = Presence::Anonymous;
        for number in first..=last {
            let found = self.pages[number % PAGES_FOUND].get();
            let is_recent = found.time != 0 && now.saturating_sub(found.time) < RECENT;
            if found.number != number || !is_recent {
                return Presence::Absent;
            }
            if found.has_file {
                presence = Presence::Present;
            }
        }
        presence
    }

    /// Returns whether all these bytes are in one mapping without a file. Another process cannot truncate it. The entries of pages do
    /// not prove this: a page of a private mapping that was written to belongs to no file, but a truncation removes it, too.
    fn is_anonymous(&self, address: usize, length: usize) -> bool {
        let now = self.now();
        let within = |start: usize, end: usize| {
            start <= address && address.checked_add(length).is_some_and(|past| past <= end)
        };
        let (start, end, time) = self.anonymous.get();
        if time != 0 && now.saturating_sub(time) < RECENT && within(start, end) {
            return true;
        }
        let found = own_stack::mapping(address).filter(|found| !found.has_file);
        let Some(found) = found else { return false };
        self.anonymous.set((found.start, found.end, now));
        within(found.start, found.end)
    }

    /// Notes the entries of pages that the current hit has found in memory.
    fn add(&self, first: usize, entries: impl Iterator<Item = u64>) {
        let time = self.now();
        for (number, entry) in (first..).zip(entries) {
            let has_file = entry & FILE != 0;
            self.pages[number % PAGES_FOUND].set(FoundPage { number, time, has_file });
        }
    }
}

/// The memory that a hit has read.
struct Cache {
    /// Whether a read is using the cache. A signal handler that interrupts it does not touch the cache.
    is_busy: Cell<bool>,
    found: Found,
    /// The address and the number of the bytes that the cache holds.
    kept: Cell<(usize, usize)>,
    bytes: UnsafeCell<[u8; STACK_AHEAD]>,
}

thread_local! {
    /// The cache of the current hit. Neither allocated nor dropped, so signal handlers can use it.
    static CACHE: Cache = const {
        Cache {
            is_busy: Cell::new(false),
            found: Found::new(),
            kept: Cell::new((0, 0)),
            bytes: UnsafeCell::new([0; STACK_AHEAD]),
        }
    };
}

/// Reads the page size, opens the maps of pages and of mappings, and fetches the program's constants. Called before the first hit, and not in probe
/// context.
///
/// # Errors
/// One of the maps cannot be opened.
pub(crate) fn prepare() -> std::io::Result<()> {
    // SAFETY: returns a number and changes nothing.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    PAGE_SIZE.store(usize::try_from(size).unwrap_or(4096), Ordering::Release);
    PAGES.open()?;
    MAPS.open()?;
    Image::here().data().iter().for_each(fetch);
    Ok(())
}

/// Forgets what an earlier hit has read. Probe context.
pub(crate) fn begin_hit() {
    CACHE.with(|cache| {
        // A signal handler that interrupts a read begins and ends a hit of its own. It must not clear the cache, which
        // the interrupted read is using.
        if !cache.is_busy.get() {
            cache.forget();
        }
    });
}

/// Notes the time of the current hit (`CLOCK_MONOTONIC`), so that its reads need not ask for it. Probe context.
pub(crate) fn note_time(nanoseconds: u64) {
    CACHE.with(|cache| cache.found.noted.set(nanoseconds));
}

/// Forgets what the current hit has read, after the process may have changed it. Probe context.
pub(crate) fn forget_reads() {
    CACHE.with(|cache| {
        if !cache.is_busy.get() {
            cache.kept.set((0, 0));
        }
    });
}

/// Makes the kernel fetch all pages of a range, except those that cannot be read.
fn fetch(range: &Range<usize>) {
    let page = PAGE_SIZE.load(Ordering::Acquire).max(1);
    let mut byte = [0; 1];
    for address in (range.start & !(page - 1)..range.end).step_by(page) {
        copy(address.max(range.start), &mut byte);
    }
}

/// Reads the entries of pages from `first` on, and returns those of the pages, without a gap, that are in memory and have none of the
/// `forbidden` bits. Reads at most `count` and at most [`ENTRIES`] entries.
fn present(first: usize, count: usize, forbidden: u64) -> impl Iterator<Item = u64> + Clone {
    let mut bytes = [0; ENTRIES * size_of::<u64>()];
    let mut length = 0;
    // In a child that was made by `_Fork` or the bare system call, the file still describes its parent.
    if PAGES.is_of_this_process()
        && let Some(into) = bytes.get_mut(..count.min(ENTRIES) * size_of::<u64>())
    {
        length = PAGES.read_at(into, (first * size_of::<u64>()) as u64).unwrap_or(0);
    }
    let is_usable = move |entry: &u64| entry & PRESENT != 0 && entry & forbidden == 0;
    let entries = (0..length / size_of::<u64>()).map_while(move |index| {
        bytes.as_chunks().0.get(index).map(|entry| u64::from_ne_bytes(*entry))
    });
    entries.take_while(is_usable)
}

/// Returns the first and the last page of a range that is not empty. `None` if it ends above all addresses, or before [`prepare`].
fn pages(address: usize, length: usize) -> Option<(usize, usize)> {
    // A power of two. A shift takes a fraction of the time of a division, and by 64 bits, before `prepare`, there is none.
    let shift = PAGE_SIZE.load(Ordering::Acquire).trailing_zeros();
    let last = address.checked_add(length - 1)?;
    Some((address.checked_shr(shift)?, last.checked_shr(shift)?))
}

/// Returns the description of a range for the kernel.
fn range(address: usize, length: usize) -> libc::iovec {
    libc::iovec { iov_base: std::ptr::without_provenance_mut::<c_void>(address), iov_len: length }
}

/// Fills `into` from an address, and fetches pages if necessary. Returns `false` if some of it cannot be read.
fn copy(address: usize, into: &mut [u8]) -> bool {
    let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let from = range(address, into.len());
    let process = identity::process().cast_signed();
    // SAFETY: the kernel writes at most `into.len()` bytes to `into`, and checks the other address.
    let copied = unsafe { libc::process_vm_readv(process, &to, 1, &from, 1, 0) };
    usize::try_from(copied) == Ok(into.len())
}

impl Cache {
    fn forget(&self) {
        self.found.begin();
        self.kept.set((0, 0));
    }

    /// Fills `into` from an address, and caches up to `ahead` bytes from there on. Returns `false` if some of it cannot
    /// be read.
    fn read(&self, address: usize, into: &mut [u8], ahead: usize) -> bool {
        if self.is_busy.replace(true) {
            // A signal handler has interrupted a read.
            return are_present(address, into.len(), 0) && copy(address, into);
        }
        // Only signal handlers of this thread look at the flag.
        compiler_fence(Ordering::SeqCst);
        let is_read = self.read_alone(address, into, ahead);
        compiler_fence(Ordering::SeqCst);
        self.is_busy.set(false);
        is_read
    }

    /// Reads as [`read`](Self::read) does, while no other read of this thread uses the cache.
    fn read_alone(&self, address: usize, into: &mut [u8], ahead: usize) -> bool {
        // SAFETY: `is_busy` is set, so no other reference to the bytes exists: they are this thread's, and its handlers leave them alone.
        let bytes = unsafe { &mut *self.bytes.get() };
        let size = PAGE_SIZE.load(Ordering::Acquire).max(1);
        let is_borrowed = |hit: hit::Hit| hit.arguments.contains(address, into.len(), size);
        if hit::current().is_some_and(is_borrowed)
            && self.presence(address, into.len()) == Presence::Anonymous
            && self.found.is_anonymous(address, into.len())
        {
            // SAFETY: each of these pages contains memory that the site of this thread's hit borrows (`Arguments::contains`), and
            // the hit has not ended. They are in no mapping of a file, which another process could truncate (`is_anonymous`).
            unsafe { raw_load::copy(address, into) };
            return true;
        }
        let (start, length) = self.kept.get();
        let offset = address.wrapping_sub(start);
        if let Some(kept) =
            bytes.get(..length).and_then(|kept| kept.get(offset..)?.get(..into.len()))
        {
            into.copy_from_slice(kept);
            return true;
        }
        if self.presence(address, into.len()) == Presence::Absent {
            return false;
        }
        let ahead = ahead.min(size - (address & (size - 1)));
        let Some(bytes) = bytes.get_mut(..ahead).filter(|bytes| into.len() < bytes.len()) else {
            return copy(address, into);
        };
        self.kept.set((0, 0));
        if !copy(address, bytes) {
            return false;
        }
        self.kept.set((address, bytes.len()));
        into.copy_from_slice(&bytes[..into.len()]);
        true
    }

    /// Returns whether all pages of a range are in memory, and notes them.
    fn presence(&self, address: usize, length: usize) -> Presence {
        let Some((first, last)) = pages(address, length) else { return Presence::Absent };
        let count = last - first + 1;
        if count > ENTRIES {
            let is_present = are_present(address, length, 0);
            return if is_present { Presence::Present } else { Presence::Absent };
        }
        let known = self.found.presence(first, last);
        if known != Presence::Absent {
            return known;
        }
        let entries = present(first, count.max(ENTRIES_AHEAD), 0);
        if entries.clone().count() < count {
            return Presence::Absent;
        }
        self.found.add(first, entries);
        self.found.presence(first, last)
    }
}

/// Returns whether all pages of a range are in memory, none of them with a forbidden bit.
fn are_present(address: usize, length: usize, forbidden: u64) -> bool {
    let Some((mut page, last)) = pages(address, length) else { return false };
    while page <= last {
        let count = (last - page + 1).min(ENTRIES);
        if present(page, count, forbidden).count() < count {
            return false;
        }
        page += count;
    }
    true
}

/// Fills `into` from an address. Returns `false` if some of it cannot be read or is not in memory. Probe context.
pub(crate) fn read(address: u64, into: &mut [u8]) -> bool {
    let Ok(address) = usize::try_from(address) else { return false };
    if into.is_empty() {
        return true;
    }
    if Image::here().is_constant(address, into.len()) || own_stack::contains(address, into.len()) {
        // SAFETY: the range is within a read-only segment of the program's file, which stays mapped while the program runs, or within
        // this thread's stack above the stack pointer.
        unsafe { raw_load::copy(address, into) };
        return true;
    }
    CACHE.with(|cache| cache.read(address, into, AHEAD))
}

/// Returns this many words of a stack. `None` if they cannot be read or are not in memory. Probe context.
pub(crate) fn words<const COUNT: usize>(address: usize) -> Option<[usize; COUNT]> {
    let mut words = [[0; size_of::<usize>()]; COUNT];
    let is_read = CACHE.with(|cache| cache.read(address, words.as_flattened_mut(), STACK_AHEAD));
    is_read.then(|| words.map(usize::from_ne_bytes))
}

/// Copies all of `from` to an address. Returns `false` if some of it cannot be written or is not in memory; then some of it may have been
/// written. Probe context.
///
/// # Safety
/// The program tolerates that this memory changes: no Rust reference to it forbids the change.
pub(crate) unsafe fn write(from: &[u8], address: u64) -> bool {
    let Ok(address) = usize::try_from(address) else { return false };
    if from.is_empty() {
        return true;
    }
    // A write to a page that a userfaultfd write-protects would wait for the thread that handles it.
    if !are_present(address, from.len(), WRITE_PROTECTED) {
        return false;
    }
    forget_reads();
    let to = range(address, from.len());
    let from = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let process = identity::process().cast_signed();
    // SAFETY: the kernel reads `from` and checks the other address; the caller guarantees that the memory may change.
    let copied = unsafe { libc::process_vm_writev(process, &from, 1, &to, 1, 0) };
    usize::try_from(copied) == Ok(from.iov_len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_address_is_not_read() {
        prepare().unwrap();
        let text = *b"readable";
        let at = text.as_ptr().addr() as u64;
        let mut into = [0; 8];
        assert!(read(at, &mut into));
        assert_eq!(into, text);
        for nowhere in [0, 8, u64::MAX - 3, 0xffff_8000_0000_0000, 0x1234_5678_9abc_def0] {
            assert!(!read(nowhere, &mut into), "{nowhere:#x}");
            assert_eq!(words::<2>(nowhere as usize), None);
        }
    }

    #[test]
    fn a_range_is_read_as_a_whole_or_not_at_all() {
        const PAGE: usize = 65536;
        prepare().unwrap();
        // SAFETY: maps new pages, and makes the second unreadable.
        let pages = unsafe {
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(std::ptr::null_mut(), 2 * PAGE, libc::PROT_READ, kind, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(pages.add(PAGE), PAGE, libc::PROT_NONE), 0);
            // Fetches the page.
            pages.cast::<u8>().add(PAGE - 1).read_volatile();
            pages.addr()
        };
        let end = (pages + PAGE) as u64;
        assert!(read(end - 4, &mut [1; 4]));
        assert!(!read(end - 4, &mut [1; 5]) && !read(end, &mut [1; 1]));
        // SAFETY: no Rust value is in this page.
        assert!(!unsafe { write(&[1], end - 4) }, "the page is read-only");
        let mut array = [0; 3];
        // SAFETY: `array` is not borrowed.
        assert!(unsafe { write(b"abc", (&raw mut array).addr() as u64) });
        assert_eq!(std::hint::black_box(array), *b"abc");
    }

    /// A page that the process has not used yet would have to be fetched, so it is not read.
    #[test]
    fn pages_that_are_not_in_memory_are_not_fetched() {
        prepare().unwrap();
        // SAFETY: uses only pages that it has mapped.
        unsafe {
            let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let all = libc::PROT_READ | libc::PROT_WRITE;
            let pages = libc::mmap(std::ptr::null_mut(), 1 << 20, all, how, -1, 0).cast::<u8>();
            let at = |offset| (pages.addr() + offset) as u64;
            assert!(!read(at(0), &mut [0; 8]) && !write(&[1], at(0)));
            pages.write_volatile(7);
            let mut into = [0; 8];
            assert!(read(at(0), &mut into) && into[0] == 7);
            assert!(write(&[8], at(0)) && pages.read_volatile() == 8);
            assert!(!read(at(0), &mut vec![0; 1 << 20]), "only the first page is in memory");
            std::ptr::write_bytes(pages, 1, 1 << 20);
            assert!(read(at(1), &mut vec![0; (1 << 20) - 1]));
            assert_eq!(libc::munmap(pages.cast(), 1 << 20), 0);
            begin_hit();
            assert!(!read(at(0), &mut into));
        }
    }

    #[test]
    fn constants_are_fetched_before_they_are_used() {
        static LARGE: [u8; 1 << 18] = [7; 1 << 18];
        prepare().unwrap();
        let start = (&raw const LARGE).addr() as u64;
        for offset in (0..LARGE.len() as u64).step_by(4096) {
            let mut byte = [0];
            assert!(read(start + offset, &mut byte) && byte == [7], "{offset:#x}");
        }
    }

    /// Pages are remembered for a time, in one process, and as many as there is room for.
    #[test]
    fn pages_that_were_found_are_remembered_for_a_while() {
        identity::prepare();
        let found = Found::new();
        let has = |first, last| found.presence(first, last) != Presence::Absent;
        assert!(!has(0, 0) && !has(5, 6), "none was found");
        found.add(5, [PRESENT, PRESENT, PRESENT | FILE].into_iter());
        assert!(has(5, 7) && has(6, 6) && !has(5, 8) && !has(4, 5));
        assert_eq!(found.presence(5, 6), Presence::Anonymous);
        assert_eq!(found.presence(6, 7), Presence::Present);
        let now = found.now();
        found.now.set(now + RECENT - 1);
        assert!(has(5, 7));
        found.now.set(now + RECENT);
        assert!(!has(5, 5));
        found.add(5 + PAGES_FOUND, [PRESENT].into_iter());
        assert!(has(5 + PAGES_FOUND, 5 + PAGES_FOUND) && !has(5, 5));
        // In the child of a `fork`, which begins with a copy of the parent's list.
        found.generation.set(found.generation.get().wrapping_add(1));
        found.begin();
        assert!(!has(5 + PAGES_FOUND, 5 + PAGES_FOUND));
    }

    /// The memory that a hit has read is kept until the hit ends or writes.
    #[test]
    fn a_hit_sees_its_own_writes_and_a_new_hit_sees_all() {
        prepare().unwrap();
        let mut value = Box::new([1_u8; 600]);
        let at = (&raw mut value[0]).expose_provenance() as u64;
        let read_at = |offset| {
            let mut byte = [0];
            assert!(read(at + offset, &mut byte));
            byte[0]
        };
        begin_hit();
        assert_eq!((read_at(0), read_at(1), read_at(599)), (1, 1, 1));
        // SAFETY: `value` is not borrowed.
        assert!(unsafe { write(&[2; 600], at) });
        assert_eq!((read_at(0), read_at(1), read_at(599)), (2, 2, 2));
        std::hint::black_box(&mut value)[0] = 3;
        begin_hit();
        assert_eq!(read_at(0), 3);
    }

    /// A signal handler that interrupts a read can read memory, too, and does not change the cache.
    #[test]
    fn a_read_within_a_read_does_not_use_the_cache() {
        prepare().unwrap();
        let value = Box::new([5_u8; 64]);
        let at = (&raw const value[0]).expose_provenance() as u64;
        CACHE.with(|cache| {
            cache.kept.set((16, 8));
            cache.is_busy.set(true);
        });
        begin_hit();
        let mut bytes = [0; 8];
        assert!(read(at, &mut bytes) && bytes == [5; 8]);
        assert!(!read(16, &mut bytes), "the cached bytes do not belong to this read");
        CACHE.with(|cache| {
            assert_eq!((cache.kept.get(), cache.is_busy.get()), ((16, 8), true));
            cache.is_busy.set(false);
        });
    }
}
