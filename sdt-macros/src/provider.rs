//! `sdt_provider!`: the provider's module.

use std::hash::{DefaultHasher, Hash, Hasher};

use dtrace_abi::limits::ARGS;
use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Error, Expr, ExprLit, Ident, Lifetime, Lit, Meta, Path, Result, Token, Visibility,
    parenthesized,
};

use crate::argument::Argument;
use crate::configured::{self, Unconfigured};
use crate::include::Include;
use crate::names::{self, Names};
use crate::{attributes, describe, krate, site};

/// The input of `sdt_provider!`, without the parts that are configured out.
struct Provider {
    /// The path of `sdt-core`.
    sdt: Path,
    attrs: Vec<Attribute>,
    /// Its stability and privileges, if declared.
    own: TokenStream,
    vis: Visibility,
    ident: Ident,
    /// `None` if the provider is open.
    probes: Option<Vec<Probe>>,
    /// The errors of the other probes.
    wrong: Option<Error>,
}

/// The expansion of a provider.
pub(crate) struct Expanded {
    /// Its module, with its correct probes, so that an error in one probe causes no errors where others fire.
    pub(crate) module: TokenStream,
    /// Its errors.
    pub(crate) wrong: Option<Error>,
}

impl Expanded {
    fn whole(self) -> TokenStream {
        let Self { mut module, wrong } = self;
        module.extend(wrong.map(Error::into_compile_error));
        module
    }
}

/// One `fn name(args);` of a declared provider.
struct Probe {
    /// The attributes of its record.
    attrs: Vec<Attribute>,
    /// Lint levels, which apply to its whole expansion.
    lints: Vec<Attribute>,
    ident: Ident,
    /// The name in DTrace.
    name: String,
    args: Vec<Argument>,
}

impl Provider {
    fn new(unconfigured: Unconfigured) -> Result<Self> {
        let Unconfigured { sdt, mut attrs, vis, ident, probes } = unconfigured;
        let own = attributes::take(&mut attrs)?;
        let mut wrong = None;
        let probes = probes.map(|declared| {
            let mut probes = Vec::new();
            for (attrs, declared) in declared {
                match Probe::new(attrs, declared).and_then(|probe| among(&probes, probe)) {
                    Ok(probe) => probes.push(probe),
                    Err(error) => add(&mut wrong, error),
                }
            }
            probes
        });
        Ok(Self { sdt, attrs, own, vis, ident, probes, wrong })
    }
}

impl Probe {
    fn new(mut attrs: Vec<Attribute>, declared: TokenStream) -> Result<Self> {
        let given: Vec<_> = attrs.extract_if(.., |attr| attr.path().is_ident("name")).collect();
        let lints = attributes::take_lints(&mut attrs)?;
        let (ident, args) = signature.parse2(declared)?;

        let name = match given.as_slice() {
            [] => names::probe(&ident)?,
            [attr] => exact_name(attr)?,
            [_, again, ..] => return Err(Error::new_spanned(again, "`#[name]` is given twice")),
        };
        if let Some(extra) = args.iter().nth(ARGS) {
            let message = format!("a probe can have at most {} arguments", ARGS);
            return Err(Error::new(extra.name.span(), message));
        }
        for (index, arg) in args.iter().enumerate() {
            let of = arg.name.unraw();
            if args.iter().take(index).any(|other| other.name.unraw() == of) {
                let message = format!("another argument is named `{of}` already");
                return Err(Error::new(arg.name.span(), message));
            }
        }
        Ok(Self { attrs, lints, ident, name, args: args.into_iter().collect() })
    }
}

/// `fn name(args);`
fn signature(input: ParseStream<'_>) -> Result<(Ident, Punctuated<Argument, Token![,]>)> {
    input.parse::<Token![fn]>()?;
    let ident = input.parse()?;
    let list;
    parenthesized!(list in input);
    let args = Punctuated::parse_terminated(&list)?;
    if input.peek(Token![->]) {
        return Err(input.error("a probe has no return value"));
    }
    input.parse::<Token![;]>()?;
    Ok((ident, args))
}

