//! The functions that sites are in, by the symbols of the program's file.

use std::sync::OnceLock;

use sdt_core::ops::{FUNCTION_NAME_LEN, Name};
use sdt_core::site;

use crate::image::{Function, Image};

/// One for each site, in their order; of a stripped program none. The file is read when this is first asked for, once the
/// sites have been checked.
pub(crate) fn of_sites() -> &'static [Option<Function>] {
    static FUNCTIONS: OnceLock<Vec<Option<Function>>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        let sites: Vec<_> = site::all().iter().map(|site| site.patchpoint()).collect();
        Image::here().functions(&sites)
    })
}

/// The name of the function that a site is in, as a description can have it: demangled, without the hash. None if it does
/// not fit.
pub(crate) fn name(site: usize) -> Option<Name<FUNCTION_NAME_LEN>> {
    let at = site::all().binary_search_by_key(&site, |site| site.patchpoint()).ok()?;
    let (symbol, _) = of_sites().get(at)?.as_ref()?;
    Name::new(format!("{:#}", rustc_demangle::demangle(symbol)).as_bytes())
}
