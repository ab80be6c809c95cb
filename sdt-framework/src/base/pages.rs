//! Blocks of memory of several sizes, in pages of the arena.
//!
//! A page has a map of its free units. A block is taken from a page that has a run of free units for it, if possible from a page
//! without a longer run. A new page is allocated only if no page has such a run, and an empty page is returned to the arena. So
//! blocks of different sizes use each other's memory, and a page is lost only while it has a block.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::num::NonZeroU32;
use core::ptr::NonNull;

use super::arena::{Arena, Owned};

/// Bytes of a unit, and the alignment of a block.
pub(crate) const UNIT: usize = 8;
/// The units of a page, as a power of 2.
pub(crate) const SHIFT: u32 = 7;
const UNITS: usize = 1 << SHIFT;
/// The units at the beginning of a page that its head takes.
const HEAD: usize = size_of::<Head>().div_ceil(UNIT);
/// Bytes of a page that blocks can use.
pub(crate) const ROOM: usize = (UNITS - HEAD) * UNIT;
/// The largest number of units of a block.
const LONGEST: usize = 26;
/// Bytes of the largest block.
pub(crate) const LARGEST: usize = LONGEST * UNIT;

/// The state of a page. Only the owner of the pages reads and writes it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Head {
    /// A bit for each unit: 1 if it is free.
    free: [u64; 2],
    /// The neighbours in the list of pages with the same longest run: index plus one, or 0.
    next: u32,
    previous: u32,
}

#[derive(Debug)]
#[repr(C, align(8))]
pub(crate) struct Page {
    head: Head,
    units: [MaybeUninit<u64>; UNITS - HEAD],
}

const _: () = assert!(size_of::<Page>() == UNITS * UNIT && UNITS == u128::BITS as usize);

/// The address of a page, or null.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Place(UnsafeCell<*mut Page>);

// SAFETY: `Pages` writes the address, while no block of the page is used. The readers are threads that use a block of the page,
// and `Pages` itself, which needs exclusive access to write.
unsafe impl Sync for Place {}
// SAFETY: as above; the address is that of memory, which belongs to no thread.
unsafe impl Send for Place {}

/// A block: its page, and its first unit there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Block(NonZeroU32);

impl Block {
    fn new(page: usize, unit: u32) -> Option<Self> {
        NonZeroU32::new((page as u32) << SHIFT | unit).map(Self)
    }

    const fn page(self) -> usize {
        (self.0.get() >> SHIFT) as usize
    }

    const fn unit(self) -> u32 {
        self.0.get() % UNITS as u32
    }
}

/// The addresses of all pages, which probe context reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places(&'static [Place]);

impl Places {
    pub(crate) const fn none() -> Self {
        Self(&[])
    }

    /// Returns the address of a block, or null if its page does not exist. Probe context.
    ///
    /// # Safety
    /// The block is used, or was used in this probe context, or the caller has exclusive access to the [`Pages`].
    #[inline]
    pub(crate) unsafe fn at(self, block: Block) -> *mut u8 {
        let Some(place) = self.0.get(block.page()) else { return core::ptr::null_mut() };
        // SAFETY: `Pages` writes the address only with exclusive access, and not while a block of the page is used.
        let page = unsafe { *place.0.get() };
        page.cast::<u8>().wrapping_add(block.unit() as usize * UNIT)
    }

    /// Returns the list of addresses, for dumps.
    pub(crate) const fn list(self) -> &'static [Place] {
        self.0
    }
}

/// The blocks that are free, and the pages.
#[derive(Debug)]
pub(crate) struct Pages {
    places: Places,
    /// The first page of each longest run: index plus one, or 0. The last list also has the pages with longer runs.
    lists: [u32; LONGEST + 1],
    /// Memory for the pages that are never returned to the arena. They are the first.
    kept: NonNull<[MaybeUninit<Page>]>,
    /// No place before this one is free.
    from: usize,
}

// SAFETY: it owns the memory of the pages.
unsafe impl Send for Pages {}

/// Returns the length of the longest run of ones, at most [`LONGEST`].
fn longest(free: u128) -> usize {
    let (mut rest, mut length) = (free, 0);
    while rest != 0 && length < LONGEST {
        rest &= rest >> 1;
        length += 1;
    }
    length
}

/// Returns the first bit of the first run of ones of this length.
fn first_run(free: u128, length: usize) -> Option<u32> {
    let starts = (1..length).fold(free, |starts, distance| starts & free >> distance);
    (starts != 0).then(|| starts.trailing_zeros())
}

/// Returns a map in which the units of a block are ones.
const fn bits(unit: u32, units: usize) -> u128 {
    ((1 << units) - 1) << unit
}

/// The map of a page without blocks.
const EMPTY: u128 = bits(HEAD as u32, UNITS - HEAD);

