//! What a module says of its probes where the kernel is told nothing but their names: on illumos's native route. `sdt-core`
//! knows whether that is the one; elsewhere nothing comes of it.

use dtrace_abi::limits::MAX_NAME;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use crate::names::Names;

/// What is said of a declared probe, in its provider's module, where `types` are those of its arguments.
pub(crate) fn declared(names: &Names, at: Span, types: &Ident) -> TokenStream {
    let Names { hash, described, .. } = names;
    let fits = fits(&quote!(__sdt), names, at);
    quote_spanned! { at=>
        #fits
        __sdt::__sdt_describe_declared!(#described, #hash, #types);
    }
}

/// What is said of an open provider's probe, where it fires. Its arguments are told apart from it.
pub(crate) fn open(sdt: &TokenStream, names: &Names, at: Span) -> TokenStream {
    let (fits, described) = (fits(sdt, names, at), &names.described);
    quote_spanned!(at=> #fits #sdt::__sdt_describe_open!(#described);)
}

/// Whether a name with its provider's in front is short enough, if that is how it is listed.
fn fits(sdt: &TokenStream, names: &Names, at: Span) -> Option<TokenStream> {
    (names.krtld_listed.len() > MAX_NAME).then(|| {
        quote_spanned!(at=> const _: () = #sdt::__private::check_listed::<{ #sdt::__private::LISTS_PROVIDERS }>();)
    })
}
