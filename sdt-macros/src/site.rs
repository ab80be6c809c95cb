//! Expands `sdt_probe!` and `sdt_enabled!`: a firing site.

use dtrace_abi::limits::ARGS;
use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, LitInt, LitStr, Path, Result, Token, bracketed};

use crate::names::Names;
use crate::{describe, group, locals, names, unknown};

/// The purpose of a site.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// `sdt_probe!`
    Fire,
    /// `sdt_enabled!`
    Enabled,
}

/// First step: hands `path::to::provider::probe, args` to the provider's own macro.
pub(crate) fn forward(input: TokenStream, kind: Kind) -> Result<TokenStream> {
    if kind == Kind::Enabled
        && let Some(forwarded) = group::forward(&input)
    {
        return forwarded;
    }
    let parse = |input: ParseStream<'_>| {
        let path: Path = input.parse()?;
        if input.peek(Token![-]) {
            return Err(as_listed(&path, input)?);
        }
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
        Ok((path, input.parse::<TokenStream>()?))
    };
    let (mut path, args) = parse.parse2(input)?;
    if kind == Kind::Enabled && !args.is_empty() {
        return Err(Error::new_spanned(
            args,
            "`sdt_enabled!` takes only the probe, without arguments",
        ));
    }
    let whole = path.clone();
    let probe = path.segments.pop().filter(|segment| segment.arguments.is_none());
    path.segments.pop_punct();
    let (Some(probe), false) = (probe, path.segments.is_empty()) else {
        return Err(Error::new_spanned(whole, "expected `provider::probe`"));
    };
    let probe = probe.ident;
    let kind = match kind {
        Kind::Fire => quote!(fire),
        Kind::Enabled => quote!(enabled),
    };
    Ok(quote_spanned!(whole.span()=> #path::__sdt_probe! { #probe #probe [#path] #kind #args }))
}

/// Returns the error for a probe that is named as DTrace lists it. `path` is the beginning of that name.
fn as_listed(path: &Path, input: ParseStream<'_>) -> Result<Error> {
    let mut name = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
    while input.parse::<Option<Token![-]>>()?.is_some() {
        name = format!("{name}-{}", Ident::parse_any(input)?);
    }
    let message = format!(
        "`{name}` is the name in DTrace; in Rust the probe is `{}`",
        name.replace('-', "_")
    );
    Ok(Error::new_spanned(path, message))
}

/// The provider's knowledge of the probe.
enum Known {
    /// Its provider is open.
    Open,
    /// Its provider declares it.
    Declared {
        /// Its name as DTrace lists it.
        name: String,
        /// Number of arguments.
        takes: usize,
        /// The [unique name](crate::provider::place) of the provider.
        unique: String,
    },
}

/// The input that the provider's macro hands on.
struct Invocation {
    provider: String,
    known: Known,
    path: Path,
    probe: Ident,
    kind: Kind,
    args: Vec<Expr>,
}

impl Parse for Invocation {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let declaration;
        bracketed!(declaration in input);
        let provider = declaration.parse::<LitStr>()?.value();
        let known = if declaration.is_empty() {
            Known::Open
        } else if declaration.peek(LitStr) {
            let name = declaration.parse::<LitStr>()?.value();
            let takes = declaration.parse::<LitInt>()?.base10_parse()?;
            Known::Declared { name, takes, unique: declaration.parse::<LitStr>()?.value() }
        } else {
            return Err(unknown::error(&provider, &declaration, input)?);
        };
        let probe = input.parse()?;
        let path;
        bracketed!(path in input);
        let path = path.parse()?;
        let kind = if input.parse::<Ident>()? == "fire" { Kind::Fire } else { Kind::Enabled };
        let args = Punctuated::<Expr, Token![,]>::parse_terminated(input)?.into_iter().collect();
        Ok(Self { provider, known, path, probe, kind, args })
    }
}

/// Quotes tokens at `$at`. No other code can name their locals.
macro_rules! hygienic {
    ($at:expr => $($tokens:tt)*) => {{
        let span = Span::mixed_site().located_at($at);
        quote_spanned!(span=> $($tokens)*)
    }};
}

