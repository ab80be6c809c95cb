//! `sdt_provider!(include "proc.d")`: declarations from a D provider file.

use std::path::PathBuf;
use std::{env, fs};

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use sdt_build::Providers;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, LitStr, Path, Result, Visibility};

use crate::{krate, provider};

/// `pub include "proc.d"`
pub(crate) struct Include {
    sdt: Path,
    vis: Visibility,
    file: LitStr,
}

impl Parse for Include {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let sdt = krate::in_front(input)?;
        let vis = input.parse()?;
        let include: Ident = input.parse()?;
        if include != "include" || !input.peek(LitStr) {
            return Err(Error::new(include.span(), "expected `include` and the name of a file"));
        }
        let file = input.parse()?;
        if !input.is_empty() {
            return Err(input.error("expected the end of the declaration"));
        }
        Ok(Self { sdt, vis, file })
    }
}

impl Include {
    /// Returns the providers of the file, and an item that makes the compiler read the file again when it changes.
    pub(crate) fn expand(&self) -> Result<TokenStream> {
        let at = self.file.span();
        let wrong = |message: String| Error::new(at, message);
        let path = self.path();
        let shown = self.file.value();
        let bytes = fs::read(&path).map_err(|error| wrong(format!("{shown}: {error}")))?;
        let (sdt, visibility) = (&self.sdt, self.vis.to_token_stream().to_string());
        let mut items = TokenStream::new();
        let providers = match Providers::text(&bytes).and_then(Providers::parse) {
            Ok(providers) => providers,
            Err(error) => {
                items.extend(wrong(format!("{shown}:{error}")).into_compile_error());
                self.stand_in(&String::from_utf8_lossy(&bytes), &mut items);
                return Ok(items);
            }
        };
        for declaration in providers.declarations(&visibility) {
            // The tokens get the span of the macro call, so that types are resolved there.
            let tokens: TokenStream = declaration.parse().map_err(|_| {
                wrong(format!(
                    "{shown}: sdt-build generated invalid Rust, which is a bug: \
                     {declaration}"
                ))
            })?;
            let tokens = at_call_site(tokens, Span::call_site());
            let in_file = |error| wrong(format!("{shown}: {error}"));
            let expanded =
                provider::expand_parsed(quote!(crate = #sdt; #tokens)).map_err(in_file)?;
            items.extend(expanded.module);
            items.extend(expanded.wrong.map(|error| in_file(error).into_compile_error()));
        }
        let tracked = path.to_string_lossy();
        items.extend(quote_spanned!(at=> const _: &[u8] = ::core::include_bytes!(#tracked);));
        Ok(items)
    }

    /// Returns providers without declarations for those that the file may have, so that an error in it causes no errors where
    /// they fire.
    fn stand_in(&self, text: &str, items: &mut TokenStream) {
        let (sdt, vis) = (&self.sdt, &self.vis);
        for name in Providers::names(text) {
            let ident = syn::parse_str::<Ident>(name).map(|mut ident| {
                ident.set_span(Span::call_site());
                ident
            });
            // An error in the name was reported already.
            let expanded =
                ident.and_then(|name| provider::expand_parsed(quote!(crate = #sdt; #vis #name)));
            items.extend(expanded.map(|expanded| expanded.module).unwrap_or_default());
        }
    }

    /// Returns the path of the file, relative to the file of the macro call, as in `include!`.
    fn path(&self) -> PathBuf {
        let path = PathBuf::from(self.file.value());
        let here = self.file.span().unwrap().local_file();
        let folder = here.and_then(|file| Some(file.parent()?.to_owned()));
        let folder = folder.or_else(|| env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from));
        let path = folder.unwrap_or_default().join(path);
        // The compiler resolves a relative path from the file of the macro call, too.
        path.canonicalize().unwrap_or(path)
    }
}

/// Returns the tokens with the span of the macro call.
fn at_call_site(tokens: TokenStream, at: Span) -> TokenStream {
    let tokens = tokens.into_iter().map(|mut token| {
        if let proc_macro2::TokenTree::Group(group) = &token {
            let mut inner =
                proc_macro2::Group::new(group.delimiter(), at_call_site(group.stream(), at));
            inner.set_span(at);
            return inner.into();
        }
        token.set_span(at);
        token
    });
    tokens.collect()
}
