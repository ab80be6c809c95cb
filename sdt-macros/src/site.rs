//! `sdt_probe!` and `sdt_enabled!`: a firing site.

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
        return Err(Error::new_spanned(args, "`sdt_enabled!` takes the probe only"));
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

/// That a probe has been given the name by which DTrace lists it, of which the path is the beginning.
fn as_listed(path: &Path, input: ParseStream<'_>) -> Result<Error> {
    let mut name = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
    while input.parse::<Option<Token![-]>>()?.is_some() {
        name = format!("{name}-{}", Ident::parse_any(input)?);
    }
    let message =
        format!("`{name}` is how DTrace lists it; here it is `{}`", name.replace('-', "_"));
    Ok(Error::new_spanned(path, message))
}

/// What the provider's macro tells of the probe.
enum Known {
    /// Its provider is open.
    Open,
    /// Its provider declares it.
    Declared {
        /// As DTrace lists it.
        name: String,
        /// Number of arguments.
        takes: usize,
    },
}

/// What the provider's macro hands on.
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
            Known::Declared { name, takes: declaration.parse::<LitInt>()?.base10_parse()? }
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

/// What is written here, as if it stood at `$at`: locals that nobody else's code can name.
macro_rules! hygienic {
    ($at:expr => $($tokens:tt)*) => {{
        let span = Span::mixed_site().located_at($at);
        quote_spanned!(span=> $($tokens)*)
    }};
}