/// Returns the constant to which the assembly of `sdt-core`'s macros refers. It promises that their operands are right, and is
/// defined once for each site and each provider, before they are used.
pub(crate) fn promise(sdt: &impl ToTokens, at: Span) -> TokenStream {
    hygienic! { at =>
        #[allow(dead_code)]
        // SAFETY: these macros give records, symbols and words of the same probe to each macro of `sdt-core`.
        const __SDT_PROMISE: #sdt::__private::Promise = unsafe { #sdt::__private::Promise::made() };
    }
}

/// Second step: the site itself.
pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let site: Invocation = syn::parse2(input)?;
    site.check()?;
    let names = site.names()?;
    let (record, items) = site.record(&names);
    let (sdt, symbol, carried) = (site.sdt(), &names.krtld, site.carried());
    let (promise, stap) = (promise(&sdt, site.probe.span()), &names.stap);
    let at = site.probe.span();
    let fired = match site.kind {
        Kind::Fire => site.cold(&record, &names),
        Kind::Enabled => hygienic!(at => enabled = true;),
    };
    let made = hygienic! { at =>
        #sdt::__sdt_leave! { @code
            #items
            #sdt::__sdt_stap!(@site #record, #symbol, [#stap], { #fired });
        }
    };
    Ok(match site.kind {
        Kind::Fire => quote!({ #promise #carried #made }),
        Kind::Enabled => hygienic!(at => { #promise let mut enabled = false; #made enabled }),
    })
}

impl Invocation {
    /// Returns the path of `sdt-core` as the provider names it; the crate that fires may not depend on `sdt-core`.
    fn sdt(&self) -> TokenStream {
        let path = &self.path;
        quote!(#path::__sdt)
    }

    /// Checks the number of arguments: at most as many as a probe can have, and for a declared probe the declared number.
    fn check(&self) -> Result<()> {
        let (provider, probe, given) = (&self.provider, &self.probe, self.args.len());
        if given > ARGS {
            let message = format!("a probe can have at most {} arguments", ARGS);
            return Err(Error::new_spanned(&self.args[ARGS], message));
        }
        if let Known::Declared { takes, .. } = self.known
            && self.kind == Kind::Fire
            && given != takes
        {
            let plural = if takes == 1 { "" } else { "s" };
            let message = format!(
                "probe `{provider}::{probe}` takes {takes} argument{plural}, {given} given"
            );
            return Err(Error::new(probe.span(), message));
        }
        Ok(())
    }

    /// Returns the probe's names.
    fn names(&self) -> Result<Names> {
        let name = match &self.known {
            Known::Declared { name, .. } => name.clone(),
            Known::Open => names::probe(&self.probe)?,
        };
        Ok(Names::new(&self.provider, &name, self.probe.span()))
    }

    fn is_open(&self) -> bool {
        matches!(self.known, Known::Open)
    }

    /// Returns the path of the probe's record, and for an open provider the items that define it.
    fn record(&self, names: &Names) -> (Path, TokenStream) {
        let (path, probe, sdt) = (&self.path, &self.probe, self.sdt());
        if let Known::Declared { unique, .. } = &self.known {
            let record = names::record(probe, unique);
            return (syn::parse_quote!(#path::#record), TokenStream::new());
        }
        let Names { listed, text, symbol, .. } = names;
        let described = describe::open(&sdt, names, probe.span());
        let items = quote! {
            #sdt::__sdt!(
                @open __SDT_PROBE, #path::__SDT_PROVIDER, #listed, #text, #symbol
            );
            #described
        };
        (syn::parse_quote!(__SDT_PROBE), items)
    }

    /// Returns the check that the route carries the arguments, for an open provider's probe with more arguments than every
    /// route carries. The declaration of a declared probe has the same check.
    fn carried(&self) -> Option<TokenStream> {
        let (count, sdt) = (self.args.len(), self.sdt());
        (self.is_open() && count > names::ALWAYS_CARRIED).then(|| {
            let span = self.args[names::ALWAYS_CARRIED].span();
            quote_spanned!(span=> const _: () = #sdt::__private::check_carried::<#count>();)
        })
    }

    /// Returns the cold block, which evaluates the arguments and fires.
    fn cold(&self, record: &Path, names: &Names) -> TokenStream {
        let mut args = self.args.clone();
        match locals::take_out(&mut args) {
            Some(locals) => self.cold_evaluated(record, names, &args, &locals),
            None => self.cold_inline(record, names, &args),
        }
    }

    /// Returns code that evaluates the arguments and then runs `then`. In `then`, variables hold the words of the arguments, up
    /// to the greatest possible number of words, and `count` is the actual number. The code is a `match`, because temporaries
    /// that the arguments borrow live to its end.
    fn with_words(&self, names: &Names, args: &[Expr], then: &TokenStream) -> TokenStream {
        let at = self.probe.span();
        let carried = numbered("carried", args.len());
        let flat = self.flat(&carried);
        let Known::Declared { unique, .. } = &self.known else {
            let (sdt, hash) = (self.sdt(), &names.hash);
            // The error for a type that cannot be carried points to the argument if there is only one.
            let blamed = if let [arg] = args { arg.span() } else { at };
            let tuple = hygienic!(blamed => (#(#args,)*));
            return hygienic! { at =>
                #sdt::__sdt!(@open_site __SdtSite, __SDT_PROBE, #hash);
                match #sdt::__private::open::list_args::<__SdtSite, _, _>(&#tuple) {
                    [#(#carried),*] => { #flat #then }
                }
            };
        };
        let (path, check) = (&self.path, names::check(&self.probe));
        let tuple = quote_spanned!(at=> #path::#check(#(#args),*));
        let of = names::words(&self.probe, unique);
        hygienic! { at =>
            match &#tuple {
                arguments => {
                    let [#(#carried),*] = #path::#of(arguments);
                    #flat
                    #then
                }
            }
        }
    }

    /// Lists the words of all arguments. Some arguments have two.
    fn flat(&self, carried: &[Ident]) -> TokenStream {
        let at = self.probe.span();
        let starts = numbered("start", carried.len());
        let before =
            starts.iter().zip(carried).map(|(start, of)| hygienic!(at => #start + #of.count()));
        let before = std::iter::once(hygienic!(at => 0)).chain(before).collect::<Vec<_>>();
        let (begin, end) = before.split_at(carried.len());
        let words = words(most_words(carried.len()));
        let values = (0..words.len()).map(|index| {
            let literal = Literal::usize_unsuffixed(index);
            // Each earlier argument has one or two words.
            let candidates = (index.saturating_sub(1)).div_ceil(2)..carried.len().min(index + 1);
            let none = hygienic!(at => 0);
            candidates.fold(none, |other, i| {
                let (of, start) = (&carried[i], &starts[i]);
                hygienic!(at => #of.at(#start, #literal, #other))
            })
        });
        hygienic! { at =>
            #(let #starts: ::core::primitive::usize = #begin;)*
            let count: ::core::primitive::usize = #(#end)*;
            #(let #words: ::core::primitive::u64 = #values;)*
        }
    }

    /// Returns a cold block that evaluates cheap arguments itself.
    fn cold_inline(&self, record: &Path, names: &Names, args: &[Expr]) -> TokenStream {
        let (sdt, symbol) = (self.sdt(), &names.krtld);
        let at = self.probe.span();
        let calls = self.for_each_count(args.len(), |count| {
            let (note, pushed) = (self.note(names, count), words(count).into_iter().rev());
            let count = Literal::usize_unsuffixed(count);
            hygienic! { at =>
                #note
                #sdt::__sdt_arch!(@call #count, #record, #symbol, [#(#pushed)*]);
            }
        });
        self.with_words(names, args, &calls)
    }

    /// Expands `then` for each possible number of words. Only the compiler knows the number, so it keeps one of the
    /// expansions.
    fn for_each_count(&self, args: usize, then: impl Fn(usize) -> TokenStream) -> TokenStream {
        let (at, most) = (self.probe.span(), most_words(args));
        let all = then(most);
        // Not a `match`: without optimisation that may be a table of jumps, which disassemblers do not follow.
        let each = (args..most).rev().fold(hygienic!(at => { #all }), |others, count| {
            let (literal, then) = (Literal::usize_unsuffixed(count), then(count));
            hygienic!(at => if count == #literal { #then } else { #others })
        });
        match most == args {
            true => hygienic!(at => { _ = count; #all }),
            false => each,
        }
    }

    /// Returns the SystemTap note, by which tracers of Linux programs find the words.
    fn note(&self, names: &Names, count: usize) -> TokenStream {
        let (sdt, stap) = (self.sdt(), &names.stap);
        let words = words(count);
        hygienic!(self.probe.span() => #sdt::__sdt_stap!(@note [#stap], [#(#words)*]);)
    }

    /// Returns a cold block that has an evaluator for costly arguments.
    fn cold_evaluated(
        &self,
        record: &Path,
        names: &Names,
        args: &[Expr],
        locals: &[locals::Local],
    ) -> TokenStream {
        let (sdt, words, symbol) = (self.sdt(), words(most_words(args.len())), &names.krtld);
        let at = self.probe.span();
        let (captures, accesses) =
            (numbered("capture", locals.len()), numbered("access", locals.len()));
        let capturing =
            locals.iter().zip(&captures).map(|(local, capture)| capturing(&sdt, local, capture));
        let (list, borrowed) = (
            nest(&accesses),
            nest(&captures.iter().map(|capture| hygienic!(at => &#capture)).collect::<Vec<_>>()),
        );
        let references = locals.iter().map(|local| &local.reference);
        // The user's `unsafe` block around a `static mut` is necessary, although the expansion takes the static out of it.
        let unsafe_too = locals.iter().any(|local| local.in_unsafe).then(|| quote!(unused_unsafe,));
        let note = self.for_each_count(args.len(), |count| self.note(names, count));
        let body = self.with_words(
            names,
            args,
            &hygienic! { at =>
                #note
                // SAFETY: the probe's own record; `count` is the number of words, at most that of a probe's arguments.
                unsafe { frame.fire(&#record, &[#(#words),*], count) }
            },
        );
        hygienic! { at =>
            #(#capturing)*
            // The parentheses replace the name of a local.
            #[allow(#unsafe_too unused_parens)]
            let () = #sdt::__private::capture::Evaluate::evaluate(
                #borrowed,
                #sdt::__sdt_evaluator!(|#list, frame| {
                    // SAFETY: the thunk of this run made the accesses and the frame.
                    #(let #references = unsafe { #accesses.within(&frame) };)*
                    #body
                }),
                #sdt::__sdt_site!(@trampoline #symbol),
            );
        }
    }
}

/// Captures a local, by the expression's own token.
fn capturing(sdt: &TokenStream, local: &locals::Local, capture: &Ident) -> TokenStream {
    let (name, at) = (&local.name, local.name.span());
    let of = if local.in_unsafe {
        // In an `unsafe` block of the expression the name may be that of a `static mut`. No closure captures a static, which
        // tells it from a local; the evaluator reads it when it evaluates the expression.
        hygienic! { at =>
            #[allow(unused_unsafe, static_mut_refs)]
            // SAFETY: the `unsafe` block of the user's expression vouches for naming the static.
            let named = unsafe { &#name };
            #[allow(unused_unsafe, static_mut_refs)]
            // SAFETY: the closure is never called; only its size matters.
            let of = #sdt::__private::capture::Local::unless_static(named, || unsafe { _ = &#name; });
        }
    } else {
        hygienic! { at =>
            let named = &#name;
            let of = #sdt::__private::capture::Local::new(named);
        }
    };
    hygienic! { at =>
        #of
        let #capture = of.capture();
    }
}

/// Returns the greatest number of words of this number of arguments.
fn most_words(args: usize) -> usize {
    (2 * args).min(ARGS)
}

fn words(count: usize) -> Vec<Ident> {
    // Assembly has these names for its operands.
    numbered("__sdt_word", count)
}

fn numbered(name: &str, count: usize) -> Vec<Ident> {
    (0..count).map(|i| format_ident!("{name}_{i}", span = Span::mixed_site())).collect()
}

/// `(a, (b, ()))`
fn nest(captures: &[impl ToTokens]) -> TokenStream {
    captures.iter().rev().fold(quote!(()), |rest, capture| quote!((#capture, #rest)))
}
