//! The table of sites.
//!
//! Entries refer to each other by index plus one; 0 is none.

use core::sync::atomic::Ordering;

use dtrace_abi::function::{MAX_LEN, Window};

use crate::base::arena::Arena;
use crate::base::sync::{AtomicU32, UnsafeCell};
use crate::base::word::Word;

/// An instruction at the boundary of a function.
#[derive(Debug)]
pub(super) struct Site {
    address: Word,
    /// The bytes of the instruction; the last byte is their number, and its highest bit is set at a return.
    code: [Word; 2],
    /// The offset of the instruction in its function.
    offset: AtomicU32,
    /// The next site of the same bucket, or of the list of free or retired sites.
    next: AtomicU32,
    /// The next site of the same probe.
    sibling: AtomicU32,
    /// The index of its probe plus one.
    probe: AtomicU32,
}

/// A probe: the entry, or all returns, of the functions with a name.
#[derive(Debug)]
pub(super) struct Probe {
    /// The number of the probe while it is enabled, otherwise 0.
    pub(super) id: core::sync::atomic::AtomicU32,
    /// The first site of the probe; in a free entry, [`FREE`] and the next free entry.
    first: AtomicU32,
    /// The consumers that have sent it, a bit for each.
    owners: AtomicU32,
}

// Beside the two, a site has one bucket at most.
const _: () = assert!(size_of::<Site>() + size_of::<Probe>() + size_of::<AtomicU32>() <= 56);

/// The largest number of consumers that can own probes.
pub(super) const OWNERS: usize = u32::BITS as usize;

/// The bit of the byte behind the instruction that marks a return.
const IS_RETURN: u8 = 0x80;

/// The bit of a probe's first link that marks a free entry.
const FREE: u32 = 1 << 31;

/// The properties of a new site.
#[derive(Clone, Copy, Debug)]
pub(super) struct New<'a> {
    pub(super) address: u64,
    pub(super) code: &'a [u8],
    pub(super) window: Option<Window>,
    pub(super) offset: u32,
    pub(super) is_return: bool,
}

/// A copy of a site's instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code {
    bytes: [u8; MAX_LEN + 1],
}

impl Code {
    fn new(code: &[u8], is_return: bool) -> Self {
        let mut bytes = [0; MAX_LEN + 1];
        bytes.iter_mut().zip(code.iter().take(MAX_LEN)).for_each(|(to, from)| *to = *from);
        let length = code.len().min(MAX_LEN) as u8;
        bytes[MAX_LEN] = length | if is_return { IS_RETURN } else { 0 };
        Self { bytes }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let length = self.bytes[MAX_LEN] & !IS_RETURN;
        self.bytes.get(..length.into()).unwrap_or_default()
    }
}

impl Site {
    const fn new() -> Self {
        Self {
            address: Word::new(),
            code: [Word::new(), Word::new()],
            offset: AtomicU32::new(0),
            next: AtomicU32::new(0),
            sibling: AtomicU32::new(0),
            probe: AtomicU32::new(0),
        }
    }

    pub(super) fn address(&self) -> u64 {
        self.address.get()
    }

    pub(super) fn offset(&self) -> u32 {
        self.offset.load(Ordering::Relaxed)
    }

    pub(super) fn code(&self) -> Code {
        let mut bytes = [0; MAX_LEN + 1];
        for (to, from) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(&self.code) {
            *to = from.get().to_le_bytes();
        }
        Code { bytes }
    }

    pub(super) fn is_return(&self) -> bool {
        let [.., last] = self.code[1].get().to_le_bytes();
        last & IS_RETURN != 0
    }

    /// Returns the index of the site's probe; of no probe if the site is abandoned.
    pub(super) fn probe(&self) -> usize {
        (self.probe.load(Ordering::Relaxed) as usize).wrapping_sub(1)
    }
}

impl Probe {
    const fn new() -> Self {
        Self {
            id: core::sync::atomic::AtomicU32::new(0),
            first: AtomicU32::new(0),
            owners: AtomicU32::new(0),
        }
    }

    /// Adds an owner, the consumer at this index.
    pub(super) fn own(&self, consumer: usize) {
        self.owners.fetch_or(1 << (consumer % OWNERS), Ordering::Relaxed);
    }

    /// Returns whether the probe has no owner: all consumers that have sent it are closed.
    pub(super) fn is_left(&self) -> bool {
        self.owners.load(Ordering::Relaxed) == 0
    }

    /// Removes an owner; returns whether there is none now.
    pub(super) fn disown(&self, consumer: usize) -> bool {
        let bit = 1 << (consumer % OWNERS);
        self.owners.fetch_and(!bit, Ordering::Relaxed) & !bit == 0
    }
}

/// The lists of free entries, behind the framework's lock.
#[derive(Debug)]
struct Lists {
    free_site: u32,
    /// Removed sites that breakpoint handlers may still use.
    retired: u32,
    free_probe: u32,
    left: usize,
    /// The number of sites in the table without a probe.
    abandoned: usize,
}

