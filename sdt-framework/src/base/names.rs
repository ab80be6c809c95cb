//! Names of providers and probes that probe context can read. Each name of a probe is stored once, however many probes have it.

use core::ffi::CStr;

use dtrace_abi::name::Name;
use sdt_core::ops::{FUNCTION_NAME_LEN, MODULE_NAME_LEN, PROBE_NAME_LEN, PROVIDER_NAME_LEN};

use super::arena::Arena;
use super::links::List;
use super::pages::{Block, LARGEST, Pages, Place, Places, ROOM};

/// A provider's name.
pub(crate) type ProviderName = Name<PROVIDER_NAME_LEN>;

/// The part of a probe's description that a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Part {
    Module,
    Function,
    Name,
}

impl Part {
    /// All parts, in the order of a description.
    pub(crate) const ALL: [Self; 3] = [Self::Module, Self::Function, Self::Name];

    /// Returns the number of bytes for which a name must have room, including a 0.
    const fn limit(self) -> usize {
        match self {
            Self::Module => MODULE_NAME_LEN,
            Self::Function => FUNCTION_NAME_LEN,
            Self::Name => PROBE_NAME_LEN,
        }
    }
}

/// A stored name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct NameRef(Block);

/// The beginning of a stored name; its bytes follow. The layout is C's, because readers of dumps use it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Entry {
    /// The next name of the same bucket.
    next: Option<NameRef>,
    /// The probes that have the name. Of a module, only their number.
    uses: List,
    /// The number of bytes of the name.
    pub(crate) length: u8,
    part: Part,
}

/// The offset of the bytes of a name from its [`Entry`].
pub(crate) const TEXT: usize = core::mem::offset_of!(Entry, part) + 1;

const _: () = assert!(FUNCTION_NAME_LEN <= 256 && MODULE_NAME_LEN <= 256 && PROBE_NAME_LEN <= 256);
const _: () = assert!(TEXT + FUNCTION_NAME_LEN - 1 <= LARGEST && align_of::<Entry>() <= 8);
const _: () = assert!(size_of::<Option<NameRef>>() == size_of::<u32>());

/// The average number of bytes of a probe's names for which there is always room. Longer ones, on average, take the rest of
/// the memory.
const USUAL: usize = 32;

/// Returns the greatest number of pages for the names of this number of probes, and the number that is always there.
const fn pages(probes: usize) -> [usize; 2] {
    // Four of the longest functions fit a page, and twelve modules or names of probes.
    [probes / 2 + 2, probes.saturating_mul(USUAL).div_ceil(ROOM)]
}

/// The stored names, for probe context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameTable(Places);

impl NameTable {
    pub(crate) const fn none() -> Self {
        Self(Places::none())
    }

    /// Returns the bytes of a name. Probe context.
    ///
    /// # Safety
    /// A probe has the name as long as the result is used: the probe is live and its names are used in this probe context
    /// only, or the framework is locked.
    pub(crate) unsafe fn text<'a>(self, name: NameRef) -> &'a [u8] {
        // SAFETY: the name is used, as `# Safety` requires.
        let at = unsafe { self.0.at(name.0) };
        // SAFETY: `NameStore::add` has initialised the entry and the bytes, which do not change as long as a probe has the
        // name. Only the number of the bytes is read, because a thread may change the other fields at the same time.
        unsafe {
            let length = (&raw const (*at.cast::<Entry>()).length).read();
            core::slice::from_raw_parts(at.add(TEXT), length.into())
        }
    }

    /// Returns the addresses of the pages that contain the names, for dumps.
    pub(crate) const fn pages(self) -> &'static [Place] {
        self.0.list()
    }
}

/// The stored names. The framework's lock protects it.
#[derive(Debug)]
pub(crate) struct NameStore {
    pages: Pages,
    /// The first name of each bucket.
    buckets: &'static mut [Option<NameRef>],
}

impl NameStore {
    pub(crate) const fn none() -> Self {
        Self { pages: Pages::none(), buckets: &mut [] }
    }

    /// Returns the largest number of bytes that a store for this number of probes takes.
    pub(crate) const fn footprint(probes: usize) -> usize {
        let [most, kept] = pages(probes);
        Pages::footprint(most, kept).saturating_add(Arena::footprint::<Option<NameRef>>(probes))
    }

    /// Allocates a store for the names of this number of probes; `None` if there is no room.
    pub(crate) fn new(arena: &mut Arena, probes: usize) -> Option<Self> {
        let [most, kept] = pages(probes);
        let pages = Pages::new(arena, most, kept)?;
        Some(Self { pages, buckets: arena.slice(probes, |_| None)?.leak() })
    }

    /// Returns the part that probe context reads.
    pub(crate) const fn table(&self) -> NameTable {
        NameTable(self.pages.places())
    }

    /// Returns the bytes of a stored name.
    pub(crate) fn text(&self, name: NameRef) -> &[u8] {
        // SAFETY: names are removed with exclusive access to `self`, which is borrowed as long as the result is used.
        unsafe { self.table().text(name) }
    }

    fn entry(&self, name: NameRef) -> *mut Entry {
        // SAFETY: the callers have `self` borrowed, and write only if exclusively.
        unsafe { self.pages.places().at(name.0) }.cast()
    }

    fn bucket(&self, part: Part, text: &[u8]) -> usize {
        let hash = |hash: u32, byte: &u8| hash.wrapping_mul(31).wrapping_add((*byte).into());
        text.iter().fold(part as u32, hash) as usize % self.buckets.len().max(1)
    }

