//! Names in C: the names of types, fields and constants in D.

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::{Attribute, Error, Expr, ExprLit, Lit, LitStr, Meta, Result};

use crate::names;

/// Keywords of D, including those of C, which cannot be names.
const KEYWORDS: [&str; 46] = [
    "auto",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "counter",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "float",
    "for",
    "goto",
    "if",
    "import",
    "inline",
    "int",
    "long",
    "offsetof",
    "probe",
    "provider",
    "register",
    "restrict",
    "return",
    "self",
    "short",
    "signed",
    "sizeof",
    "static",
    "string",
    "stringof",
    "struct",
    "switch",
    "this",
    "translator",
    "typedef",
    "union",
    "unsigned",
    "userland",
    "void",
    "volatile",
    "while",
    "xlate",
];

/// Returns the name of a struct, union or enum in D: that of `#[c_name = "..."]`, or the keyword and the name in snake case, such
/// as `struct packet_header`.
pub(crate) fn tagged(keyword: &str, attrs: &[Attribute], ident: &Ident) -> Result<LitStr> {
    let name = match given(attrs)? {
        Some(name) => name,
        None => {
            let name = format!("{keyword} {}", snake_case(&ident.unraw().to_string()));
            LitStr::new(&name, ident.span())
        }
    };
    let text = name.value();
    let tag = text.strip_prefix(keyword).and_then(|tag| tag.strip_prefix(' ')).unwrap_or(&text);
    check_identifier(tag, name.span())?;
    names::check_type(&name)?;
    Ok(name)
}

/// Returns the text of `#[c_name = "..."]`.
pub(crate) fn given(attrs: &[Attribute]) -> Result<Option<LitStr>> {
    let mut found = None;
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("c_name")) {
        if found.is_some() {
            return Err(Error::new_spanned(attr, "`#[c_name]` is given twice"));
        }
        let Meta::NameValue(meta) = &attr.meta else {
            return Err(Error::new_spanned(attr, "expected `#[c_name = \"...\"]`"));
        };
        let Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) = &meta.value else {
            return Err(Error::new_spanned(&meta.value, "expected a name in quotes"));
        };
        found = Some(name.clone());
    }
    Ok(found)
}

pub(crate) fn check_identifier(name: &str, span: Span) -> Result<()> {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    if !first || !letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        let message = format!(
            "`{name}` is not a valid name in C: choose one with `#[c_name = \
             \"...\"]`"
        );
        return Err(Error::new(span, message));
    }
    if KEYWORDS.contains(&name) {
        let message =
            format!("`{name}` is a keyword of D: choose another name with `#[c_name = \"...\"]`");
        return Err(Error::new(span, message));
    }
    Ok(())
}

/// `PacketHeader` is `packet_header`, `TCPHeader` is `tcp_header`.
pub(crate) fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut snake = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let behind_small =
            index > 0 && !letters[index - 1].is_uppercase() && letters[index - 1] != '_';
        let before_small = letters.get(index + 1).is_some_and(|next| next.is_lowercase());
        let behind_large = index > 0 && letters[index - 1].is_uppercase();
        if letter.is_uppercase() && (behind_small || behind_large && before_small) {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn struct_names_are_in_snake_case() {
        for (rust, c) in [
            ("Packet", "packet"),
            ("PacketHeader", "packet_header"),
            ("TCPHeader", "tcp_header"),
            ("Ipv4Address", "ipv4_address"),
            ("Sha256Sum", "sha256_sum"),
            ("already_c", "already_c"),
            ("Mixed_Case", "mixed_case"),
            ("X", "x"),
        ] {
            assert_eq!(snake_case(rust), c);
        }
    }

    #[test]
    fn keywords_and_what_is_no_name_are_refused() {
        let check = |name| check_identifier(name, Span::call_site());
        assert!(check("len").is_ok() && check("_x9").is_ok());
        for bad in ["", "9x", "a-b", "größe", "string", "probe", "self", "int"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