/// Second step: the site itself.
pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let site: Invocation = syn::parse2(input)?;
    site.check()?;
    let names = site.names()?;
    let (record, items) = site.record(&names);
    let (sdt, symbol, carried) = (site.sdt(), &names.krtld, site.carried());
    let (sound, stap) = (site.sound(), &names.stap);
    let at = site.probe.span();
    let fired = match site.kind {
        Kind::Fire => site.cold(&record, &names),
        Kind::Enabled => hygienic!(at => enabled = true;),
    };
    let made = hygienic! { at =>
        #sdt::__sdt_unless_off! {
            #items
            #sdt::__sdt_either_site!(#sound, #record, #symbol, [#stap], { #fired });
        }
    };
    Ok(match site.kind {
        Kind::Fire => quote!({ #carried #made }),
        Kind::Enabled => hygienic!(at => { let mut enabled = false; #made enabled }),
    })
}

impl Invocation {
    /// The path of `sdt-core`: as the provider knows it, for who fires may not.
    fn sdt(&self) -> TokenStream {
        let path = &self.path;
        quote!(#path::__sdt)
    }

    /// What the macros of `sdt-core` want from who writes their operands.
    fn sound(&self) -> TokenStream {
        let sdt = self.sdt();
        hygienic! { self.probe.span() =>
            // SAFETY: the probe's own record and symbol, and the words of its arguments.
            unsafe { #sdt::__private::Sound::promised() }
        }
    }

    /// No more arguments than a probe has; a declared one has just as many as it says.
    fn check(&self) -> Result<()> {
        let (provider, probe, given) = (&self.provider, &self.probe, self.args.len());
        if given > ARGS {
            let message = format!("a probe has at most {} arguments", ARGS);
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

    /// The probe's names.
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

    /// The path of the probe's record, and the items that make it in an open provider.
    fn record(&self, names: &Names) -> (Path, TokenStream) {
        let (path, probe, sdt) = (&self.path, &self.probe, self.sdt());
        if !self.is_open() {
            return (syn::parse_quote!(#path::#probe), TokenStream::new());
        }
        let Names { listed, text, symbol, .. } = names;
        let sound = self.sound();
        let described = describe::open(&sdt, names, probe.span());
        let items = quote! {
            #sdt::__sdt_open_probe!(
                #sound, __SDT_PROBE, #path::__SDT_PROVIDER, #listed, #text, #symbol
            );
            #described
        };
        (syn::parse_quote!(__SDT_PROBE), items)
    }

    /// Where an open provider's probe has more arguments than every route carries: whether this one does. A declared
    /// one has been looked at where it is declared.
    fn carried(&self) -> Option<TokenStream> {
        let (count, sdt) = (self.args.len(), self.sdt());
        (self.is_open() && count > names::ALWAYS_CARRIED).then(|| {
            let span = self.args[names::ALWAYS_CARRIED].span();
            quote_spanned!(span=> const _: () = #sdt::__private::check_carried::<#count>();)
        })
    }

    /// The cold block: evaluate and fire.
    fn cold(&self, record: &Path, names: &Names) -> TokenStream {
        let mut args = self.args.clone();
        match locals::take_out(&mut args) {
            Some(locals) => self.cold_evaluated(record, names, &args, &locals),
            None => self.cold_inline(record, names, &args),
        }
    }

    /// Evaluates the arguments for `then`, which finds their words, as many as there can be, and in `count` how many there
    /// are. A `match`, because what the arguments borrow from temporaries lives to its end.
    fn with_words(&self, names: &Names, args: &[Expr], then: &TokenStream) -> TokenStream {
        let at = self.probe.span();
        let carried = numbered("carried", args.len());
        let flat = self.flat(&carried);
        if self.is_open() {
            let (sdt, hash, sound) = (self.sdt(), &names.hash, self.sound());
            // Where an argument cannot be carried: there, if there is no other.
            let blamed = if let [arg] = args { arg.span() } else { at };
            let tuple = hygienic!(blamed => (#(#args,)*));
            return hygienic! { at =>
                #sdt::__sdt_open_site!(#sound, __SdtSite, __SDT_PROBE, #hash);
                match #sdt::__private::open::list_args::<__SdtSite, _, _>(&#tuple) {
                    [#(#carried),*] => { #flat #then }
                }
            };
        }
        let (path, check) = (&self.path, names::check(&self.probe));
        let tuple = quote_spanned!(at=> #path::#check(#(#args),*));
        let of = names::words(&self.probe);
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

    /// The words of all arguments, one behind the other: of some there are two.
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
            // An argument's words are behind those of the arguments in front of it, one or two of each.
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

    /// Cheap arguments: evaluated in the cold block.
    fn cold_inline(&self, record: &Path, names: &Names, args: &[Expr]) -> TokenStream {
        let (sdt, sound, symbol) = (self.sdt(), self.sound(), &names.krtld);
        let at = self.probe.span();
        let calls = self.for_each_count(args.len(), |count| {
            let (note, pushed) = (self.note(names, count), words(count).into_iter().rev());
            let count = Literal::usize_unsuffixed(count);
            hygienic! { at =>
                #note
                #sdt::__sdt_call!(#sound, #count, #record, #symbol, [#(#pushed)*]);
            }
        });
        self.with_words(names, args, &calls)
    }

    /// What `then` makes of the number of words. How many those of so many arguments are the compiler knows, but no
    /// token does; so it is there for each number, of which the compiler keeps one.
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

    /// Where tracers of Linux programs find the words.
    fn note(&self, names: &Names, count: usize) -> TokenStream {
        let (sdt, sound, stap) = (self.sdt(), self.sound(), &names.stap);
        let words = words(count);
        hygienic!(self.probe.span() => #sdt::__sdt_stap_note!(#sound, [#stap], [#(#words)*]);)
    }

    /// Costly arguments: evaluated by a function of their own.
    fn cold_evaluated(
        &self,
        record: &Path,
        names: &Names,
        args: &[Expr],
        locals: &[locals::Local],
    ) -> TokenStream {
        let (sdt, words, symbol) = (self.sdt(), words(most_words(args.len())), &names.krtld);
        let sound = self.sound();
        let at = self.probe.span();
        let (captures, places) =
            (numbered("capture", locals.len()), numbered("place", locals.len()));
        let capturing =
            locals.iter().zip(&captures).map(|(local, capture)| capturing(&sdt, local, capture));
        let (list, borrowed) = (
            nest(&places),
            nest(&captures.iter().map(|capture| hygienic!(at => &#capture)).collect::<Vec<_>>()),
        );
        let references = locals.iter().map(|local| &local.reference);
        // A block that a `static mut` is in is necessary, although the static is not there any more.
        let unsafe_too = locals.iter().any(|local| local.in_unsafe).then(|| quote!(unused_unsafe,));
        let note = self.for_each_count(args.len(), |count| self.note(names, count));
        let body = self.with_words(
            names,
            args,
            &hygienic! { at =>
                #note
                // SAFETY: the probe's own record, and no more words than a probe has arguments.
                unsafe { frame.fire(&#record, &[#(#words),*], count) }
            },
        );
        hygienic! { at =>
            #(#capturing)*
            // The parentheses stand where a local's name did.
            #[allow(#unsafe_too unused_parens)]
            let () = #sdt::__private::capture::Evaluate::evaluate(
                #borrowed,
                #sdt::__sdt_evaluator!(|#list, frame| {
                    // SAFETY: the places of this very run.
                    #(let #references = unsafe { #places.within(&frame) };)*
                    #body
                }),
                #sdt::__sdt_trampoline!(#sound, #symbol),
            );
        }
    }
}

/// Captures a local, named where and as the expression names it.
fn capturing(sdt: &TokenStream, local: &locals::Local, capture: &Ident) -> TokenStream {
    let (name, at) = (&local.name, local.name.span());
    let of = if local.in_unsafe {
        // The expression's own block is what allows a `static mut` here. Such a one is no local, no closure captures
        // it: by that it is told, and it is read when the expression comes to it.
        hygienic! { at =>
            #[allow(unused_unsafe, static_mut_refs)]
            // SAFETY: as in the expression.
            let named = unsafe { &#name };
            #[allow(unused_unsafe, static_mut_refs)]
            // SAFETY: never called.
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

/// How many words that many arguments are at most.
fn most_words(args: usize) -> usize {
    (2 * args).min(ARGS)
}

fn words(count: usize) -> Vec<Ident> {
    // What assembly calls its operands, too.
    numbered("__sdt_word", count)
}

fn numbered(name: &str, count: usize) -> Vec<Ident> {
    (0..count).map(|i| format_ident!("{name}_{i}", span = Span::mixed_site())).collect()
}

/// `(a, (b, ()))`
fn nest(captures: &[impl ToTokens]) -> TokenStream {
    captures.iter().rev().fold(quote!(()), |rest, capture| quote!((#capture, #rest)))
}
