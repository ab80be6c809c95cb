//! Conditions in a provider: `#[cfg(...)]` on a probe, `#[cfg_attr(...)]` anywhere.
//!
//! Only the compiler can evaluate them, in the crate that declares the provider, and it does so in the input of a
//! derive macro. Therefore a provider with conditions expands to a struct with one field for each probe, and the derive
//! macro creates the provider's module from the remaining fields. Nothing of the other probes remains, on any route.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::{
    Attribute, Data, DeriveInput, Error, Fields, Ident, Path, Result, Token, Visibility, braced,
};

use crate::krate;

/// A provider as in the source.
pub(crate) struct Unconfigured {
    /// The path of `sdt-core`.
    pub(crate) sdt: Path,
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) ident: Ident,
    /// The attributes and the declaration of each probe; `None` if the provider is open.
    pub(crate) probes: Option<Vec<(Vec<Attribute>, TokenStream)>>,
}

impl Parse for Unconfigured {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let sdt = krate::in_front(input)?;
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let ident: Ident = input.parse()?;
        let mut probes = None;
        if input.peek(syn::token::Brace) {
            let body;
            braced!(body in input);
            let mut declared = Vec::new();
            while !body.is_empty() {
                declared.push((body.call(Attribute::parse_outer)?, declaration(&body)?));
            }
            probes = Some(declared);
        } else if input.peek(Token![;]) {
            input.parse::<Token![;]>()?;
        }
        if !input.is_empty() {
            return Err(input.error(
                "expected the end of the declaration, or `{` and the provider's \
                 probes",
            ));
        }
        Ok(Self { sdt, attrs, vis, ident, probes })
    }
}

/// Parses all tokens up to a semicolon.
fn declaration(input: ParseStream<'_>) -> Result<TokenStream> {
    let mut tokens = TokenStream::new();
    loop {
        let end = input.peek(Token![;]);
        if input.is_empty() {
            return Err(input.error("expected `;`"));
        }
        input.parse::<TokenTree>()?.to_tokens(&mut tokens);
        if end {
            return Ok(tokens);
        }
    }
}

impl Unconfigured {
    /// Returns whether there are conditions on probes. A `#[cfg]` on the whole provider stays on its module.
    pub(crate) fn has_conditions(&self) -> bool {
        let is = |attr: &Attribute, name| attr.path().is_ident(name);
        let conditional = |attr: &Attribute| is(attr, "cfg") || is(attr, "cfg_attr");
        self.attrs.iter().any(|attr| is(attr, "cfg_attr"))
            || self.probes.iter().flatten().any(|(attrs, _)| attrs.iter().any(conditional))
    }
}

/// Returns the struct. The attribute `__sdt` contains the parts of the provider that fields cannot express.
pub(crate) fn ask(provider: &Unconfigured) -> TokenStream {
    let Unconfigured { sdt, attrs, vis, ident, probes } = provider;
    let carrier = format_ident!("__SdtProvider_{ident}");
    let fields = probes.as_ref().map(|probes| {
        let fields =
            probes.iter().map(|(attrs, declared)| quote!(#(#attrs)* #[__sdt(#declared)] ()));
        quote!((#(#fields),*))
    });
    quote! {
        #[derive(#sdt::__private::__SdtProvider)]
        #(#attrs)*
        #[__sdt(crate = #sdt; #vis #ident)]
        #[allow(dead_code, non_camel_case_types)]
        struct #carrier #fields;
    }
}

/// Returns the provider from which the struct was made, without the parts that are configured out.
pub(crate) fn answer(input: TokenStream) -> Result<Unconfigured> {
    let DeriveInput { mut attrs, data, .. } = syn::parse2(input)?;
    let head: Unconfigured = syn::parse2(take_carried(&mut attrs)?)?;
    let Data::Struct(data) = data else { return Err(not_ours()) };
    let probes = match data.fields {
        Fields::Unit => None,
        fields => Some(
            fields
                .into_iter()
                .map(|mut field| {
                    let declared = take_carried(&mut field.attrs)?;
                    Ok((field.attrs, declared))
                })
                .collect::<Result<_>>()?,
        ),
    };
    Ok(Unconfigured { attrs, probes, ..head })
}

/// Returns the contents of `__sdt`, and removes processed attributes.
fn take_carried(attrs: &mut Vec<Attribute>) -> Result<TokenStream> {
    attrs.retain(|attr| !attr.path().is_ident("cfg"));
    let carried = attrs.extract_if(.., |attr| attr.path().is_ident("__sdt")).next();
    let carried = carried.ok_or_else(not_ours)?;
    Ok(carried.meta.require_list()?.tokens.clone())
}

fn not_ours() -> Error {
    Error::new(Span::call_site(), "this attribute is internal to `sdt_provider!`")
}