impl Pages {
    pub(crate) const fn none() -> Self {
        let kept = NonNull::slice_from_raw_parts(NonNull::dangling(), 0);
        Self { places: Places::none(), lists: [0; _], kept, from: 0 }
    }

    /// Returns the largest number of bytes that this takes with only the pages that are kept.
    pub(crate) const fn footprint(most: usize, kept: usize) -> usize {
        Arena::footprint::<Place>(most).saturating_add(Arena::footprint::<Page>(kept))
    }

    /// Allocates the list of at most `most` pages, and memory for those that are kept; `None` if there is no room.
    pub(crate) fn new(arena: &mut Arena, most: usize, kept: usize) -> Option<Self> {
        let place = |_| Place(UnsafeCell::new(core::ptr::null_mut()));
        let places = Places(arena.slice(most, place)?.leak());
        Some(Self { places, kept: arena.uninit(kept)?.into_raw(), ..Self::none() })
    }

    /// Returns the addresses of the pages.
    pub(crate) const fn places(&self) -> Places {
        self.places
    }

    /// Takes a block of this number of bytes, at most [`LARGEST`]; `None` if there is no room.
    pub(crate) fn take(&mut self, arena: &mut Arena, bytes: usize) -> Option<Block> {
        let units = bytes.div_ceil(UNIT);
        let listed = self.lists.get(units..)?.iter().find(|first| **first != 0);
        let page = match listed {
            Some(first) => *first as usize - 1,
            None => self.add_page(arena)?,
        };
        let free = self.free(page)?;
        let unit = first_run(free, units)?;
        self.change(page, free & !bits(unit, units));
        Block::new(page, unit)
    }

    /// Frees a block of this number of bytes, which is not used any more.
    pub(crate) fn free_block(&mut self, arena: &mut Arena, block: Block, bytes: usize) {
        let page = block.page();
        let Some(free) = self.free(page) else { return };
        self.change(page, free | bits(block.unit(), bytes.div_ceil(UNIT)));
        if page >= self.kept.len() && self.free(page) == Some(EMPTY) {
            self.remove_page(arena, page);
        }
    }

    fn head(&self, page: usize) -> Option<NonNull<Head>> {
        let place = self.places.0.get(page)?;
        // SAFETY: only functions with exclusive access to `self` write the address.
        NonNull::new(unsafe { *place.0.get() }).map(NonNull::cast)
    }

    fn free(&self, page: usize) -> Option<u128> {
        // SAFETY: the head is initialised, and only functions with exclusive access to `self` write it.
        let [low, high] = unsafe { self.head(page)?.read() }.free;
        Some(u128::from(high) << 64 | u128::from(low))
    }

    /// Changes the head of a page, if the page exists.
    fn with_head(&mut self, page: usize, change: impl FnOnce(&mut Head)) {
        if let Some(mut head) = self.head(page) {
            // SAFETY: the head is initialised; the access to `self` is exclusive, and blocks do not overlap the head.
            change(unsafe { head.as_mut() });
        }
    }

    /// Sets the map of a page, and moves the page to the list of its longest run.
    fn change(&mut self, page: usize, free: u128) {
        let before = longest(self.free(page).unwrap_or(0));
        self.with_head(page, |head| head.free = [free as u64, (free >> 64) as u64]);
        let after = longest(free);
        if before != after {
            self.unlist(page, before);
            self.list(page, after);
        }
    }

    /// Puts a page into the list of its longest run. A full page is in no list.
    fn list(&mut self, page: usize, run: usize) {
        if run == 0 {
            return;
        }
        let link = page as u32 + 1;
        let next = core::mem::replace(&mut self.lists[run], link);
        self.with_head(page, |head| (head.next, head.previous) = (next, 0));
        if let Some(next) = (next as usize).checked_sub(1) {
            self.with_head(next, |head| head.previous = link);
        }
    }

    /// Removes a page from the list of its longest run.
    fn unlist(&mut self, page: usize, run: usize) {
        let Some(head) = self.head(page).filter(|_| run != 0) else { return };
        // SAFETY: the head is initialised, and only functions with exclusive access to `self` write it.
        let Head { next, previous, .. } = unsafe { head.read() };
        match (previous as usize).checked_sub(1) {
            Some(previous) => self.with_head(previous, |head| head.next = next),
            None => self.lists[run] = next,
        }
        if let Some(next) = (next as usize).checked_sub(1) {
            self.with_head(next, |head| head.previous = previous);
        }
    }

    fn add_page(&mut self, arena: &mut Arena) -> Option<usize> {
        let page = (self.from..self.places.0.len()).find(|page| self.head(*page).is_none())?;
        let head = Head { free: [EMPTY as u64, (EMPTY >> 64) as u64], next: 0, previous: 0 };
        let made = if page < self.kept.len() {
            // SAFETY: within the allocation, and no other page is there, because the place is free.
            let made: NonNull<Page> = unsafe { self.kept.cast().add(page) };
            // SAFETY: memory of the right layout, which only this uses. The rest of a page needs no initialisation.
            unsafe { made.cast().write(head) };
            made
        } else {
            arena.alloc(Page { head, units: [MaybeUninit::uninit(); _] })?.into_raw()
        };
        let place = self.places.0.get(page)?;
        // SAFETY: the access to `self` is exclusive, and the page has no blocks yet.
        unsafe { *place.0.get() = made.as_ptr() };
        self.from = page + 1;
        self.list(page, LONGEST);
        Some(page)
    }

