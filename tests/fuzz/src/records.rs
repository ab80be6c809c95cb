//! The walk over an image's records in `attach`: it finds every wrong record, and links right records as the model does.
//!
//! References and functions are valid, as every linker guarantees. Everything else is arbitrary: versions, the assignment of
//! records to each other, and all words of sites.

use std::cell::Cell;
use std::ffi::CStr;

use arbitrary::{Arbitrary, Unstructured};
use sdt_core::__private::link::{Records, find, link};
use sdt_core::__private::record::{ArgList, ArgTypes, Args, Probe, Provider, Site};
use sdt_core::arg::Tuple;
use sdt_core::attach::AttachError;
use sdt_core::patch::Patcher;
use sdt_core::patch::protocol::{Text, Tracepoint};
use sdt_core::site::{ENCODING, State};

/// The greatest number of records of a kind. In addition, one probe and one provider are in no set.
const MOST: usize = 8;
/// Bytes of text.
const TEXT: usize = 128;

const NAMES: [&CStr; 4] = [c"", c"one", c"two", c"three"];
static ARGS: [Args; 3] = [args::<(), 0>(), args::<(u8,), 1>(), args::<(u8, &CStr), 2>()];

/// The arguments of a tuple.
const fn args<T: Tuple<COUNT>, const COUNT: usize>() -> Args {
    Args { types: T::TYPES, borrows: T::BORROWS }
}

/// The records of an image. Indices are taken modulo the number of records.
#[derive(Debug, Arbitrary)]
struct Image {
    providers: Vec<ProviderRecord>,
    probes: Vec<ProbeRecord>,
    sites: Vec<SiteRecord>,
    arg_lists: Vec<(u8, u8)>,
    /// The positions of nops.
    nops: [u8; 8],
}

#[derive(Debug, Arbitrary)]
struct ProviderRecord {
    name: u8,
    version: Version,
}

#[derive(Debug, Arbitrary)]
struct ProbeRecord {
    provider: u8,
    name: u8,
    declared: Option<u8>,
    version: Version,
}

/// A record's first word: as a rule its size.
#[derive(Clone, Copy, Debug, Arbitrary)]
enum Version {
    Right,
    Usual,
    Wild(u32),
}

#[derive(Debug, Arbitrary)]
struct SiteRecord {
    probe: Address,
    patchpoint: Address,
    target: Address,
    link: Address,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
enum Address {
    Probe(u8),
    InProbe(u8, u8),
    Text(u8),
    Nop(u8),
    Wild(u64),
}

/// The positions of all parts while the target runs.
struct Memory {
    providers: Vec<Provider>,
    probes: Vec<Probe>,
    sites: Vec<Site>,
    arg_lists: Vec<ArgList>,
    text: Box<[Cell<u8>]>,
}

thread_local! {
    /// The probes. Each function of an argument list returns one of them.
    static PROBES: Cell<*const Probe> = const { Cell::new(std::ptr::null()) };
}

/// Runs the target.
///
/// # Panics
/// If an invalid record is accepted, a valid one is refused, or the tables are wrong.
pub fn run(input: &[u8]) {
    let Ok(image) = Image::arbitrary_take_rest(Unstructured::new(input)) else { return };
    let mut memory = Memory::new(&image);
    let problems = memory.problems();
    let first = memory.link();
    match first {
        Err(error) => assert!(problems.contains(&error), "{error} is none of {problems:?}"),
        Ok(()) => {
            assert_eq!(problems, []);
            memory.check_links();
            memory.patch();
        }
    }
    // A second attempt is possible.
    assert_eq!(memory.link(), first);
    PROBES.set(std::ptr::null());
}

/// Extends the lifetime of a reference.
///
/// # Safety
/// The referent is neither moved nor dropped while the reference is used.
unsafe fn forever<T: ?Sized>(what: &T) -> &'static T {
    // SAFETY: the caller guarantees that the referent outlives all uses.
    unsafe { &*std::ptr::from_ref(what) }
}

/// Overwrites the first word of a record, if the version requires it.
fn of_version<T>(version: Version, mut record: T) -> T {
    if let Version::Wild(version) = version {
        // SAFETY: records with a version begin with it, a `u32`.
        unsafe { (&raw mut record).cast::<u32>().write(version) };
    }
    record
}