/// The sites and probes.
pub(super) struct Sites {
    sites: &'static [Site],
    probes: &'static [Probe],
    /// The first site of each bucket. Their number is a power of two.
    buckets: &'static [AtomicU32],
    lists: UnsafeCell<Lists>,
}

// SAFETY: `lists` is used only by functions whose callers hold the framework's lock; the rest is atomic.
unsafe impl Sync for Sites {}

impl Sites {
    /// Allocates room for a number of sites; `None` if there is not enough memory.
    pub(super) fn new(arena: &mut Arena, sites: usize) -> Option<Self> {
        // Links have 31 bits, so more sites could not be linked.
        let count = u32::try_from(sites).ok().filter(|count| *count < FREE)?;
        let made = arena.slice(sites, |at| {
            let site = Site::new();
            site.next.store(if at + 1 < sites { at as u32 + 2 } else { 0 }, Ordering::Relaxed);
            site
        })?;
        let probes = arena.slice(sites, |at| {
            let probe = Probe::new();
            let next = if at + 1 < sites { at as u32 + 2 } else { 0 };
            probe.first.store(FREE | next, Ordering::Relaxed);
            probe
        });
        let Some(probes) = probes else {
            arena.free(made);
            return None;
        };
        let buckets = sites.max(2).next_power_of_two() / 2;
        let Some(buckets) = arena.slice(buckets, |_| AtomicU32::new(0)) else {
            arena.free(probes);
            arena.free(made);
            return None;
        };
        let first = count.min(1);
        let lists =
            Lists { free_site: first, retired: 0, free_probe: first, left: sites, abandoned: 0 };
        Some(Self {
            sites: made.leak(),
            probes: probes.leak(),
            buckets: buckets.leak(),
            lists: UnsafeCell::new(lists),
        })
    }

    fn site(&self, link: u32) -> Option<&Site> {
        self.sites.get((link as usize).wrapping_sub(1))
    }

    /// The bucket of an address.
    fn bucket(&self, address: u64) -> Option<&AtomicU32> {
        // Fibonacci hashing: the golden ratio of 2^64 spreads neighbouring addresses.
        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.buckets.get(hash as usize & self.buckets.len().wrapping_sub(1))
    }

    /// Returns the sites at an address. Probe context.
    pub(super) fn at(&self, address: u64) -> impl Iterator<Item = &Site> {
        let mut link = self.bucket(address).map_or(0, |first| first.load(Ordering::Acquire));
        core::iter::from_fn(move || {
            let site = self.site(link)?;
            link = site.next.load(Ordering::Acquire);
            Some(site)
        })
        .filter(move |site| site.address() == address)
    }

    /// Returns a probe by its index. Probe context.
    pub(super) fn probe(&self, index: usize) -> Option<&Probe> {
        self.probes.get(index)
    }

    /// Returns all probes with their indexes.
    pub(super) fn probes(&self) -> impl Iterator<Item = (usize, &Probe)> {
        let is_used =
            |(_, probe): &(usize, &Probe)| probe.first.load(Ordering::Relaxed) & FREE == 0;
        self.probes.iter().enumerate().filter(is_used)
    }

    /// Returns the sites of a probe.
    pub(super) fn of(&self, probe: &Probe) -> impl Iterator<Item = &Site> {
        let mut link = probe.first.load(Ordering::Relaxed);
        core::iter::from_fn(move || {
            let site = self.site(link)?;
            link = site.sibling.load(Ordering::Relaxed);
            Some(site)
        })
    }

    /// Runs `f` with the lists. The framework is locked.
    fn with_lists<R>(&self, f: impl FnOnce(&mut Lists) -> R) -> R {
        // SAFETY: all callers hold the framework's lock, and none calls another one from `f`.
        self.lists.with_mut(|lists| f(unsafe { &mut *lists }))
    }

    /// Returns the number of further sites for which there is room. The framework is locked, here and in all functions below.
    pub(super) fn left(&self) -> usize {
        self.with_lists(|lists| lists.left)
    }

    /// Returns whether sites are in the table without a probe.
    pub(super) fn has_abandoned(&self) -> bool {
        self.with_lists(|lists| lists.abandoned != 0)
    }

    /// Takes a free probe, and returns its index.
    pub(super) fn take_probe(&self) -> Option<usize> {
        self.with_lists(|lists| {
            let index = (lists.free_probe as usize).checked_sub(1)?;
            let probe = self.probes.get(index)?;
            lists.free_probe = probe.first.swap(0, Ordering::Relaxed) & !FREE;
            probe.owners.store(0, Ordering::Relaxed);
            Some(index)
        })
    }

    /// Frees the entry of a probe without sites.
    pub(super) fn free_probe(&self, index: usize) {
        self.with_lists(|lists| {
            let Some(probe) = self.probes.get(index) else { return };
            probe.first.store(FREE | lists.free_probe, Ordering::Relaxed);
            lists.free_probe = index as u32 + 1;
        });
    }

