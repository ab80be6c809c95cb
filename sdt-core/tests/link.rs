//! Each kind of invalid record.

use std::ops::Range;

use sdt_core::__private::link::{Records, find, link};
use sdt_core::__private::record::{ArgList, Args, Probe, Provider, Site};
use sdt_core::arg::Borrows;
use sdt_core::attach::AttachError;
use sdt_core::patch::Patcher;
use sdt_core::site::ENCODING;

/// A host that checks whether an address is in text.
struct Host(Range<usize>);

// SAFETY: nothing is enabled, so `store` is never called.
unsafe impl Patcher for Host {
    unsafe fn store(&self, address: usize, _: &[u8]) {
        panic!("{address:#x} was stored to");
    }

    fn synchronise(&self) {}

    fn is_text(&self, address: usize, length: usize) -> bool {
        self.0.contains(&address) && length <= self.0.end - address
    }
}

/// An image of one provider and two probes, whose text is some nops.
struct Image {
    text: &'static [u8],
    providers: &'static [Provider],
    probes: &'static [Probe],
}

impl Image {
    fn new() -> Self {
        let providers = vec![Provider::new(c"broken")].leak();
        let probe = |name| Probe::open(&providers[0], name);
        let probes = vec![probe(c"one"), probe(c"two")].leak();
        Self { text: ENCODING.nop.as_bytes().repeat(8).leak(), providers, probes }
    }

    fn address(&self, offset: usize) -> usize {
        self.text.as_ptr().expose_provenance() + offset
    }

    fn probe(&self, index: usize) -> usize {
        (&raw const self.probes[index]).expose_provenance()
    }

    /// Links sites, each with the address of its probe, its own address, and that of its cold block.
    fn link(&self, sites: &[[usize; 3]]) -> Result<&'static [Site], AttachError> {
        let sites = sites.iter().map(|&[probe, patchpoint, target]| {
            // SAFETY: on every target, a `Site` has four words in this order, of which any values are valid.
            unsafe { std::mem::transmute::<[usize; 4], Site>([probe, patchpoint, target, 0]) }
        });
        let sites = sites.collect::<Vec<_>>().leak();
        let (start, count) = (sites.as_ptr(), sites.len());
        self.link_all(self.probes, sites, &[])?;
        // SAFETY: the same records, which only `link` could change.
        Ok(unsafe { std::slice::from_raw_parts(start, count) })
    }

    fn link_all(
        &self,
        probes: &'static [Probe],
        sites: &'static mut [Site],
        arg_lists: &'static [ArgList],
    ) -> Result<(), AttachError> {
        let records = Records { providers: self.providers, probes, sites, arg_lists };
        let start = self.address(0);
        // SAFETY: all sites are in mapped memory, except those that the host says are not in its text.
        unsafe { link(records, &Host(start..start + self.text.len())) }
    }
}

#[test]
fn sites_are_found_by_their_places() {
    let image = Image::new();
    let length = ENCODING.nop.as_bytes().len();
    let place = |nop| image.address(nop * length);
    let sites = [[1, 6, 7], [0, 2, 7], [1, 0, 7]]
        .map(|[probe, nop, target]| [image.probe(probe), place(nop), place(target)]);
    let linked = image.link(&sites).unwrap();
    let places = |sites: &[Site]| sites.iter().map(Site::patchpoint).collect::<Vec<_>>();
    assert_eq!(places(linked), [place(0), place(2), place(6)]);
    // SAFETY: they are not linked again.
    let of_two: Vec<_> = unsafe { image.probes[1].linked_sites() }.map(Site::patchpoint).collect();
    assert_eq!(of_two, [place(0), place(6)]);
    assert!(std::ptr::eq(find(linked, place(2)).unwrap(), &linked[1]));
    assert!(find(linked, place(2) + 1).is_none() && find(linked, place(7)).is_none());
    assert!(find(&[], 0).is_none());
}

#[test]
fn a_site_outside_of_the_text_is_refused() {
    let image = Image::new();
    for patchpoint in [0, 16, usize::MAX, image.address(image.text.len() - 1)] {
        let error = image.link(&[[image.probe(0), patchpoint, image.address(0)]]).unwrap_err();
        assert_eq!(error, AttachError::SiteText { patchpoint });
    }
}

#[test]
fn a_site_without_a_cold_block_is_refused() {
    let image = Image::new();
    let patchpoint = image.address(0);
    // Targets at address 0, after the text, and in the site itself, where execution would loop for ever.
    for target in [0, image.address(image.text.len()), patchpoint, patchpoint + 1] {
        let error = image.link(&[[image.probe(0), patchpoint, target]]).unwrap_err();
        assert_eq!(error, AttachError::SiteTarget { patchpoint });
        assert!(error.to_string().contains(" is not at its recorded address"), "{error}");
    }
}

#[test]
fn two_sites_at_one_place_are_refused() {
    let image = Image::new();
    let (patchpoint, target) = (image.address(0), image.address(16));
    let sites = [0, 1].map(|probe| [image.probe(probe), patchpoint, target]);
    let error = image.link(&sites).unwrap_err();
    assert_eq!(error, AttachError::SiteOverlap { patchpoint });
    assert_eq!(
        error.to_string(),
        format!("two sites overlap at {patchpoint:#x}: the module is linked incorrectly")
    );
}

#[test]
fn a_probe_of_another_image_s_provider_is_refused() {
    let (image, other) = (Image::new(), Image::new());
    let probes =
        vec![Probe::open(&image.providers[0], c"one"), Probe::open(&other.providers[0], c"one")];
    let error = image.link_all(probes.leak(), &mut [], &[]).unwrap_err();
    assert_eq!(error, AttachError::ProbeProvider { index: 1 });
}

#[test]
fn arguments_of_another_image_s_probe_are_refused() {
    static PROVIDER: Provider = Provider::new(c"elsewhere");
    extern "C" fn probe() -> &'static Probe {
        static PROBE: Probe = Probe::open(&PROVIDER, c"one");
        &PROBE
    }
    extern "C" fn args() -> &'static Args {
        &Args { types: &[], borrows: Borrows::NOTHING }
    }
    let image = Image::new();
    let lists = vec![ArgList { probe, args }].leak();
    let error = image.link_all(image.probes, &mut [], lists).unwrap_err();
    assert_eq!(error, AttachError::ListProbe { index: 0 });
}
