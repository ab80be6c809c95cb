//! The description of a module's probes for illumos's native route, on which the kernel gets only their names. On other
//! routes, `sdt-core` discards it.

use dtrace_abi::limits::MAX_NAME;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use crate::names::Names;

/// Returns the description of a declared probe, for its provider's module. `types` are the types of its arguments.
pub(crate) fn declared(names: &Names, at: Span, types: &Ident) -> TokenStream {
    let Names { hash, described, .. } = names;
    let fits = fits(&quote!(__sdt), names, at);
    quote_spanned! { at=>
        #fits
        __sdt::__sdt!(@describe declared #described, #hash, #types);
    }
}

/// Returns the description of an open provider's probe for one site. Its arguments have a separate description.
pub(crate) fn open(sdt: &TokenStream, names: &Names, at: Span) -> TokenStream {
    let (fits, described) = (fits(sdt, names, at), &names.described);
    quote_spanned!(at=> #fits #sdt::__sdt!(@describe open #described);)
}

/// Returns the check of the length of a probe's name together with its provider's. `sdt-core` knows whether DTrace
/// lists the name in this form.
fn fits(sdt: &TokenStream, names: &Names, at: Span) -> Option<TokenStream> {
    (names.krtld_listed.len() > MAX_NAME).then(|| {
        quote_spanned!(at=> const _: () = #sdt::__private::check_listed::<{ #sdt::__private::LISTS_PROVIDERS }>();)
    })
}
