//! `#[derive(CType)]`: a struct's name in C, and the description of its layout.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{
    Data, DataEnum, DeriveInput, Error, Field, Fields, GenericParam, Generics, Lifetime, LitInt,
    LitStr, Path, Result, Token, parenthesized, token,
};

use crate::c_names::{self, check_identifier, given};
use crate::{data_enum, krate};

/// The parameters of `#[c_type(...)]`.
#[derive(Default)]
struct Wanted {
    /// Only the size of the type is described.
    opaque: bool,
    /// The values of its constant parameters for which it is described.
    describe: Vec<Vec<LitInt>>,
}

impl Wanted {
    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<bool> {
        if meta.path.is_ident("opaque") {
            self.opaque = true;
        } else if meta.path.is_ident("describe") {
            let list;
            parenthesized!(list in meta.input);
            let all = Punctuated::<Values, Token![,]>::parse_terminated(&list)?;
            self.describe.extend(all.into_iter().map(|Values(values)| values));
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// `2`, or `(2, 8)`.
struct Values(Vec<LitInt>);

impl Parse for Values {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if !input.peek(token::Paren) {
            return Ok(Self(vec![input.parse()?]));
        }
        let list;
        parenthesized!(list in input);
        Ok(Self(Punctuated::<LitInt, Token![,]>::parse_terminated(&list)?.into_iter().collect()))
    }
}

pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let mut wanted = Wanted::default();
    let sdt = krate::in_attributes(&input.attrs, |meta| wanted.take(meta))?;
    if let (Data::Enum(data), false) = (&input.data, wanted.opaque) {
        if data.variants.iter().all(|variant| variant.fields.is_empty()) {
            return integer(&input, data, &sdt);
        }
        parameters(&input, &wanted)?;
        return data_enum::expand(&input, data, &wanted.describe, &sdt);
    }
    let parameters = parameters(&input, &wanted)?;
    let mut fields = Vec::new();
    if !wanted.opaque {
        fields = self::fields(&input)?;
        check_repr(&input)?;
    }
    let name = c_names::tagged("struct", &input.attrs, &input.ident)?;
    let fields =
        fields.iter().map(|field| Described::new(field, &sdt)).collect::<Result<Vec<_>>>()?;

    let ident = &input.ident;
    let (implementing, arguments, clause) = input.generics.split_for_impl();
    let numbers = parameters
        .iter()
        .map(|parameter| quote!(.with_number(#parameter as ::core::primitive::u64)));
    let types = fields.iter().map(|field| &field.ty);
    let count = fields.len();
    let descriptions = wanted.instances(&parameters).map(|values| {
        Description {
            ident,
            name: &name,
            fields: &fields,
            generics: &input.generics,
            values,
            sdt: &sdt,
        }
        .expand()
    });
    Ok(quote! {
        impl #implementing #sdt::arg::CType for #ident #arguments #clause {
            const NAME: #sdt::name::TypeName = #sdt::name::TypeName::new(#name) #(#numbers)*;
        }

        impl #implementing #ident #arguments #clause {
            #[doc(hidden)]
            const __SDT_FIELDS: [#sdt::layout::FieldType; #count] = [#(#types),*];
        }

        #(#descriptions)*
    })
}

impl Wanted {
    /// Returns the values of parameters for which a type is described; one empty list if it has none.
    fn instances<'a>(&'a self, parameters: &[&Ident]) -> impl Iterator<Item = &'a [LitInt]> {
        let once = parameters.is_empty().then_some(&[][..]);
        once.into_iter().chain(self.describe.iter().map(Vec::as_slice))
    }
}

/// Returns the end of the type's name for these values of its parameters.
pub(crate) fn digits(values: &[LitInt]) -> String {
    values.iter().map(|value| format!("_{}", value.base10_digits())).collect()
}

/// A type to describe: a struct, with values of its constant parameters.
struct Description<'a> {
    ident: &'a Ident,
    name: &'a LitStr,
    fields: &'a [Described],
    generics: &'a Generics,
    values: &'a [LitInt],
    sdt: &'a Path,
}

