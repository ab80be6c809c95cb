//! `#[derive(CType)]` of an enum with data and a `#[repr]` (RFC 2195, and the Reference's chapter on type layout). In D
//! it is a union of its tag and of a struct for each variant with data. Each struct begins with the tag, as in memory.
//!
//! The tag of an enum with only `#[repr(C)]` has the type that a C compiler gives an enum with these constants, which
//! count from 0: usually an `int`, or a byte if enums are short (bare ARM). Its size is that of a generated enum with
//! the same variants without data.
//!
//! `offset_of!` does not support fields of variants. Therefore structs with the same fields are generated, and it is an
//! error if the layout that follows from them has another size than the enum.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::visit_mut::{VisitMut, visit_path_mut};
use syn::{
    DataEnum, DeriveInput, Error, Field, GenericParam, LitInt, LitStr, Path, Result, Token, Variant,
};

use crate::c_names::{self, check_identifier, given, snake_case};
use crate::ctype::{self, AllStatic, Described};

/// The layout of an enum.
struct Layout {
    /// The tag's type.
    tag: Ident,
    /// A generated enum with the same variants.
    is_twin: bool,
    /// Whether the tag is before a union, instead of in each struct of a union.
    is_c: bool,
}

/// A variant with data.
struct WithData {
    /// Its name in D, as a member.
    member: LitStr,
    /// The name of its struct in D.
    name: LitStr,
    /// The generated struct with the same fields.
    mirror: Ident,
    fields: Vec<(Field, Described)>,
}

/// The name of the tag in D.
const TAG: &str = "tag";

pub(crate) fn expand(
    input: &DeriveInput,
    data: &DataEnum,
    instances: &[Vec<LitInt>],
    sdt: &Path,
) -> Result<TokenStream> {
    let layout = layout(input)?;
    let name = c_names::tagged("union", &input.attrs, &input.ident)?;
    let text = name.value();
    let tag = text.strip_prefix("union ").unwrap_or(&text);
    let (mut constants, mut with_data) = (Vec::new(), Vec::new());
    for variant in &data.variants {
        let member = member(variant)?;
        let constant = format!("{}_{}", snake_case(tag), member.value()).to_uppercase();
        constants.push((LitStr::new(&constant, member.span()), variant));
        if !variant.fields.is_empty() {
            with_data.push(WithData::new(input, tag, member, variant, sdt)?);
        }
    }
    let (implementing, arguments, clause) = input.generics.split_for_impl();
    let ident = &input.ident;
    let numbers: Vec<_> = input.generics.const_params().map(|of| &of.ident).collect();
    let values = tags(ident, &layout, &constants);
    let twin = layout.is_twin.then(|| twin(ident, &layout, &constants, sdt));
    let value = constants.iter().map(|(_, variant)| tag_of(ident, variant));
    let names = constants.iter().map(|(name, _)| name);
    let enum_name = LitStr::new(&format!("enum {tag}_tag"), name.span());
    let mirrors = with_data.iter().map(|variant| variant.mirror(input, &layout, sdt));
    let is_described = numbers.is_empty().then_some(Vec::new());
    let described = is_described.iter().chain(instances);
    let read = read(input, data);
    let descriptions =
        described.map(|values| description(input, &layout, &name, &with_data, values, sdt));
    Ok(quote! {
        impl #implementing #sdt::arg::CType for #ident #arguments #clause {
            const NAME: #sdt::name::TypeName =
                #sdt::name::TypeName::new(#name) #(.with_number(#numbers as ::core::primitive::u64))*;
        }

        #read
        #values
        #twin
        #(#mirrors)*
        #sdt::__sdt_types!(@enum #enum_name, [#(#value #names),*]);
        #(#descriptions)*
    })
}

/// Returns the layout according to `#[repr]`.
fn layout(input: &DeriveInput) -> Result<Layout> {
    let (mut tag, mut is_c) = (None, false);
    for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("repr")) {
        attr.parse_nested_meta(|meta| {
            match meta.path.get_ident() {
                Some(word) if word == "C" => is_c = true,
                Some(word) if word != "align" => tag = Some(word.clone()),
                _ => {}
            }
            if meta.input.peek(syn::token::Paren) {
                let inside;
                syn::parenthesized!(inside in meta.input);
                inside.parse::<TokenStream>()?;
            }
            Ok(())
        })?;
    }
    if tag.is_none() && !is_c {
        let message = "Rust does not define the layout of this enum: add `#[repr(C)]`, \
            `#[repr(u8)]` or another integer, or `#[c_type(opaque)]` to declare only \
            its size";
        return Err(Error::new(input.ident.span(), message));
    }
    let is_twin = tag.is_none();
    let tag = tag.unwrap_or_else(|| format_ident!("__SdtTagOf{}", input.ident));
    Ok(Layout { tag, is_twin, is_c })
}

