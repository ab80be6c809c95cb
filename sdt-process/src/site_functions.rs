//! The functions that contain sites, according to the symbols of the program's file.

use std::sync::OnceLock;

use sdt_core::ops::{FUNCTION_NAME_LEN, Name};
use sdt_core::site;

use crate::image::{Function, Image};

/// Returns the function of each site, in the order of the sites; a stripped program has no functions. The first call
/// reads the program's file, and must come after `sdt_core` has checked the sites.
pub(crate) fn of_sites() -> &'static [Option<Function>] {
    static FUNCTIONS: OnceLock<Vec<Option<Function>>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        let sites: Vec<_> = site::all().iter().map(|site| site.patchpoint()).collect();
        Image::here().functions(&sites)
    })
}

/// Returns the name of the function that contains a site, demangled and without its hash, or `None` if it is too long for a description.
pub(crate) fn name(site: usize) -> Option<Name<FUNCTION_NAME_LEN>> {
    let at = site::all().binary_search_by_key(&site, |site| site.patchpoint()).ok()?;
    let (symbol, _) = of_sites().get(at)?.as_ref()?;
    Name::new(format!("{:#}", rustc_demangle::demangle(symbol)).as_bytes())
}
