//! Memory for modules, under a loader that is fuzzed: reserved and mapped ranges, and the code in them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use stand_in_base::image::{Image, MAX_SIZE, PAGE, Protection};

/// Address of the first module.
pub const MODULES: u64 = 0xffff_ffff_c000_0000;

/// The memory.
#[derive(Debug)]
pub struct Memory {
    next: Cell<u64>,
    /// The reserved ranges, by their base addresses.
    reserved: RefCell<BTreeMap<u64, usize>>,
    /// The mapped images, by their base addresses.
    mapped: RefCell<BTreeMap<u64, Mapped>>,
    /// No more memory can be mapped.
    pub full: Cell<bool>,
    /// Whether images may have empty segments: krtld keeps them, FreeBSD's loader leaves them out.
    allows_empty: bool,
}

/// An image that is mapped.
#[derive(Debug)]
struct Mapped {
    size: usize,
    /// Its code.
    code: Vec<Range<u64>>,
}

impl Memory {
    /// Creates memory of which nothing is reserved.
    pub const fn new(allows_empty: bool) -> Self {
        Self {
            next: Cell::new(MODULES),
            reserved: RefCell::new(BTreeMap::new()),
            mapped: RefCell::new(BTreeMap::new()),
            full: Cell::new(false),
            allows_empty,
        }
    }

    /// Checks that an image is mapped.
    pub fn assert_mapped(&self, base: u64, size: usize) {
        assert_eq!(self.mapped.borrow().get(&base).map(|mapped| mapped.size), Some(size));
    }

    /// Checks that an address is in code.
    pub fn assert_code(&self, address: u64) {
        let mapped = self.mapped.borrow();
        let mut code = mapped.values().flat_map(|mapped| &mapped.code);
        assert!(code.any(|code| code.contains(&address)), "{address:#x}");
    }

    /// Checks that nothing is mapped or reserved.
    pub fn assert_empty(&self) {
        assert!(self.mapped.borrow().is_empty());
        assert!(self.reserved.borrow().is_empty());
    }
}

impl stand_in_base::memory::Memory for Memory {
    fn reserve(&self, size: usize) -> Option<u64> {
        assert!(size.is_multiple_of(PAGE) && size <= MAX_SIZE);
        if self.reserved.borrow().is_empty() {
            self.next.set(MODULES);
        }
        let base = self.next.get();
        self.next.set(base + (size + PAGE) as u64);
        self.reserved.borrow_mut().insert(base, size);
        Some(base)
    }

    fn map(&self, image: &Image, _writable_code: bool) -> bool {
        assert_eq!(self.reserved.borrow().get(&image.base()), Some(&image.size()));
        assert!(self.allows_empty || image.segments().iter().all(|segment| segment.size != 0));
        check(image);
        if self.full.get() {
            return false;
        }
        let code = image
            .segments()
            .iter()
            .filter(|segment| segment.protection == Protection::Execute)
            .map(|segment| {
                let start = image.base() + segment.offset as u64;
                start..start + segment.size as u64
            })
            .collect();
        self.mapped.borrow_mut().insert(image.base(), Mapped { size: image.size(), code });
        true
    }

    fn unmap(&self, base: u64, size: usize) {
        let mapped = self.mapped.borrow_mut().remove(&base).expect("an image that is mapped");
        assert_eq!(mapped.size, size);
    }

    fn give_back(&self, base: u64) {
        assert!(!self.mapped.borrow().contains_key(&base));
        assert!(self.reserved.borrow_mut().remove(&base).is_some());
    }

    fn print(&self, line: fmt::Arguments<'_>) {
        assert!(!line.to_string().is_empty());
    }
}

/// Checks the properties of an image on which its mapping relies.
pub fn check(image: &Image) {
    assert_eq!(image.bytes().len(), image.size());
    let mut end = 0;
    for segment in image.segments() {
        assert_eq!(segment.offset, end);
        assert!(segment.offset.is_multiple_of(PAGE) && segment.size.is_multiple_of(PAGE));
        end += segment.size;
    }
    assert_eq!(end, image.size());
    let inside = |address: u64| (image.base()..=image.base() + end as u64).contains(&address);
    for address in [0, image.base(), image.base() + end as u64, u64::MAX] {
        assert!(image.read::<8>(address).is_none() || inside(address));
        assert!(image.text(address).is_none() || inside(address));
        assert!(!image.is_code(address) || inside(address));
    }
}