    /// Adds a site to a probe; `None` if there is no room.
    pub(super) fn add(&self, index: usize, new: &New<'_>) -> Option<&Site> {
        let probe = self.probes.get(index)?;
        let bucket = self.bucket(new.address)?;
        self.with_lists(|lists| {
            let link = lists.free_site;
            let site = self.site(link)?;
            lists.free_site = site.next.load(Ordering::Relaxed);
            lists.left -= 1;
            site.address.set(new.address);
            let Code { bytes } = Code::new(new.code, new.is_return);
            for (to, from) in site.code.iter().zip(bytes.as_chunks::<8>().0) {
                to.set(u64::from_le_bytes(*from));
            }
            site.offset.store(new.offset, Ordering::Relaxed);
            site.probe.store(index as u32 + 1, Ordering::Relaxed);
            site.sibling.store(probe.first.load(Ordering::Relaxed), Ordering::Relaxed);
            probe.first.store(link, Ordering::Relaxed);
            site.next.store(bucket.load(Ordering::Relaxed), Ordering::Relaxed);
            // Release: a handler that finds the site sees all of its fields.
            bucket.store(link, Ordering::Release);
            Some(site)
        })
    }

    /// Removes the sites of a probe from the table. Handlers may still read them until [`reclaim`](Self::reclaim). Sites for
    /// which `keep` is true stay in the table, without a probe: their breakpoints are still hit.
    pub(super) fn retire(&self, index: usize, keep: impl Fn(&Site) -> bool) {
        let Some(probe) = self.probes.get(index) else { return };
        let mut link = probe.first.swap(0, Ordering::Relaxed);
        while let Some(site) = self.site(link) {
            let next = site.sibling.load(Ordering::Relaxed);
            if keep(site) {
                site.sibling.store(0, Ordering::Relaxed);
                site.probe.store(0, Ordering::Relaxed);
                self.with_lists(|lists| lists.abandoned += 1);
                link = next;
                continue;
            }
            self.unlink(link, site);
            self.retire_site(link, site);
            link = next;
        }
    }

    /// Adds a site to the retired ones. It is neither in the table nor of a probe.
    fn retire_site(&self, link: u32, site: &Site) {
        self.with_lists(|lists| {
            // The list uses `sibling`, because handlers may still follow `next`.
            site.sibling.store(lists.retired, Ordering::Relaxed);
            lists.retired = link;
        });
    }

    /// Returns the sites in the table.
    pub(super) fn all(&self) -> impl Iterator<Item = &Site> {
        self.linked().map(|(_, site)| site)
    }

    /// Returns the sites in the table, each with its link.
    fn linked(&self) -> impl Iterator<Item = (u32, &Site)> {
        self.buckets.iter().flat_map(move |bucket| {
            let mut link = bucket.load(Ordering::Relaxed);
            core::iter::from_fn(move || {
                let this = link;
                let site = self.site(this)?;
                // Read before the caller removes the site.
                link = site.next.load(Ordering::Relaxed);
                Some((this, site))
            })
        })
    }

    /// Removes the sites for which `which` is true from the table, and from their probes. Handlers may still read them until
    /// [`reclaim`](Self::reclaim).
    pub(super) fn retire_each(&self, which: impl Fn(&Site) -> bool) {
        for (link, site) in self.linked().filter(|(_, site)| which(site)) {
            self.unlink(link, site);
            match self.probe(site.probe()) {
                Some(probe) => {
                    let mut place = &probe.first;
                    while place.load(Ordering::Relaxed) != link
                        && let Some(before) = self.site(place.load(Ordering::Relaxed))
                    {
                        place = &before.sibling;
                    }
                    place.store(site.sibling.load(Ordering::Relaxed), Ordering::Relaxed);
                }
                None => self.with_lists(|lists| lists.abandoned -= 1),
            }
            self.retire_site(link, site);
        }
    }

    /// Removes a site from its bucket. Its own `next` stays unchanged, for handlers that are reading the site.
    fn unlink(&self, link: u32, site: &Site) {
        let Some(mut place) = self.bucket(site.address()) else { return };
        loop {
            let at = place.load(Ordering::Relaxed);
            if at == link {
                place.store(site.next.load(Ordering::Relaxed), Ordering::Release);
                return;
            }
            let Some(before) = self.site(at) else { return };
            place = &before.next;
        }
    }

    /// Frees the retired sites. The caller has waited until every CPU has left the breakpoint handlers that could use
    /// them.
    pub(super) fn reclaim(&self) {
        self.with_lists(|lists| {
            while let Some(site) = self.site(lists.retired) {
                let link = lists.retired;
                lists.retired = site.sibling.load(Ordering::Relaxed);
                site.next.store(lists.free_site, Ordering::Relaxed);
                lists.free_site = link;
                lists.left += 1;
            }
        });
    }
}
