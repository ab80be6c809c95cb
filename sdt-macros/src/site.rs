//! `sdt_probe!` and `sdt_enabled!`: a firing site.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, LitInt, LitStr, Path, Result, Token, bracketed};

use crate::names::Names;
use crate::{locals, names};

/// What a site is for.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// `sdt_probe!`
    Fire,
    /// `sdt_enabled!`
    Enabled,
}

/// First step: `path::to::provider::probe, args` goes to the provider's own macro.
pub(crate) fn forward(input: TokenStream, kind: Kind) -> Result<TokenStream> {
    let parse = |input: ParseStream<'_>| {
        let path: Path = input.parse()?;
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
        Ok((path, input.parse::<TokenStream>()?))
    };
    let (mut path, args) = parse.parse2(input)?;
    if kind == Kind::Enabled && !args.is_empty() {
        return Err(Error::new_spanned(args, "`sdt_enabled!` takes the probe only"));
    }
    let whole = path.clone();
    let probe = path.segments.pop().filter(|segment| segment.value().arguments.is_none());
    path.segments.pop_punct();
    let (Some(probe), false) = (probe, path.segments.is_empty()) else {
        return Err(Error::new_spanned(whole, "expected `provider::probe`"));
    };
    let probe = probe.into_value().ident;
    let kind = match kind {
        Kind::Fire => quote!(fire),
        Kind::Enabled => quote!(enabled),
    };
    Ok(quote_spanned!(whole.span()=> #path::__sdt_probe! { [#path] #probe #kind #args }))
}

/// A probe that its provider declares.
struct Declared {
    ident: Ident,
    /// As DTrace lists it.
    name: String,
    /// Number of arguments.
    takes: usize,
}

impl Parse for Declared {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let ident = input.parse()?;
        let name = input.parse::<LitStr>()?.value();
        Ok(Self { ident, name, takes: input.parse::<LitInt>()?.base10_parse()? })
    }
}

/// What the provider's macro hands on.
struct Site {
    provider: String,
    /// Its probes; `None`: open.
    declared: Option<Vec<Declared>>,
    path: Path,
    probe: Ident,
    kind: Kind,
    args: Vec<Expr>,
}

impl Parse for Site {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let declaration;
        bracketed!(declaration in input);
        let provider = declaration.parse::<LitStr>()?.value();
        let mut declared = None;
        if declaration.peek(syn::token::Brace) {
            let list;
            syn::braced!(list in declaration);
            let mut probes = Vec::new();
            while !list.is_empty() {
                probes.push(list.parse()?);
            }
            declared = Some(probes);
        } else {
            declaration.parse::<Ident>()?;
        }
        let path;
        bracketed!(path in input);
        let path = path.parse()?;
        let probe = input.parse()?;
        let kind = if input.parse::<Ident>()? == "fire" { Kind::Fire } else { Kind::Enabled };
        let args = Punctuated::<Expr, Token![,]>::parse_terminated(input)?.into_iter().collect();
        Ok(Self { provider, declared, path, probe, kind, args })
    }
}

/// Second step: the site itself.
pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let site: Site = syn::parse2(input)?;
    site.check()?;
    let names = site.names()?;
    let (record, items) = site.record(&names);
    let symbol = &names.krtld;
    let body = match site.kind {
        Kind::Fire => {
            let cold = site.cold(&record, &names);
            let count = Literal::usize_unsuffixed(site.args.len());
            quote! {
                ::sdt_core::__sdt_if_carried!(#count {
                    ::sdt_core::__sdt_site!(#record, #symbol, { #cold });
                });
            }
        }
        Kind::Enabled => quote! {
            let mut __sdt_enabled = false;
            ::sdt_core::__sdt_site!(#record, #symbol, { __sdt_enabled = true; });
            __sdt_enabled
        },
    };
    Ok(quote! {{
        #items
        #body
    }})
}

impl Site {
    /// A declared provider is closed: the probe must be one of its own, with that many arguments.
    fn check(&self) -> Result<()> {
        let (probe, given) = (&self.probe, self.args.len());
        if given > names::MAX_ARGS {
            let message = format!("a probe has at most {} arguments", names::MAX_ARGS);
            return Err(Error::new_spanned(&self.args[names::MAX_ARGS], message));
        }
        let Some(declared) = &self.declared else { return Ok(()) };
        let provider = &self.provider;
        let Some(found) = declared.iter().find(|declared| declared.ident == *probe) else {
            let known: Vec<_> = declared.iter().map(|known| format!("`{}`", known.ident)).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message =
                format!("provider `{provider}` declares no probe `{probe}`; it has {known}");
            return Err(Error::new(probe.span(), message));
        };
        let takes = found.takes;
        if self.kind == Kind::Fire && given != takes {
            let plural = if takes == 1 { "" } else { "s" };
            let message = format!(
                "probe `{provider}::{probe}` takes {takes} argument{plural}, {given} given"
            );
            return Err(Error::new(probe.span(), message));
        }
        Ok(())
    }