impl Memory {
    fn new(image: &Image) -> Self {
        let text = vec![Cell::new(0x90); TEXT].into_boxed_slice();
        for &nop in &image.nops {
            let nop = usize::from(nop);
            for (byte, &of) in text.iter().skip(nop).zip(ENCODING.nop.as_bytes()) {
                byte.set(of);
            }
        }

        let mut providers: Vec<_> = image
            .providers
            .iter()
            .take(MOST)
            .map(|record| of_version(record.version, Provider::new(name(record.name))))
            .collect();
        providers.push(Provider::new(c"one"));
        // SAFETY: `providers` is complete, so its elements do not move. `Memory` drops them together with the probes, and
        // dropping a probe does not read them.
        let provider =
            |index: u8| unsafe { forever(&providers[usize::from(index) % providers.len()]) };
        let probe = |record: &ProbeRecord| match record.declared {
            Some(types) => {
                let args = &ARGS[usize::from(types) % ARGS.len()];
                Probe::declared(provider(record.provider), name(record.name), args)
            }
            None => Probe::open(provider(record.provider), name(record.name)),
        };
        let mut probes: Vec<_> = image
            .probes
            .iter()
            .take(MOST)
            .map(|record| of_version(record.version, probe(record)))
            .collect();
        probes.push(Probe::open(provider(0), c"one"));

        let nop = |index: u8| usize::from(image.nops[usize::from(index) % image.nops.len()]);
        let address = |address: Address| match address {
            Address::Probe(index) => {
                (&raw const probes[usize::from(index) % probes.len()]).expose_provenance()
            }
            Address::InProbe(index, offset) => {
                (&raw const probes[usize::from(index) % probes.len()]).addr() + usize::from(offset)
            }
            Address::Text(offset) => text.as_ptr().expose_provenance() + usize::from(offset),
            Address::Nop(index) => text.as_ptr().expose_provenance() + nop(index),
            Address::Wild(address) => address as usize,
        };
        let sites = image.sites.iter().take(MOST).map(|record| {
            let words = [record.probe, record.patchpoint, record.target, record.link].map(address);
            // SAFETY: a `Site` consists of four words on every target, which any values may have.
            unsafe { std::mem::transmute::<[usize; 4], Site>(words) }
        });
        let sites = sites.collect();
        let arg_lists = image.arg_lists.iter().take(MOST).map(|&(probe, types)| ArgList {
            probe: probe_function(usize::from(probe) % probes.len()),
            args: args_function(usize::from(types) % ARGS.len()),
        });
        let arg_lists = arg_lists.collect();
        Self { providers, probes, sites, arg_lists, text }
    }

    /// Returns the providers in the set: all except the last.
    fn providers(&self) -> &[Provider] {
        &self.providers[..self.providers.len() - 1]
    }

    /// Returns the probes in the set: all except the last.
    fn probes(&self) -> &[Probe] {
        &self.probes[..self.probes.len() - 1]
    }

    fn link(&mut self) -> Result<(), AttachError> {
        PROBES.set(self.probes.as_ptr());
        let sites = std::ptr::from_mut(&mut self.sites[..]);
        // SAFETY: the records do not move while any link refers to them, and no other thread
        // reads the sites.
        let records = unsafe {
            Records {
                providers: forever(self.providers()),
                probes: forever(self.probes()),
                sites: &mut *sites,
                arg_lists: forever(&self.arg_lists[..]),
            }
        };
        // SAFETY: `Memory::is_text` knows the bounds of the text, so that `link` refuses sites outside of it.
        unsafe { link(records, &*self) }
    }

    /// Returns all faults of the records. Their order depends on the walk.
    fn problems(&self) -> Vec<AttachError> {
        let mut problems = Vec::new();
        for (index, provider) in self.providers().iter().enumerate() {
            if version(provider) as usize != size_of::<Provider>() {
                problems.push(AttachError::Version { set: "linkme_SDT_PROVIDERS", index });
            }
        }
        for (index, probe) in self.probes().iter().enumerate() {
            if !probe.is_current() {
                problems.push(AttachError::Version { set: "linkme_SDT_PROBES", index });
            }
            if !self.providers().iter().any(|own| std::ptr::eq(own, probe.provider())) {
                problems.push(AttachError::ProbeProvider { index });
            }
        }
        for (index, list) in self.arg_lists.iter().enumerate() {
            PROBES.set(self.probes.as_ptr());
            if !self.probes().iter().any(|own| std::ptr::eq(own, (list.probe)())) {
                problems.push(AttachError::ListProbe { index });
            }
        }
        for probe in self.probes() {
            let mut types = self.types_of(probe);
            let first = types.next();
            if types.any(|types| Some(types) != first) {
                let (provider, name) = (probe.provider().name(), probe.name());
                problems.push(AttachError::Arguments { provider, name });
            }
        }
        for (index, site) in self.sites.iter().enumerate() {
            self.problems_of_site(index, site, &mut problems);
        }
        problems
    }

    fn problems_of_site(&self, index: usize, site: &Site, problems: &mut Vec<AttachError>) {
        let (patchpoint, nop) = (site.patchpoint(), ENCODING.nop.as_bytes());
        if !self.probes().iter().any(|own| std::ptr::eq(own, site.record())) {
            problems.push(AttachError::SiteProbe { patchpoint });
        }
        let offset = patchpoint.wrapping_sub(self.text.as_ptr().addr());
        let end = offset.saturating_add(nop.len());
        if self
            .text
            .get(offset..end)
            .is_none_or(|text| text.iter().map(Cell::get).ne(nop.iter().copied()))
        {
            problems.push(AttachError::SiteText { patchpoint });
        }
        let target = site.target().wrapping_sub(self.text.as_ptr().addr());
        if target >= TEXT || (offset..end).contains(&target) {
            problems.push(AttachError::SiteTarget { patchpoint });
        }
        let others = self.sites.iter().enumerate().filter(|&(other, _)| other != index);
        if others
            .map(|(_, other)| other.patchpoint())
            .any(|other| other.abs_diff(patchpoint) < nop.len())
        {
            problems.push(AttachError::SiteOverlap { patchpoint });
        }
    }

