//! `sdt_enabled!(provider::*)` and `sdt_enabled!(provider::{a, b})`: whether any of several probes is enabled.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Ident, LitStr, Path, Result, Token, braced, bracketed};

use crate::{names, site};

/// First step: passes a path to several probes to the provider's own macro. `None` if the path names one probe.
pub(crate) fn forward(input: &TokenStream) -> Option<Result<TokenStream>> {
    let mut tokens: Vec<TokenTree> = input.clone().into_iter().collect();
    let members = tokens.pop()?;
    match &members {
        TokenTree::Punct(all) if all.as_char() == '*' => {}
        TokenTree::Group(list) if list.delimiter() == Delimiter::Brace => {}
        _ => return None,
    }
    let colons = tokens.split_off(tokens.len().saturating_sub(2));
    let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(of) if of.as_char() == ':');
    let path = match colons.len() == 2 && colons.iter().all(is_colon) {
        true => syn::parse2::<Path>(tokens.into_iter().collect()),
        false => {
            Err(Error::new(members.span(), "expected `provider::*` or `provider::{one, another}`"))
        }
    };
    Some(path.map(|path| {
        let all = matches!(members, TokenTree::Punct(_)).then(|| quote!(*));
        let members = all.unwrap_or_else(|| members.clone().into());
        quote_spanned!(path.span()=> #path::__sdt_probe! { #members [#path] })
    }))
}

/// The selected probes.
enum Members {
    All(Span),
    These(Vec<Ident>),
}

/// The input from the provider's macro.
struct Invocation {
    provider: String,
    /// Names in Rust and in DTrace; `None` if the provider is open.
    declared: Option<Vec<(Ident, String)>>,
    members: Members,
    path: Path,
}

impl Parse for Invocation {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let known;
        bracketed!(known in input);
        let provider = known.parse::<LitStr>()?.value();
        let mut declared = None;
        if known.peek(syn::token::Brace) {
            let probes;
            braced!(probes in known);
            let declared = declared.insert(Vec::new());
            while !probes.is_empty() {
                declared.push((probes.parse()?, probes.parse::<LitStr>()?.value()));
            }
        }
        let members = if input.peek(Token![*]) {
            Members::All(input.parse::<Token![*]>()?.span())
        } else {
            let list;
            let at = braced!(list in input).span.join();
            let these = Punctuated::<Ident, Token![,]>::parse_terminated(&list)?;
            if these.is_empty() {
                return Err(Error::new(at, "expected at least one probe"));
            }
            Members::These(these.into_iter().collect())
        };
        let path;
        bracketed!(path in input);
        Ok(Self { provider, declared, members, path: path.parse()? })
    }
}

/// Second step: the site.
pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let Invocation { provider, declared, members, path } = Invocation::parse.parse2(input)?;
    let at = match &members {
        Members::All(at) => *at,
        Members::These(these) => these[0].span(),
    };
    // Sorted and unique, so that all sites of the same members belong to one group.
    let mut probes: Vec<(String, Ident)> = match (members, declared) {
        (Members::All(at), None) => {
            let message = format!(
                "provider `{provider}` declares no list of probes, so `*` matches none: declare \
                 them, or name them here: `{provider}::{{one, another}}`"
            );
            return Err(Error::new(at, message));
        }
        (Members::All(at), Some(declared)) => {
            let found = declared.into_iter();
            let named = |(mut ident, name): (Ident, String)| {
                ident.set_span(at);
                (name, ident)
            };
            found.map(named).collect()
        }
        (Members::These(these), None) => {
            let named = these.into_iter().map(|ident| Ok((names::probe(&ident)?, ident)));
            named.collect::<Result<_>>()?
        }
        (Members::These(these), Some(declared)) => {
            let named = these.into_iter().map(|ident| {
                let found = declared.iter().find(|(of, _)| *of == ident);
                let message = || format!("provider `{provider}` has no probe `{ident}`");
                let (_, name) = found.ok_or_else(|| Error::new(ident.span(), message()))?;
                Ok((name.clone(), ident))
            });
            named.collect::<Result<_>>()?
        }
    };
    probes.sort();
    probes.dedup_by(|a, b| a.0 == b.0);
    let group: String = probes.iter().map(|(name, _)| format!("{name},")).collect();
    let listed = names::literal(&group, at);
    let each = probes.iter().map(|(_, probe)| quote!(#path::__sdt::sdt_enabled!(#path::#probe)));
    let promise = site::promise(&quote!(#path::__sdt), at);
    let ours = Span::mixed_site().located_at(at);
    Ok(quote_spanned! { ours=>
        {
            #promise
            #path::__sdt::__sdt_stap!(@group #path::__SDT_PROVIDER, #listed, [#(#each),*])
        }
    })
}
