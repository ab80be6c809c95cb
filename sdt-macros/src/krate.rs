//! The path of `sdt-core`: `::sdt_core`, unless `crate = path` sets another one.

use syn::meta::ParseNestedMeta;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, Ident, Path, Result, Token, parse_quote};

/// `crate = path`
struct Given(Path);

impl Parse for Given {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        input.parse::<Token![crate]>()?;
        input.parse::<Token![=]>()?;
        Ok(Self(input.call(Path::parse_mod_style)?))
    }
}

fn default() -> Path {
    parse_quote!(::sdt_core)
}

/// Parses an optional `crate = path;` before a provider.
pub(crate) fn in_front(input: ParseStream<'_>) -> Result<Path> {
    if !(input.peek(Token![crate]) && input.peek2(Token![=])) {
        return Ok(default());
    }
    let Given(path) = input.parse()?;
    input.parse::<Token![;]>()?;
    Ok(path)
}

/// Parses `#[c_type(...)]`: `crate = path`, and the other parameters of the derive macro.
pub(crate) fn in_attributes(
    attrs: &[Attribute],
    mut other: impl FnMut(&ParseNestedMeta<'_>) -> Result<bool>,
) -> Result<Path> {
    let mut given = attrs.iter().filter(|attr| attr.path().is_ident("c_type"));
    let Some(attr) = given.next() else { return Ok(default()) };
    if let Some(again) = given.next() {
        return Err(Error::new_spanned(again, "`#[c_type]` is given twice"));
    }
    let mut path = default();
    attr.parse_nested_meta(|meta| {
        if meta.path.is_ident("crate") {
            path = meta.value()?.call(Path::parse_mod_style)?;
            return Ok(());
        }
        match other(&meta)? {
            true => Ok(()),
            false => Err(meta.error("unknown parameter of `#[c_type]`")),
        }
    })?;
    Ok(path)
}

/// Returns the same path, seen from a child module.
pub(crate) fn from_below(path: &Path) -> Path {
    let mut path = path.clone();
    let first = path.segments.first().filter(|_| path.leading_colon.is_none());
    let first = first.map(|segment| &segment.ident);
    if let Some(first) = first.filter(|first| *first == "self" || *first == "super") {
        let up = Ident::new("super", first.span());
        if first == "super" {
            path.segments.insert(0, up.into());
        } else {
            path.segments[0] = up.into();
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::ToTokens;

    #[test]
    fn paths_are_the_same_from_below() {
        for (above, below) in [
            ("::sdt_core", "::sdt_core"),
            ("facade::sdt", "facade::sdt"),
            ("crate::sdt", "crate::sdt"),
            ("self::sdt", "super::sdt"),
            ("super::sdt", "super::super::sdt"),
        ] {
            let above: Path = syn::parse_str(above).unwrap();
            let expected: Path = syn::parse_str(below).unwrap();
            assert_eq!(
                from_below(&above).to_token_stream().to_string(),
                expected.to_token_stream().to_string()
            );
        }
    }
}