impl Description<'_> {
    fn expand(&self) -> TokenStream {
        let Self { ident, name, fields, generics, values, sdt } = self;
        let lifetimes = generics.lifetimes().map(|_| quote!('static));
        let arguments: Vec<_> =
            lifetimes.chain(values.iter().map(ToTokens::to_token_stream)).collect();
        let arguments = if arguments.is_empty() { quote!() } else { quote!(<#(#arguments),*>) };
        let digits = digits(values);
        let name = LitStr::new(&format!("{}{digits}", name.value()), name.span());
        let list = format_ident!("__SDT_FIELDS_OF_{ident}{digits}");
        let whole = quote!(#ident #arguments);
        let count = fields.len();
        let lines = fields.iter().enumerate().map(|(index, Described { ident, name, .. })| {
            let index = Literal::usize_unsuffixed(index);
            quote!(#index (::core::mem::offset_of!(#whole, #ident)) #name)
        });
        quote! {
            #[doc(hidden)]
            #[allow(non_upper_case_globals)]
            const #list: [#sdt::layout::FieldType; #count] = <#whole>::__SDT_FIELDS;

            #sdt::__sdt_types!(@struct
                "struct", #name, ::core::mem::size_of::<#whole>(), ::core::mem::align_of::<#whole>(),
                #list, [#(#lines),*]
            );
        }
    }
}

/// Returns the description of an enum without data, which has the layout of the integer in its `#[repr]`, or of a C
/// enum.
fn integer(input: &DeriveInput, data: &DataEnum, sdt: &Path) -> Result<TokenStream> {
    let mut integer = None;
    for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("repr")) {
        for word in attr.parse_args_with(Punctuated::<Ident, Token![,]>::parse_terminated)? {
            integer = Some(word);
        }
    }
    let Some(integer) = integer else {
        let message =
            "Rust does not define the size of this enum: add `#[repr(u8)]` or another integer";
        return Err(Error::new(input.ident.span(), message));
    };
    let ident = &input.ident;
    if integer == "C" {
        let variants = data.variants.iter().map(|variant| &variant.ident);
        return Ok(quote! {
            impl #sdt::arg::CType for #ident {
                const NAME: #sdt::name::TypeName = #sdt::layout::c_enum(
                    ::core::mem::size_of::<Self>(),
                    false #(|| (Self::#variants {} as i64) < 0)*
                );
            }
        });
    }
    Ok(quote! {
        const _: () = ::core::assert!(
            ::core::mem::size_of::<#ident>() == ::core::mem::size_of::<#integer>(),
            "an enum is as large as its integer"
        );

        impl #sdt::arg::CType for #ident {
            const NAME: #sdt::name::TypeName = <#integer as #sdt::arg::CType>::NAME;
            const VALUE: #sdt::name::TypeName = <#integer as #sdt::arg::CType>::VALUE;
        }
    })
}

/// A field.
pub(crate) struct Described {
    pub(crate) ident: Ident,
    /// The name in C.
    pub(crate) name: LitStr,
    /// The `FieldType`.
    pub(crate) ty: TokenStream,
}

impl Described {
    pub(crate) fn new(field: &Field, sdt: &Path) -> Result<Self> {
        let ident = field.ident.clone().expect("fields with names");
        let name = match given(&field.attrs)? {
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
pub(crate) struct AllStatic;

impl VisitMut for AllStatic {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        *lifetime = Lifetime::new("'static", lifetime.span());
    }

    fn visit_type_fn_ptr_mut(&mut self, _: &mut syn::TypeFnPtr) {
        // The function pointer may declare lifetimes.
    }
}

fn fields(input: &DeriveInput) -> Result<Vec<Field>> {
    let wrong = |what| Err(Error::new(input.ident.span(), what));
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Ok(fields.named.iter().cloned().collect()),
            Fields::Unnamed(_) => wrong("D reads fields by name: give the fields names"),
            Fields::Unit => {
                wrong("the struct has no fields to describe: implement `CType` by hand")
            }
        },
        Data::Enum(_) | Data::Union(_) => {
            wrong("D cannot read a union: add `#[c_type(opaque)]` to declare only its size")
        }
    }
}

/// Checks that a struct has `#[repr(C)]`, because D knows no other layout.
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
        let message = "D uses the layout of C: add `#[repr(C)]` to this struct";
        return Err(Error::new(input.ident.span(), message));
    }
    match packed {
        Some(span) => Err(Error::new(span, "D has no packed structs, so it cannot read this one")),
        None => Ok(()),
    }
}

/// Returns a type's constant parameters.
fn parameters<'a>(input: &'a DeriveInput, wanted: &Wanted) -> Result<Vec<&'a Ident>> {
    let mut all = Vec::new();
    for parameter in &input.generics.params {
        match parameter {
            GenericParam::Lifetime(_) => {}
            GenericParam::Const(number) => all.push(&number.ident),
            GenericParam::Type(_) => {
                let message = "C has no generic types: a type that derives `CType` can have only \
                    lifetimes and constants as parameters";
                return Err(Error::new_spanned(parameter, message));
            }
        }
    }
    for values in &wanted.describe {
        if values.len() != all.len() {
            let message = format!("the type has {} constants as parameters", all.len());
            return Err(Error::new(
                values.first().map_or(input.ident.span(), LitInt::span),
                message,
            ));
        }
    }
    Ok(all)
}