fn exact_name(attr: &Attribute) -> Result<String> {
    if let Meta::NameValue(meta) = &attr.meta
        && let Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) = &meta.value
    {
        return names::exact_probe(&name.value(), name.span());
    }
    Err(Error::new_spanned(attr, "expected `#[name = \"...\"]`"))
}

/// Names every elided lifetime, so that the type of an argument can be a return type.
struct NameLifetimes;

impl VisitMut for NameLifetimes {
    fn visit_type_reference_mut(&mut self, reference: &mut syn::TypeReference) {
        reference.lifetime.get_or_insert_with(|| Lifetime::new("'sdt", Span::call_site()));
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = Lifetime::new("'sdt", lifetime.span());
        }
    }
}

pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    if let Ok(include) = syn::parse2::<Include>(input.clone()) {
        return include.expand();
    }
    let provider: Unconfigured = syn::parse2(input)?;
    if provider.has_conditions() {
        return Ok(configured::ask(&provider));
    }
    Ok(expanded(provider).whole())
}

/// A provider without conditions.
pub(crate) fn expand_parsed(input: TokenStream) -> Result<Expanded> {
    Ok(expanded(syn::parse2(input)?))
}

/// The second step for a provider with conditions, which the compiler has evaluated.
pub(crate) fn expand_configured(input: TokenStream) -> Result<TokenStream> {
    Ok(expanded(configured::answer(input)?).whole())
}

fn expanded(provider: Unconfigured) -> Expanded {
    let (vis, ident) = (provider.vis.clone(), provider.ident.clone());
    let named = Provider::new(provider).and_then(|provider| {
        let name = names::provider(&provider.ident)?;
        Ok((provider, name))
    });
    match named {
        Ok((mut provider, name)) => {
            let wrong = provider.wrong.take();
            Expanded { module: module(&provider, &name, wrong.is_some()), wrong }
        }
        Err(error) => Expanded { module: stand_in(&vis, &ident), wrong: Some(error) },
    }
}