    /// The types that records and sites say the arguments of this logical probe have.
    fn types_of<'a>(&'a self, probe: &'a Probe) -> impl Iterator<Item = ArgTypes> + 'a {
        let declared = self.probes().iter().filter(|other| same(other, probe));
        let listed = self.arg_lists.iter().filter(|list| same((list.probe)(), probe));
        declared.filter_map(Probe::arg_types).chain(listed.map(|list| (list.args)().types))
    }

    /// The links that the walk has set.
    fn check_links(&self) {
        assert!(self.sites.is_sorted_by_key(Site::patchpoint));
        for site in &self.sites {
            let found = find(&self.sites, site.patchpoint());
            assert!(found.is_some_and(|found| std::ptr::eq(found, site)));
        }
        for probe in self.probes() {
            let primary = self.probes().iter().find(|other| same(other, probe));
            assert!(primary.is_some_and(|primary| std::ptr::eq(primary, probe.primary())));
            assert_eq!(probe.primary().arg_types(), self.types_of(probe).next());
            let own = self.sites.iter().filter(|site| {
                let of = self.probes().iter().find(|other| std::ptr::eq(*other, site.record()));
                of.is_some_and(|of| same(of, probe))
            });
            assert!(sites(probe).map(Site::patchpoint).eq(own.map(Site::patchpoint)));
        }
    }

    /// Patches all sites, and checks that they can be restored.
    fn patch(&self) {
        let before: Vec<_> = self.text.iter().map(Cell::get).collect();
        let text = Text { encoding: &ENCODING, patcher: self };
        let place =
            |site: &Site| Tracepoint { patchpoint: site.patchpoint(), target: site.target() };
        for probe in self.probes() {
            for goal in [State::Trap, State::Jump, State::Nop, State::Jump] {
                // SAFETY: `link` above linked the sites, and no CPU executes the text.
                unsafe { text.bring(sites(probe).map(place), goal) };
                // SAFETY: `link` above linked the sites, and no CPU executes the text.
                assert!(sites(probe).all(|site| unsafe { text.state(place(site)) } == goal));
            }
        }
        for probe in self.probes() {
            // SAFETY: as before.
            unsafe { text.bring(sites(probe).map(place), State::Nop) };
        }
        assert!(self.text.iter().map(Cell::get).eq(before));
    }
}

// SAFETY: `store` writes the given bytes to the given address, in text that no CPU executes.
unsafe impl Patcher for Memory {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        let offset = address - self.text.as_ptr().addr();
        for (to, &byte) in self.text[offset..offset + bytes.len()].iter().zip(bytes) {
            to.set(byte);
        }
    }

    fn synchronise(&self) {}

    fn is_text(&self, address: usize, length: usize) -> bool {
        let offset = address.wrapping_sub(self.text.as_ptr().addr());
        offset <= TEXT && length <= TEXT - offset
    }
}

// SAFETY: the target runs in one thread.
unsafe impl Sync for Memory {}

fn name(index: u8) -> &'static CStr {
    NAMES[usize::from(index) % NAMES.len()]
}

fn same(a: &Probe, b: &Probe) -> bool {
    (a.provider().name(), a.name()) == (b.provider().name(), b.name())
}

fn version(provider: &Provider) -> u32 {
    // SAFETY: all records begin with a `u32`.
    unsafe { std::ptr::from_ref(provider).cast::<u32>().read() }
}

/// A function that returns the probe of an index.
fn probe_function(index: usize) -> extern "C" fn() -> &'static Probe {
    extern "C" fn probe<const INDEX: usize>() -> &'static Probe {
        // SAFETY: `PROBES` is set before the walk, and points to more than `INDEX` probes.
        unsafe { &*PROBES.get().add(INDEX) }
    }
    const FUNCTIONS: [extern "C" fn() -> &'static Probe; MOST + 1] = [
        probe::<0>, probe::<1>, probe::<2>, probe::<3>, probe::<4>, probe::<5>, probe::<6>,
        probe::<7>, probe::<8>,
    ];
    FUNCTIONS[index]
}

/// A function that returns the arguments of an index.
fn args_function(index: usize) -> extern "C" fn() -> &'static Args {
    extern "C" fn args<const INDEX: usize>() -> &'static Args {
        &ARGS[INDEX]
    }
    const FUNCTIONS: [extern "C" fn() -> &'static Args; ARGS.len()] =
        [args::<0>, args::<1>, args::<2>];
    FUNCTIONS[index]
}

/// A linked probe's sites.
fn sites(probe: &Probe) -> impl Iterator<Item = &'static Site> + Clone {
    // SAFETY: the callers pass probes that `link` has linked.
    unsafe { probe.linked_sites() }
}