    /// Returns an empty page to the arena.
    fn remove_page(&mut self, arena: &mut Arena, page: usize) {
        self.unlist(page, LONGEST);
        let Some(place) = self.places.0.get(page) else { return };
        // SAFETY: the access to `self` is exclusive, and no block of the page is used.
        let made = unsafe { place.0.get().replace(core::ptr::null_mut()) };
        if let Some(made) = NonNull::new(made) {
            // SAFETY: the page is not one of those that are kept, so `add_page` got the place from `into_raw`, and this has
            // removed its only copy; no block is used.
            arena.free(unsafe { Owned::from_raw(made) });
        }
        self.from = self.from.min(page);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arena(bytes: usize) -> Arena {
        Arena::new(vec![MaybeUninit::uninit(); bytes].leak(), |_| {})
    }

    fn pages_of(pages: &Pages) -> usize {
        (0..pages.places.0.len()).filter(|page| pages.head(*page).is_some()).count()
    }

    /// The bytes of a block, all of which have the same value.
    fn fill(pages: &Pages, block: Block, bytes: usize, value: u8) {
        // SAFETY: the test has taken the block, and has exclusive access to the pages.
        unsafe { pages.places().at(block).write_bytes(value, bytes) };
    }

    fn has(pages: &Pages, block: Block, bytes: usize, value: u8) -> bool {
        // SAFETY: the test has filled the block, and has exclusive access to the pages.
        let all = unsafe { core::slice::from_raw_parts(pages.places().at(block), bytes) };
        all.iter().all(|byte| *byte == value)
    }

    proptest! {
        /// Blocks of all sizes come and go: none overlaps another or a head, and a new page is taken only if no page has room.
        #[test]
        fn blocks_do_not_overlap(steps in prop::collection::vec((0..2u8, 1..=LARGEST, 0..64usize), 0..400)) {
            let mut arena = arena(1 << 16);
            let all = arena.left();
            let mut pages = Pages::new(&mut arena, 40, 1).unwrap();
            let made = arena.left();
            let mut blocks: Vec<(Block, usize, u8)> = Vec::new();
            for (number, (what, bytes, which)) in steps.into_iter().enumerate() {
                let value = number as u8;
                if what == 0 || blocks.is_empty() {
                    let units = bytes.div_ceil(UNIT);
                    let has_room = (0..40).any(|page| {
                        pages.free(page).is_some_and(|free| first_run(free, units).is_some())
                    });
                    let before = pages_of(&pages);
                    let block = pages.take(&mut arena, bytes).unwrap();
                    prop_assert_eq!(pages_of(&pages), before + usize::from(!has_room));
                    fill(&pages, block, bytes, value);
                    blocks.push((block, bytes, value));
                } else {
                    let (block, bytes, value) = blocks.swap_remove(which % blocks.len());
                    prop_assert!(has(&pages, block, bytes, value));
                    pages.free_block(&mut arena, block, bytes);
                }
                for (block, bytes, value) in &blocks {
                    prop_assert!(has(&pages, *block, *bytes, *value));
                }
            }
            for (block, bytes, _) in blocks.drain(..) {
                pages.free_block(&mut arena, block, bytes);
            }
            prop_assert!(pages_of(&pages) <= 1);
            prop_assert_eq!(arena.left(), made);
            prop_assert!(made < all);
            prop_assert!(pages.free(0).is_none_or(|free| free == EMPTY));
        }
    }

    #[test]
    fn a_full_arena_and_a_full_list_are_refused() {
        let mut small = arena(8 << 10);
        let mut pages = Pages::new(&mut small, 2, 0).unwrap();
        // Four of the largest blocks fit a page.
        let blocks: Vec<_> = (0..8).map(|_| pages.take(&mut small, LARGEST).unwrap()).collect();
        assert_eq!(pages.take(&mut small, LARGEST), None);
        // The rest of a page still has room for a small one.
        assert!(pages.take(&mut small, ROOM - 4 * LARGEST).is_some());
        pages.free_block(&mut small, blocks[5], LARGEST);
        assert_eq!(pages.take(&mut small, LARGEST), Some(blocks[5]));
        assert_eq!(pages.take(&mut small, LARGEST + 1), None);

        let mut tiny = arena(1 << 10);
        let mut pages = Pages::new(&mut tiny, 2, 0).unwrap();
        assert_eq!(pages.take(&mut tiny, 1), None);
    }
}