/// Returns a variant's name as a member.
fn member(variant: &Variant) -> Result<LitStr> {
    let name = match given(&variant.attrs)? {
        Some(name) => name,
        None => {
            let name = snake_case(&variant.ident.unraw().to_string());
            LitStr::new(&name, variant.ident.span())
        }
    };
    check_identifier(&name.value(), name.span())?;
    Ok(name)
}

fn tag_of(ident: &Ident, variant: &Variant) -> Ident {
    format_ident!("__SDT_TAG_OF_{ident}_{}", variant.ident.unraw())
}

/// Returns a constant for each variant: its tag, or one more than the previous one if it has no explicit value.
fn tags(ident: &Ident, layout: &Layout, variants: &[(LitStr, &Variant)]) -> TokenStream {
    // With only `#[repr(C)]`, a value is an `isize`.
    let tag = if layout.is_twin { format_ident!("isize") } else { layout.tag.clone() };
    let mut before: Option<Ident> = None;
    let mut all = TokenStream::new();
    for (_, variant) in variants {
        let name = tag_of(ident, variant);
        let value = match (&variant.discriminant, &before) {
            (Some((_, value)), _) => value.to_token_stream(),
            (None, Some(before)) => quote!(#before + 1),
            (None, None) => quote!(0),
        };
        all.extend(quote! {
            #[doc(hidden)]
            #[allow(non_upper_case_globals)]
            const #name: #tag = #value;
        });
        before = Some(name);
    }
    all
}

/// Returns the enum without data, which has the layout of the tag.
fn twin(
    ident: &Ident,
    layout: &Layout,
    variants: &[(LitStr, &Variant)],
    sdt: &Path,
) -> TokenStream {
    let tag = &layout.tag;
    let values = variants.iter().map(|(_, variant)| tag_of(ident, variant));
    let variants = variants.iter().map(|(_, variant)| &variant.ident);
    quote! {
        #[doc(hidden)]
        #[allow(dead_code, non_camel_case_types, missing_debug_implementations)]
        #[repr(C)]
        enum #tag { #(#variants = #values),* }

        impl #sdt::arg::CType for #tag {
            const NAME: #sdt::name::TypeName =
                #sdt::layout::c_enum(::core::mem::size_of::<#tag>(), false);
        }
    }
}

impl WithData {
    fn new(
        input: &DeriveInput,
        tag: &str,
        member: LitStr,
        variant: &Variant,
        sdt: &Path,
    ) -> Result<Self> {
        let name = LitStr::new(&format!("struct {tag}_{}", member.value()), member.span());
        crate::names::check_type(&name)?;
        let mirror = format_ident!("__Sdt{}{}", input.ident, variant.ident.unraw());
        let mut fields = Vec::new();
        for (index, field) in variant.fields.iter().enumerate() {
            let mut field = field.clone();
            field.ident.get_or_insert_with(|| format_ident!("_{index}"));
            AllStatic.visit_type_mut(&mut field.ty);
            Whole { input }.visit_type_mut(&mut field.ty);
            let described = Described::new(&field, sdt)?;
            if described.name.value() == TAG {
                let message = "this is the name of the tag before the fields: choose another name \
                    with `#[c_name = \"...\"]`";
                return Err(Error::new(described.name.span(), message));
            }
            fields.push((field, described));
        }
        Ok(Self { member, name, mirror, fields })
    }

