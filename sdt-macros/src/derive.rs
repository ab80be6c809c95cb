//! `#[derive(Argument)]`: newtypes, which pass their field, and enums without data, whose constants have names in D.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DataEnum, DeriveInput, Error, Fields, LitStr, Member, Path, Result};

use crate::c_names::{self, check_identifier, given, snake_case};
use crate::krate;

pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let sdt = krate::in_attributes(&input.attrs, |_| Ok(false))?;
    match &input.data {
        Data::Struct(data) => newtype(&input, &data.fields, &sdt),
        Data::Enum(data) => enumeration(&input, data, &sdt),
        Data::Union(_) => Err(Error::new(
            input.ident.span(),
            "a union cannot be an argument of a probe: derive `CType` with `#[c_type(opaque)]`, \
             and pass a reference",
        )),
    }
}

/// Returns the implementation for a struct with one field, which passes the field.
fn newtype(input: &DeriveInput, fields: &Fields, sdt: &Path) -> Result<TokenStream> {
    let [field] = fields.iter().collect::<Vec<_>>()[..] else {
        let message = "only a struct with one field can be an argument of a probe by value; for \
            other structs derive `CType`, and pass a reference";
        return Err(Error::new(input.ident.span(), message));
    };
    let member = match &field.ident {
        Some(name) => Member::Named(name.clone()),
        None => Member::Unnamed(0.into()),
    };
    let (ident, ty) = (&input.ident, &field.ty);
    let types = match given(&input.attrs)? {
        None => quote_spanned!(ty.span()=> <#ty as #sdt::arg::Argument>::TYPES),
        Some(name) => {
            crate::names::check_type(&name)?;
            quote! {{
                #sdt::arg::is_one_word::<Self>();
                &[#sdt::arg::ArgType::native(#sdt::name::TypeName::new(#name))]
            }}
        }
    };
    // With parameters, it depends on them whether the field can be an argument.
    let (implementing, arguments, clause) = input.generics.split_for_impl();
    let (mut of_value, mut of_argument) = (clause.cloned(), clause.cloned());
    if input.generics.type_params().next().is_some() {
        let clause =
            || syn::WhereClause { where_token: Default::default(), predicates: Default::default() };
        of_value
            .get_or_insert_with(clause)
            .predicates
            .push(syn::parse_quote!(#ty: #sdt::arg::Value));
        of_argument
            .get_or_insert_with(clause)
            .predicates
            .push(syn::parse_quote!(#ty: #sdt::arg::Argument));
    }
    Ok(quote! {
        impl #implementing #sdt::arg::Value for #ident #arguments #of_value {
            type Words = <#ty as #sdt::arg::Value>::Words;

            #[inline(always)]
            fn words(&self) -> Self::Words {
                #sdt::arg::Value::words(&self.#member)
            }
        }

        impl #implementing #sdt::arg::Argument for #ident #arguments #of_argument {
            const TYPES: &'static [#sdt::arg::ArgType] = #types;
        }
    })
}

/// Returns the implementation for an enum without data: its number, and in D an `enum` with the same constants.
fn enumeration(input: &DeriveInput, data: &DataEnum, sdt: &Path) -> Result<TokenStream> {
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new_spanned(
            parameter,
            "an enum that derives `Argument` cannot have \
             parameters",
        ));
    }
    if data.variants.is_empty() {
        return Err(Error::new(
            input.ident.span(),
            "an enum without variants cannot be an argument \
             of a probe: it has no values",
        ));
    }
    let name = c_names::tagged("enum", &input.attrs, &input.ident)?;
    let tag = snake_case(&input.ident.unraw().to_string());
    let mut constants = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            let message = "only an enum without data can be an argument of a probe by value; for \
                other enums derive `CType` and pass a reference, or pass `show(&value)`";
            return Err(Error::new(variant.ident.span(), message));
        }
        constants.push((&variant.ident, constant(&tag, variant)?));
    }
    let ident = &input.ident;
    let variants: Vec<_> = constants.iter().map(|(variant, _)| variant).collect();
    let lines = constants.iter().map(|(variant, name)| quote!((#ident::#variant) #name));
    Ok(quote! {
        impl #sdt::arg::Value for #ident {
            type Words = [::core::primitive::u64; 1];

            #[inline(always)]
            fn words(&self) -> [::core::primitive::u64; 1] {
                [match self {
                    #(Self::#variants => Self::#variants as ::core::primitive::i64 as ::core::primitive::u64,)*
                }]
            }
        }

        impl #sdt::arg::Argument for #ident {
            const TYPES: &'static [#sdt::arg::ArgType] =
                &[#sdt::arg::ArgType::native(#sdt::name::TypeName::new(#name))];
        }

        #sdt::__sdt_types!(@enum #name, [#(#lines),*]);
    })
}

/// Returns the name of a constant in D: `LINK_STATE_UP`.
fn constant(tag: &str, variant: &syn::Variant) -> Result<LitStr> {
    let name = match given(&variant.attrs)? {
        Some(name) => name,
        None => {
            let ident: Ident = variant.ident.unraw();
            let name = format!("{tag}_{}", snake_case(&ident.to_string())).to_uppercase();
            LitStr::new(&name, ident.span())
        }
    };
    check_identifier(&name.value(), name.span())?;
    Ok(name)
}