/// Returns the module of a provider whose probes are unknown because of errors.
fn stand_in(vis: &Visibility, ident: &Ident) -> TokenStream {
    let sites = SiteMacro::of(vis, ident, "wrong", silent_rules());
    let sites = sites.items();
    quote!(#vis mod #ident { #sites })
}

fn module(provider: &Provider, name: &str, is_wrong: bool) -> TokenStream {
    let unique = place(provider.ident.span());
    let sites = SiteMacro::new(provider, name, &unique, is_wrong).items();
    let Provider { sdt, attrs, own, vis, ident, probes, .. } = provider;
    let sdt = krate::from_below(sdt);
    let visibility = seen_from_within(vis);
    let record_name = names::literal(name, ident.span());
    let promise = site::promise(&quote!(__sdt), ident.span());
    let free = quote_spanned! { ident.span() =>
        const _: () = __sdt::__private::check_provider::<{ __sdt::__private::is_reserved(#name) }>();
    };
    let items = probes.iter().flatten().map(|probe| declared_probe(name, &unique, probe));
    quote! {
        #(#attrs)*
        // The declaring module decides which traits are in scope.
        #[allow(unused_qualifications)]
        #vis mod #ident {
            #[allow(unused_imports)]
            use super::*;

            #[doc(hidden)]
            #visibility use #sdt as __sdt;

            #free
            #promise
            __sdt::__sdt!(@provider __SDT_PROVIDER, #record_name #own);
            __sdt::__sdt_types!(@provider #name);

            #(#items)*

            #sites
        }
    }
}

/// The visibility of a provider, from inside its module.
fn seen_from_within(vis: &Visibility) -> TokenStream {
    match vis {
        Visibility::Public(_) => quote!(pub),
        Visibility::Restricted(to) => {
            let to = krate::from_below(&to.path);
            quote!(pub(in #to))
        }
        Visibility::Inherited => quote!(pub(super)),
    }
}

/// Returns the macro that sites call. It has a rule for each probe with the declaration of that probe, so that no site
/// processes the other probes.
struct SiteMacro {
    /// A `macro_rules!` macro is visible outside its crate only if it is exported, and then in the root of the crate,
    /// so its name must be unique.
    export: Option<TokenStream>,
    /// The visibility of the provider's module, from inside.
    visibility: TokenStream,
    ident: Ident,
    rules: TokenStream,
}

impl SiteMacro {
    /// If probes with errors are left out, sites of unknown probes expand to nothing.
    fn new(provider: &Provider, name: &str, unique: &str, is_wrong: bool) -> Self {
        let all = provider.probes.as_ref().map(|probes| {
            let all = probes.iter().map(|Probe { ident, name, .. }| quote!(#ident #name));
            quote!({ #(#all)* })
        });
        let group = group_rule(&quote!(#name #all));
        let rules = match &provider.probes {
            None => rule(&quote!($any:ident), &quote!(#name)),
            Some(probes) => {
                let declared = probes.iter().map(|Probe { ident, name: listed, args, .. }| {
                    let count = args.len();
                    rule(ident, &quote!(#name #listed #count #unique))
                });
                let all = probes.iter().map(|probe| &probe.ident);
                let unknown = rule(&quote!($any:ident), &quote!(#name { #(#all)* }));
                let unknown = if is_wrong { silent_rules() } else { unknown };
                quote!(#(#declared)* #unknown)
            }
        };
        Self::of(&provider.vis, &provider.ident, name, quote!(#rules #group))
    }

    fn of(vis: &Visibility, provider: &Ident, name: &str, rules: TokenStream) -> Self {
        let export = matches!(vis, Visibility::Public(_)).then(|| quote!(#[macro_export]));
        let ident = format_ident!("__sdt_{name}_{}", place(provider.span()));
        Self { export, visibility: seen_from_within(vis), ident, rules }
    }

    fn items(&self) -> TokenStream {
        let Self { export, visibility, ident, rules } = self;
        quote! {
            #[doc(hidden)]
            #export
            macro_rules! #ident { #rules }
            #[doc(hidden)]
            #[allow(unused_imports)]
            #visibility use #ident as __sdt_probe;
        }
    }
}

/// Passes a site, `probe probe [path] kind args`, to `__sdt_expand!` with the declaration of the probe. The probe is in
/// the input twice, because a rule that matches its name replaces the span by that of the declaration.
fn rule(probe: &impl ToTokens, known: &impl ToTokens) -> TokenStream {
    quote! {
        (#probe $probe:ident [$($path:tt)*] $($site:tt)*) => {
            $($path)*::__sdt::__private::__sdt_expand! { [#known] $probe [$($path)*] $($site)* }
        };
    }
}

/// Passes several probes, `* [path]` or `{ one, another } [path]`, to `__sdt_expand_group!` with all declarations.
fn group_rule(known: &TokenStream) -> TokenStream {
    quote! {
        ($members:tt [$($path:tt)*]) => {
            $($path)*::__sdt::__private::__sdt_expand_group! { [#known] $members [$($path)*] }
        };
    }
}

/// Returns rules by which sites of a probe expand to nothing, because the error in its declaration was reported already.
fn silent_rules() -> TokenStream {
    quote! {
        ($any:ident $probe:ident [$($path:tt)*] fire $($args:tt)*) => { {} };
        ($any:ident $probe:ident [$($path:tt)*] enabled) => { false };
        ($members:tt [$($path:tt)*]) => { false };
    }
}

/// Returns letters and digits that are unique in this crate: the position in the source and, if a macro declares
/// several providers, the number of the expansion, which only the debug output of a span contains.
pub(crate) fn place(named: Span) -> String {
    let (named, call) = (named.unwrap(), Span::call_site().unwrap());
    let mut hasher = DefaultHasher::new();
    for span in [named, call] {
        (span.file(), span.line(), span.column(), format!("{span:?}")).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// Returns the probe, if no previous probe has its name.
fn among(probes: &[Probe], probe: Probe) -> Result<Probe> {
    if probes.iter().any(|other| other.name == probe.name) {
        let message = format!("another probe already has the name `{}`", probe.name);
        return Err(Error::new(probe.ident.span(), message));
    }
    Ok(probe)
}

/// Adds an error.
fn add(errors: &mut Option<Error>, error: Error) {
    match errors {
        Some(errors) => errors.combine(error),
        None => *errors = Some(error),
    }
}

fn declared_probe(provider: &str, unique: &str, probe: &Probe) -> TokenStream {
    let Probe { attrs, lints, ident, name, args } = probe;
    let names = Names::new(provider, name, ident.span());
    let Names { listed, c, symbol, .. } = &names;
    let (check, record) = (names::check(ident), names::record(ident, unique));
    // Replaces the names of arguments by names that nothing in scope has.
    let arg_names = args.iter().enumerate();
    let arg_names: Vec<_> =
        arg_names.map(|(i, arg)| format_ident!("__sdt_arg_{i}", span = arg.name.span())).collect();
    let types: Vec<_> = args.iter().map(Argument::types).collect();
    let borrows = args.iter().map(Argument::borrow);
    let list = format_ident!("__SDT_TYPES_{}", ident.unraw());
    let described = describe::declared(&names, ident.span(), &list);
    let (words, count) = (names::words(ident, unique), args.len());
    let carried = args.iter().enumerate().map(|(i, arg)| {
        let index = Literal::usize_unsuffixed(i);
        arg.carried(&quote!(&arguments.#index))
    });
    let argument_names = (!args.is_empty()).then(|| {
        let names = args.iter().enumerate().map(|(i, arg)| {
            let (index, name) = (Literal::usize_unsuffixed(i), arg.name.unraw().to_string());
            // D's names are ASCII.
            let name = if name.is_ascii() { name } else { String::new() };
            quote!(#index #name)
        });
        quote!(__sdt::__sdt_types!(@probe #provider, #name, #list, [#(#names),*]);)
    });
    let few_enough = quote_spanned! { ident.span() =>
        const _: () = __sdt::__private::hit::check_words(__sdt::arg::count(#list));
    };
    let named = args.iter().map(|arg| {
        let mut ty = arg.ty.clone();
        NameLifetimes.visit_type_mut(&mut ty);
        ty
    });
    let named: Vec<_> = named.collect();
    // For an argument that is converted from a value, the function takes the value.
    let (taken, given): (Vec<_>, Vec<_>) = args
        .iter()
        .zip(&named)
        .zip(&arg_names)
        .map(|((arg, ty), name)| match arg.is_made() {
            true => (quote!(impl __sdt::arg::Made<#ty>), quote!(__sdt::arg::Made::made(#name))),
            false => (quote!(#ty), quote!(#name)),
        })
        .unzip();
    quote! {
        __sdt::__sdt! { @declared
            #(#attrs)* #(#lints)* #ident, __SDT_PROVIDER, #listed, #c, #symbol, #list, __sdt::arg::Borrows::of(&[#(#borrows),*])
        }

        #[doc(hidden)]
        #[allow(deprecated, unused_imports)]
        pub use self::#ident as #record;

        #(#lints)*
        #[allow(non_upper_case_globals)]
        const #list: __sdt::arg::ArgTypes = &[#(#types),*];
        #few_enough
        #argument_names

        #[doc(hidden)]
        #(#lints)*
        #[allow(non_snake_case, private_interfaces, unused_variables)]
        #[inline(always)]
        pub fn #words<'sdt>(arguments: &(#(#named,)*)) -> [__sdt::arg::Carried; #count] {
            [#(#carried),*]
        }

        #described

        #[doc(hidden)]
        #(#lints)*
        #[allow(non_snake_case, private_interfaces, clippy::too_many_arguments, clippy::unused_unit)]
        #[inline(always)]
        pub fn #check<'sdt>(#(#arg_names: #taken),*) -> (#(#named,)*) {
            (#(#given,)*)
        }
    }
}
