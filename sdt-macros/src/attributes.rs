//! Attributes: `#[stability(...)]` and `#[privileges(...)]`, the stability and the privileges of a provider, in
//! DTrace's words; and the attributes of Rust that a probe accepts.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, Ident, LitStr, Result};

/// A word as DTrace prints it, and its variant in `sdt_core::ops`.
type Word = (&'static str, &'static str);

/// `dtrace_stability_t`.
const STABILITIES: [Word; 8] = [
    ("Internal", "Internal"),
    ("Private", "Private"),
    ("Obsolete", "Obsolete"),
    ("External", "External"),
    ("Unstable", "Unstable"),
    ("Evolving", "Evolving"),
    ("Stable", "Stable"),
    ("Standard", "Standard"),
];

/// `dtrace_class_t`.
const CLASSES: [Word; 6] = [
    ("Unknown", "Unknown"),
    ("CPU", "Cpu"),
    ("Platform", "Platform"),
    ("Group", "Group"),
    ("ISA", "Isa"),
    ("Common", "Common"),
];

/// `DTRACE_PRIV_*`.
const PRIVILEGES: [Word; 5] = [
    ("kernel", "KERNEL"),
    ("user", "USER"),
    ("proc", "PROC"),
    ("owner", "OWNER"),
    ("zoneowner", "ZONEOWNER"),
];

/// The parts of a probe's description that have a stability (`dtrace_pattr_t`).
const PARTS: [&str; 5] = ["provider", "module", "function", "name", "args"];

