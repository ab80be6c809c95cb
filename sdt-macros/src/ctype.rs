//! `#[derive(CType)]`: a struct's name in C, and the description of its layout.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, GenericParam, Ident,
    Lifetime, Lit, LitStr, Meta, Path, Result,
};

use crate::{krate, names};

/// Words that name nothing in D, as they are keywords there; C's are among them.
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

pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let fields = fields(&input)?;
    check_repr(&input)?;
    check_generics(&input)?;
    let name = struct_name(&input)?;
    let sdt = krate::in_attributes(&input.attrs)?;
    let described =
        fields.iter().map(|field| Described::new(field, &sdt)).collect::<Result<Vec<_>>>()?;

    let ident = &input.ident;
    let (implementing, arguments, _) = input.generics.split_for_impl();
    let lifetimes = input.generics.lifetimes().map(|_| quote!('static));
    let any = if input.generics.params.is_empty() { quote!() } else { quote!(<#(#lifetimes),*>) };
    let types = described.iter().map(|field| &field.ty);
    let lines = described.iter().enumerate().map(|(index, Described { ident, name, .. })| {
        let index = Literal::usize_unsuffixed(index);
        quote!(#index #ident #name)
    });
    let list = format_ident!("__SDT_FIELDS_OF_{ident}");
    let count = described.len();
    Ok(quote! {
        impl #implementing #sdt::arg::CType for #ident #arguments {
            const NAME: #sdt::name::TypeName = #sdt::name::TypeName::new(#name);
        }

        #[doc(hidden)]
        #[allow(non_upper_case_globals)]
        const #list: [#sdt::layout::FieldType; #count] = [#(#types),*];

        #sdt::__sdt_describe_struct!(#name, #ident #any, #list, [#(#lines),*]);
    })
}

/// A field.
struct Described {
    ident: Ident,
    /// Its name in C.
    name: LitStr,
    /// Its `FieldType`.
    ty: TokenStream,
}

impl Described {
    fn new(field: &Field, sdt: &Path) -> Result<Self> {
        let ident = field.ident.clone().expect("fields with names");
        let name = match given_name(&field.attrs)? {
            Some(name) => name,
            None => LitStr::new(&ident.unraw().to_string(), ident.span()),
        };
        check_identifier(&name.value(), name.span())?;
        let mut ty = field.ty.clone();
        AllStatic.visit_type_mut(&mut ty);
        let ty = quote_spanned!(ty.span()=> <#ty as #sdt::layout::CField>::TYPE);
        Ok(Self { ident, name, ty })
    }
}

/// Makes every lifetime `'static`: the layout is the same for all.
struct AllStatic;

impl VisitMut for AllStatic {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        *lifetime = Lifetime::new("'static", lifetime.span());
    }

    fn visit_type_fn_ptr_mut(&mut self, _: &mut syn::TypeFnPtr) {
        // Its lifetimes may be its own.
    }
}

fn fields(input: &DeriveInput) -> Result<Vec<Field>> {
    let wrong = |what| Err(Error::new(input.ident.span(), what));
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Ok(fields.named.iter().cloned().collect()),
            Fields::Unnamed(_) => {
                wrong("D needs names to look into a struct: give the fields some")
            }
            Fields::Unit => wrong("there is nothing to describe: implement `CType` by hand"),
        },
        Data::Enum(_) | Data::Union(_) => wrong(
            "`CType` is derived for structs: implement it by hand, with the C name of the integer that it is or \
             of a type that D knows",
        ),
    }
}

/// A struct is laid out as C would only if it says so, and D knows no other layout.
fn check_repr(input: &DeriveInput) -> Result<()> {
    let (mut is_c, mut packed) = (false, None);
    for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("repr")) {
        attr.parse_nested_meta(|meta| {
            is_c |= meta.path.is_ident("C");
            if meta.path.is_ident("packed") {
                packed = Some(meta.path.span());
            }
            if meta.input.peek(syn::token::Paren) {
                let inside;
                syn::parenthesized!(inside in meta.input);
                inside.parse::<TokenStream>()?;
            }
            Ok(())
        })?;
    }
    if !is_c {
        let message = "D lays structs out as C does: this one needs `#[repr(C)]`";
        return Err(Error::new(input.ident.span(), message));
    }
    match packed {
        Some(span) => {
            Err(Error::new(span, "D has no packed structs: it cannot look into this one"))
        }
        None => Ok(()),
    }
}

fn check_generics(input: &DeriveInput) -> Result<()> {
    for parameter in &input.generics.params {
        if !matches!(parameter, GenericParam::Lifetime(_)) {
            let message = "C has no parameters: a struct that D looks into has none but lifetimes";
            return Err(Error::new_spanned(parameter, message));
        }
    }
    Ok(())
}

/// `#[c_name = "..."]`, or `struct` and the name in snake case.
fn struct_name(input: &DeriveInput) -> Result<LitStr> {
    let name = match given_name(&input.attrs)? {
        Some(name) => name,
        None => {
            let name = format!("struct {}", snake_case(&input.ident.unraw().to_string()));
            LitStr::new(&name, input.ident.span())
        }
    };
    let text = name.value();
    check_identifier(text.strip_prefix("struct ").unwrap_or(&text), name.span())?;
    names::check_type(&name)?;
    Ok(name)
}

/// The text of `#[c_name = "..."]`.
fn given_name(attrs: &[Attribute]) -> Result<Option<LitStr>> {
    let mut found = None;
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("c_name")) {
        if found.is_some() {
            return Err(Error::new_spanned(attr, "there is one name in C"));
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

fn check_identifier(name: &str, span: Span) -> Result<()> {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    if !first || !letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        let message = format!("`{name}` is no name in C: choose one by `#[c_name = \"...\"]`");
        return Err(Error::new(span, message));
    }
    if KEYWORDS.contains(&name) {
        let message =
            format!("`{name}` is a keyword of D: choose another name by `#[c_name = \"...\"]`");
        return Err(Error::new(span, message));
    }
    Ok(())
}

/// `PacketHeader` is `packet_header`, `TCPHeader` is `tcp_header`.
fn snake_case(name: &str) -> String {
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