    /// The probe's names.
    fn names(&self) -> Result<Names> {
        let declared = self.declared.iter().flatten().find(|known| known.ident == self.probe);
        let name = match declared {
            Some(declared) => declared.name.clone(),
            None => names::probe(&self.probe)?,
        };
        Ok(Names::new(&self.provider, &name, self.probe.span()))
    }

    /// The path of the probe's record, and the items that make it in an open provider.
    fn record(&self, names: &Names) -> (Path, TokenStream) {
        let (path, probe) = (&self.path, &self.probe);
        if self.declared.is_some() {
            return (syn::parse_quote!(#path::#probe), TokenStream::new());
        }
        let Names { listed, text, symbol, .. } = names;
        let items = quote! {
            ::sdt_core::__sdt_open_probe!(
                __SDT_PROBE, #path::__SDT_PROVIDER, #listed, #text, #symbol
            );
        };
        (syn::parse_quote!(__SDT_PROBE), items)
    }

    /// The cold block: evaluate and fire.
    fn cold(&self, record: &Path, names: &Names) -> TokenStream {
        let mut args = self.args.clone();
        match locals::take_out(&mut args) {
            Some(locals) => self.cold_evaluated(record, names, &args, &locals),
            None => self.cold_inline(record, names, &args),
        }
    }

    /// The arguments as a tuple, checked against the declaration where there is one.
    fn tuple(&self, args: &[Expr]) -> TokenStream {
        if self.declared.is_some() {
            let (path, check) = (&self.path, format_ident!("__sdt_args_{}", self.probe));
            quote_spanned!(self.probe.span()=> #path::#check(#(#args),*))
        } else {
            let args = args
                .iter()
                .map(|arg| quote_spanned!(arg.span()=> ::sdt_core::__private::argument(#arg)));
            quote!((#(#args,)*))
        }
    }

    /// Evaluates the arguments for `then`, which finds their words in `__sdt_word_0` and so on. A `match`,
    /// because what the arguments borrow from temporaries lives to its end.
    fn with_words(&self, names: &Names, args: &[Expr], then: &TokenStream) -> TokenStream {
        let tuple = self.tuple(args);
        let held: Vec<_> = (0..args.len()).map(|i| format_ident!("__sdt_held_{i}")).collect();
        let words = words(args.len());
        let hash = &names.hash;
        let list = self
            .declared
            .is_none()
            .then(|| quote!(::sdt_core::__sdt_list_args!(__SDT_PROBE, #hash, __sdt_args);));
        quote! {
            match #tuple {
                __sdt_args => {
                    #list
                    let (#(#held,)*) = __sdt_args;
                    #(let #held = ::sdt_core::__private::Held::new(#held);)*
                    #(let #words = #held.word();)*
                    #then
                }
            }
        }
    }

    /// Cheap arguments: evaluated in the cold block.
    fn cold_inline(&self, record: &Path, names: &Names, args: &[Expr]) -> TokenStream {
        let count = Literal::usize_unsuffixed(args.len());
        let pushed = words(args.len()).into_iter().rev();
        let symbol = &names.krtld;
        let call = quote!(::sdt_core::__sdt_call!(#count, #record, #symbol, [#(#pushed)*]););
        self.with_words(names, args, &call)
    }

    /// Costly arguments: evaluated by a function of their own.
    fn cold_evaluated(
        &self,
        record: &Path,
        names: &Names,
        args: &[Expr],
        locals: &[locals::Local],
    ) -> TokenStream {
        let captures: Vec<_> =
            (0..locals.len()).map(|i| format_ident!("__sdt_capture_{i}")).collect();
        let named = locals.iter().map(|local| local.name.to_token_stream());
        let references = locals.iter().map(|local| &local.reference);
        let (list, borrowed) = (
            nest(&captures),
            nest(&captures.iter().map(|name| quote!(&#name)).collect::<Vec<_>>()),
        );
        let (words, symbol) = (words(args.len()), &names.krtld);
        let body = self.with_words(
            names,
            args,
            &quote! {
                // SAFETY: the probe's own record, and no more words than a probe has arguments.
                unsafe { __sdt_frame.fire(&#record, &[#(#words),*]) }
            },
        );
        quote! {
            #[allow(unused_imports)]
            use ::sdt_core::capture::{
                CaptureCopy as _, CaptureReference as _, CaptureUnique as _, Evaluate as _,
            };
            #(let #captures = (&::sdt_core::capture::Local(&#named)).__sdt_capture();)*
            // The parentheses stand where a local's name did.
            #[allow(unused_parens)]
            let () = #borrowed.evaluate(
                &|#list, __sdt_frame: ::sdt_core::capture::Frame| {
                    // SAFETY: captures of locals that live while the cold block runs.
                    #(let #references = unsafe { &*#captures };)*
                    #body
                },
                ::sdt_core::__sdt_landing!(#symbol),
            );
        }
    }
}

fn words(count: usize) -> Vec<Ident> {
    (0..count).map(|i| Ident::new(&format!("__sdt_word_{i}"), Span::call_site())).collect()
}

/// `(a, (b, ()))`
fn nest(captures: &[impl ToTokens]) -> TokenStream {
    captures.iter().rev().fold(quote!(()), |rest, capture| quote!((#capture, #rest)))
}