/// Removes `#[stability]` and `#[privileges]` from a provider's attributes. Returns calls of `Provider`'s methods for
/// `__sdt!(@provider)`, as `, method = value` each.
pub(crate) fn take(attrs: &mut Vec<Attribute>) -> Result<TokenStream> {
    let stability = take_one(attrs, "stability")?.as_ref().map(stability).transpose()?;
    let privileges = take_one(attrs, "privileges")?.as_ref().map(privileges).transpose()?;
    let stability = stability.into_iter();
    let privileges = privileges.into_iter();
    Ok(quote!(#(, with_stability = #stability)* #(, with_privileges = #privileges)*))
}

/// The lint levels that a probe can set. `#[expect]` is not among them, because not all items of a probe would fulfil
/// it; `#[forbid]` is not, because the expansion needs some lints off.
const LINTS: [&str; 3] = ["allow", "warn", "deny"];

/// The other attributes that a probe's record accepts.
const ON_RECORDS: [&str; 2] = ["doc", "deprecated"];

/// Removes the lint levels from a probe's attributes. The remaining attributes are for its record.
pub(crate) fn take_lints(attrs: &mut Vec<Attribute>) -> Result<Vec<Attribute>> {
    let is_one_of = |attr: &Attribute, names: &[&str]| {
        attr.path().get_ident().is_some_and(|ident| names.iter().any(|name| ident == name))
    };
    let lints: Vec<_> = attrs.extract_if(.., |attr| is_one_of(attr, &LINTS)).collect();
    if let Some(other) = attrs.iter().find(|attr| !is_one_of(attr, &ON_RECORDS)) {
        let message = "this attribute is not allowed on a probe: use `name`, `cfg`, `cfg_attr`, \
            `doc`, `deprecated`, `allow`, `warn` or `deny`";
        return Err(Error::new_spanned(other.path(), message));
    }
    Ok(lints)
}

fn take_one(attrs: &mut Vec<Attribute>, name: &str) -> Result<Option<Attribute>> {
    let taken: Vec<_> = attrs.extract_if(.., |attr| attr.path().is_ident(name)).collect();
    if let [_, again, ..] = taken.as_slice() {
        return Err(Error::new_spanned(again, format!("`#[{name}]` is given twice")));
    }
    Ok(taken.into_iter().next())
}

/// `#[stability(provider = "Evolving/Evolving/Common", args = "Stable/Stable/ISA")]`: a `ProviderAttr`.
fn stability(attr: &Attribute) -> Result<TokenStream> {
    let mut given: Vec<Ident> = Vec::new();
    let mut triples = Vec::new();
    attr.parse_nested_meta(|meta| {
        let part = one_of(&meta, &PARTS)?;
        if given.contains(&part) {
            return Err(meta.error(format!("`{part}` is given twice")));
        }
        triples.push(triple(&meta.value()?.parse()?)?);
        given.push(part);
        Ok(())
    })?;
    if given.is_empty() {
        let message = format!(
            "`#[stability]` needs at least one of {}, each as `part = \"Evolving/Evolving/Common\"`",
            list(&PARTS)
        );
        return Err(Error::new_spanned(attr, message));
    }
    // Missing parts have the values that FreeBSD gives every SDT provider.
    let rest = (given.len() < PARTS.len()).then(|| quote!(..__sdt::ops::ProviderAttr::SDT));
    Ok(quote!(__sdt::ops::ProviderAttr { #(#given: #triples,)* #rest }))
}

/// `"Evolving/Evolving/Common"`: an `Attribute`.
fn triple(text: &LitStr) -> Result<TokenStream> {
    let value = text.value();
    let [name, data, class] = value.split('/').collect::<Vec<_>>()[..] else {
        let message = "expected the stability of the name, the stability of the data, and the \
            dependency class, as in \"Evolving/Evolving/Common\"";
        return Err(Error::new(text.span(), message));
    };
    let name = variant(name, "a stability", &STABILITIES, text)?;
    let data = variant(data, "a stability", &STABILITIES, text)?;
    let class = variant(class, "a dependency class", &CLASSES, text)?;
    Ok(quote! {
        __sdt::ops::Attribute::new(
            __sdt::ops::Stability::#name,
            __sdt::ops::Stability::#data,
            __sdt::ops::Class::#class,
        )
    })
}

/// Returns the variant of a word, in upper or lower case.
fn variant(word: &str, what: &str, words: &[Word], at: &LitStr) -> Result<Ident> {
    let word = word.trim();
    match words.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)) {
        Some((_, variant)) => Ok(Ident::new(variant, at.span())),
        None => {
            let known: Vec<_> = words.iter().map(|&(known, _)| known).collect();
            let message = format!("`{word}` is not {what}: use one of {}", list(&known));
            Err(Error::new(at.span(), message))
        }
    }
}

/// `#[privileges(user)]`: a `Privileges`.
fn privileges(attr: &Attribute) -> Result<TokenStream> {
    let known = PRIVILEGES.map(|(word, _)| word);
    let mut given: Vec<Ident> = Vec::new();
    attr.parse_nested_meta(|meta| {
        let word = one_of(&meta, &known)?;
        if given.contains(&word) {
            return Err(meta.error(format!("`{word}` is given twice")));
        }
        given.push(word);
        Ok(())
    })?;
    if given.is_empty() {
        let message = format!("`#[privileges]` needs at least one of {}", list(&known));
        return Err(Error::new_spanned(attr, message));
    }
    if given.iter().any(|word| word == "kernel")
        && let Some(other) = given.iter().find(|word| *word == "user" || *word == "owner")
    {
        let message = format!(
            "`kernel` and `{other}` cannot be combined: `dtrace_register` accepts both only from a \
             provider that reports whether a probe fired in user mode, and SDT providers do not"
        );
        return Err(Error::new(other.span(), message));
    }
    let constants = given.iter().map(|word| {
        let (_, constant) =
            PRIVILEGES.iter().find(|(known, _)| word == known).expect("one of them");
        let constant = format_ident!("{constant}");
        quote!(.union(__sdt::ops::Privileges::#constant))
    });
    Ok(quote!(__sdt::ops::Privileges::empty() #(#constants)*))
}

/// Returns the word, if it is one of these.
fn one_of(meta: &ParseNestedMeta<'_>, known: &[&str]) -> Result<Ident> {
    match meta.path.get_ident() {
        Some(word) if known.iter().any(|known| word == known) => Ok(word.clone()),
        _ => Err(Error::new_spanned(&meta.path, format!("expected one of {}", list(known)))),
    }
}

/// `` `a`, `b`, `c` ``
fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