    /// Finds a name.
    pub(crate) fn find(&self, part: Part, text: &[u8]) -> Option<NameRef> {
        let mut next = *self.buckets.get(self.bucket(part, text))?;
        while let Some(name) = next {
            // SAFETY: a name in a bucket is initialised.
            let entry = unsafe { self.entry(name).read() };
            if entry.part == part && self.text(name) == text {
                break;
            }
            next = entry.next;
        }
        next
    }

    /// Returns the name with these bytes, and stores it if there is none; `None` if there is no room. Until a probe has it, the
    /// caller must [remove](Self::remove_unused) it if it does not use it.
    pub(crate) fn intern(&mut self, arena: &mut Arena, part: Part, text: &[u8]) -> Option<NameRef> {
        match self.find(part, text) {
            Some(name) => Some(name),
            None => self.add(arena, part, text),
        }
    }

    fn add(&mut self, arena: &mut Arena, part: Part, text: &[u8]) -> Option<NameRef> {
        let name = NameRef(self.pages.take(arena, TEXT + text.len())?);
        let bucket = self.bucket(part, text);
        let first = self.buckets.get_mut(bucket)?;
        let next = first.replace(name);
        let entry = Entry { next, uses: List::EMPTY, length: text.len() as u8, part };
        let at = self.entry(name);
        // SAFETY: the block is new, so no other code uses it. It is aligned to 8 bytes, and has room for the entry up to `TEXT`
        // and for the bytes. The entry's last bytes are padding, which the bytes overwrite: so they are written last.
        unsafe {
            let bytes = (&raw const entry).cast::<u8>();
            at.cast::<u8>().copy_from_nonoverlapping(bytes, TEXT);
            at.cast::<u8>().add(TEXT).copy_from_nonoverlapping(text.as_ptr(), text.len());
        }
        Some(name)
    }

    /// Returns the probes that have a name.
    pub(crate) fn uses(&self, name: NameRef) -> List {
        // SAFETY: the entry is initialised, and `self` is borrowed.
        unsafe { (&raw const (*self.entry(name)).uses).read() }
    }

    /// Sets the probes that have a name.
    pub(crate) fn set_uses(&mut self, name: NameRef, uses: List) {
        // SAFETY: the entry is initialised, the access to `self` is exclusive, and probe context does not read the field.
        unsafe { (&raw mut (*self.entry(name)).uses).write(uses) };
    }

    /// Removes a name that no probe has. No CPU reads it any more.
    pub(crate) fn remove_unused(&mut self, arena: &mut Arena, part: Part, name: NameRef) {
        if self.uses(name).len() != 0 {
            return;
        }
        let (bytes, bucket) = {
            let text = self.text(name);
            (TEXT + text.len(), self.bucket(part, text))
        };
        // SAFETY: the entry is initialised, and the access to `self` is exclusive.
        let next_of = |name| unsafe { (&raw const (*self.entry(name)).next).read() };
        let next = next_of(name);
        match self.buckets.get(bucket).copied().flatten() {
            Some(first) if first != name => {
                let all = core::iter::successors(Some(first), |at| next_of(*at));
                for before in all {
                    if next_of(before) == Some(name) {
                        // SAFETY: the entry is initialised, and the access to `self` is exclusive.
                        unsafe { (&raw mut (*self.entry(before)).next).write(next) };
                        break;
                    }
                }
            }
            _ => {
                if let Some(first) = self.buckets.get_mut(bucket) {
                    *first = next;
                }
            }
        }
        self.pages.free_block(arena, name.0, bytes);
    }
}

/// Returns the names of a probe as bytes; `None` if one is too long.
pub(crate) fn checked(names: [&CStr; 3]) -> Option<[&[u8]; 3]> {
    let fit = Part::ALL.iter().zip(names).all(|(part, name)| name.count_bytes() < part.limit());
    fit.then(|| names.map(CStr::to_bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Probes get names and lose them: each name is stored once while a probe has it, and its memory comes back.
        #[test]
        fn names_are_stored_once(steps in prop::collection::vec((any::<bool>(), 0..3usize, "[ab]{0,3}", 1..60usize), 0..200)) {
            let memory = vec![core::mem::MaybeUninit::uninit(); 1 << 16].leak();
            let mut arena = Arena::new(memory, |_| {});
            // Few buckets, so that names share them.
            let mut store = NameStore::new(&mut arena, 2).unwrap();
            let all = arena.left();
            let mut model: BTreeMap<(usize, Vec<u8>), (NameRef, usize)> = BTreeMap::new();
            for (adds, part, text, times) in steps {
                let text = text.repeat(times).into_bytes();
                let key = (part, text.clone());
                let part = Part::ALL[part];
                let found = store.find(part, &text);
                prop_assert_eq!(found, model.get(&key).map(|(name, _)| *name));
                if adds {
                    let Some(name) = store.intern(&mut arena, part, &text) else { continue };
                    prop_assert!(found.is_none_or(|found| found == name));
                    let mut uses = store.uses(name);
                    uses.count_in();
                    store.set_uses(name, uses);
                    model.entry(key).or_insert((name, 0)).1 += 1;
                } else if let Some((name, count)) = model.get_mut(&key) {
                    let mut uses = store.uses(*name);
                    uses.count_out();
                    store.set_uses(*name, uses);
                    store.remove_unused(&mut arena, part, *name);
                    *count -= 1;
                    if *count == 0 {
                        model.remove(&key);
                    }
                }
                for ((_, text), (name, count)) in &model {
                    prop_assert_eq!(store.text(*name), &text[..]);
                    prop_assert_eq!(store.uses(*name).len(), *count);
                }
            }
            for ((part, _), (name, _)) in model {
                store.set_uses(name, List::EMPTY);
                store.remove_unused(&mut arena, Part::ALL[part], name);
            }
            prop_assert_eq!(arena.left(), all);
        }
    }
}