    /// Returns the struct with the layout of the variant, including the tag if that is part of it.
    fn mirror(&self, input: &DeriveInput, layout: &Layout, sdt: &Path) -> TokenStream {
        let Self { mirror, fields, .. } = self;
        let numbers: Vec<_> = input.generics.const_params().collect();
        let names: Vec<_> = numbers.iter().map(|number| &number.ident).collect();
        let tag = &layout.tag;
        let first = (!layout.is_c).then(|| quote!(__sdt_tag: #tag,));
        let members = fields.iter().map(|(Field { ident, ty, .. }, _)| quote!(#ident: #ty));
        let (count, types) = (fields.len() + 1, fields.iter().map(|(_, described)| &described.ty));
        quote! {
            #[doc(hidden)]
            #[allow(dead_code, non_camel_case_types, missing_debug_implementations)]
            #[repr(C)]
            struct #mirror<#(#numbers),*> { #first #(#members),* }

            #[allow(dead_code)]
            impl<#(#numbers),*> #mirror<#(#names),*> {
                const __SDT_FIELDS: [#sdt::layout::FieldType; #count] =
                    [<#tag as #sdt::layout::CField>::TYPE, #(#types),*];
            }
        }
    }
}

/// Returns code that reads every field, because the compiler otherwise warns that nothing reads them.
fn read(input: &DeriveInput, data: &DataEnum) -> TokenStream {
    let ident = &input.ident;
    let (implementing, arguments, clause) = input.generics.split_for_impl();
    let arms = data.variants.iter().map(|variant| {
        let members = variant.fields.members();
        let names: Vec<_> =
            (0..variant.fields.len()).map(|at| format_ident!("__sdt_{at}")).collect();
        let variant = &variant.ident;
        quote!(#ident::#variant { #(#members: #names),* } => { #(let _ = #names;)* })
    });
    quote! {
        const _: () = {
            #[allow(dead_code, deprecated)]
            fn read #implementing (of: &#ident #arguments) #clause {
                match of { #(#arms)* }
            }
        };
    }
}

/// Replaces `Self` in fields by the enum.
struct Whole<'a> {
    input: &'a DeriveInput,
}

impl VisitMut for Whole<'_> {
    fn visit_path_mut(&mut self, path: &mut Path) {
        if path.is_ident("Self") {
            let ident = &self.input.ident;
            let arguments = self.input.generics.params.iter().map(|parameter| match parameter {
                GenericParam::Lifetime(_) => quote!('static),
                GenericParam::Type(of) => of.ident.to_token_stream(),
                GenericParam::Const(of) => of.ident.to_token_stream(),
            });
            *path = syn::parse_quote!(#ident<#(#arguments),*>);
        }
        visit_path_mut(self, path);
    }
}

/// Returns the description for D of the enum with these numbers as parameters.
fn description(
    input: &DeriveInput,
    layout: &Layout,
    name: &LitStr,
    with_data: &[WithData],
    values: &[LitInt],
    sdt: &Path,
) -> TokenStream {
    let (ident, tag) = (&input.ident, &layout.tag);
    let lifetimes = input.generics.lifetimes().map(|_| quote!('static));
    let whole: Punctuated<_, Token![,]> =
        lifetimes.chain(values.iter().map(ToTokens::to_token_stream)).collect();
    let whole = quote!(#ident<#whole>);
    let digits = ctype::digits(values);
    let numbered = |name: &LitStr| LitStr::new(&format!("{}{digits}", name.value()), name.span());
    let mirrors: Vec<_> =
        with_data.iter().map(|WithData { mirror, .. }| quote!(#mirror<#(#values),*>)).collect();
    let start = format_ident!("__SDT_DATA_OF_{ident}{digits}");
    // After the tag, at the alignment of the variants, or as part of them.
    let (shift, size) = match layout.is_c {
        false => (
            quote!(0),
            quote!(#sdt::layout::largest(&[
                ::core::mem::size_of::<#tag>(), #(::core::mem::size_of::<#mirrors>()),*
            ])),
        ),
        true => (
            quote!(::core::mem::size_of::<#tag>().next_multiple_of(
                #sdt::layout::largest(&[1, #(::core::mem::align_of::<#mirrors>()),*])
            )),
            quote!(#start + #sdt::layout::largest(&[0, #(::core::mem::size_of::<#mirrors>()),*])),
        ),
    };
    let structs = with_data.iter().zip(&mirrors).map(|(variant, mirror)| {
        let list = format_ident!("__SDT_FIELDS_OF_{}{digits}", variant.mirror);
        let (name, count) = (numbered(&variant.name), variant.fields.len() + 1);
        let lines = variant.fields.iter().enumerate().map(|(index, (_, described))| {
            let index = Literal::usize_unsuffixed(index + 1);
            let Described { ident, name, .. } = described;
            quote!(#index (#start + ::core::mem::offset_of!(#mirror, #ident)) #name)
        });
        quote! {
            #[doc(hidden)]
            #[allow(non_upper_case_globals)]
            const #list: [#sdt::layout::FieldType; #count] = <#mirror>::__SDT_FIELDS;

            #sdt::__sdt_types!(@struct
                "struct", #name, #start + ::core::mem::size_of::<#mirror>(),
                ::core::mem::align_of::<#whole>(), #list, [0 (0) #TAG, #(#lines),*]
            );
        }
    });
    let list = format_ident!("__SDT_FIELDS_OF_{ident}{digits}");
    let count = with_data.len() + 1;
    let members = with_data.iter().zip(&mirrors).map(|(variant, mirror)| {
        let name = numbered(&variant.name);
        quote!(#sdt::layout::FieldType::named(
            #sdt::name::TypeName::new(#name), #start + ::core::mem::size_of::<#mirror>()
        ))
    });
    let lines = with_data.iter().enumerate().map(|(index, variant)| {
        let (index, member) = (Literal::usize_unsuffixed(index + 1), &variant.member);
        quote!(#index (0) #member)
    });
    let name = numbered(name);
    quote! {
        #[doc(hidden)]
        #[allow(non_upper_case_globals)]
        const #start: ::core::primitive::usize = #shift;

        const _: () = ::core::assert!(
            ::core::mem::size_of::<#whole>()
                == (#size).next_multiple_of(::core::mem::align_of::<#whole>()),
            "the layout of the enum differs from its `#[repr]`"
        );

        #(#structs)*

        #[doc(hidden)]
        #[allow(non_upper_case_globals)]
        const #list: [#sdt::layout::FieldType; #count] =
            [<#tag as #sdt::layout::CField>::TYPE, #(#members),*];

        #sdt::__sdt_types!(@struct
            "union", #name, ::core::mem::size_of::<#whole>(), ::core::mem::align_of::<#whole>(),
            #list, [0 (0) #TAG, #(#lines),*]
        );
    }
}
