//! An argument in a declaration: `bio: *const Bio as "struct bio *" => "bufinfo_t *"`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Attribute, Error, Ident, LitStr, Result, Token, Type};

use crate::names;

/// One argument of a declared probe.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    /// The explicit C type in D, if any.
    native: Option<LitStr>,
    /// The C type to which D translates it, if any.
    translated: Option<LitStr>,
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if let Some(attr) = input.call(Attribute::parse_outer)?.first() {
            let message = "attributes are not allowed on arguments of probes";
            return Err(Error::new_spanned(attr, message));
        }
        if input.peek(Token![&]) || input.peek(Token![mut]) || input.peek(Token![self]) {
            let message = "expected a name and a type; a probe has no receiver: give the argument \
                another name than `self`";
            return Err(input.error(message));
        }
        let name = input.call(Ident::parse_any)?;
        if !name.to_string().starts_with("r#") && syn::parse2::<Ident>(quote!(#name)).is_err() {
            let message = format!("`{name}` is a keyword: write `r#{name}`");
            return Err(Error::new(name.span(), message));
        }
        input.parse::<Token![:]>()?;
        let ty = input.parse()?;
        let native = c_type::<Token![as]>(input, "`as \"struct bio *\"`")?;
        let translated = c_type::<Token![=>]>(input, "`=> \"bufinfo_t *\"`")?;
        Ok(Self { name, ty, native, translated })
    }
}

/// Parses a C type after the token, if the token is present.
fn c_type<T: syn::token::Token + Parse>(
    input: ParseStream<'_>,
    expected: &str,
) -> Result<Option<LitStr>> {
    if !T::peek(input.cursor()) {
        return Ok(None);
    }
    input.parse::<T>()?;
    let text = input.fork().parse::<LitStr>();
    let name = match text {
        Ok(_) => input.parse::<LitStr>()?,
        Err(error) => {
            let message = format!("expected the name of a C type, as in {expected}");
            return Err(Error::new(error.span(), message));
        }
    };
    names::check_type(&name)?;
    Ok(Some(name))
}

impl Argument {
    /// Returns its types.
    pub(crate) fn types(&self) -> TokenStream {
        let Self { ty, native, translated, .. } = self;
        let (native, translated) = (native.iter(), translated.iter());
        quote!(__sdt::__sdt_arg_types!(#ty #(as #native)* #(=> #translated)*))
    }

    /// Returns the expression for the memory that the words of this argument borrow.
    pub(crate) fn borrow(&self) -> TokenStream {
        let ty = &self.ty;
        match (&self.native, ty) {
            (None, _) => {
                quote_spanned!(ty.span()=> <#ty as __sdt::arg::Argument>::BORROW_OF_ARGUMENT.of_argument())
            }
            (Some(_), Type::Reference(_)) => {
                quote!(<#ty as __sdt::arg::Value>::BORROW.of_argument())
            }
            // Other types borrow nothing, or are rare with a C type of their own.
            (Some(_), _) => quote!(__sdt::arg::ArgumentBorrow::NUMBER),
        }
    }

    /// Returns whether its type is, by its name, a conversion of a value: `Shown` or `Json`.
    pub(crate) fn is_made(&self) -> bool {
        let Type::Path(of) = &self.ty else { return false };
        of.path.segments.last().is_some_and(|last| last.ident == "Shown" || last.ident == "Json")
    }

    /// Returns code that converts the value of the expression `place` to the words of this argument. If the type cannot be
    /// an argument, the error is the same as for [`types`](Self::types), so the compiler reports it once.
    pub(crate) fn carried(&self, place: &TokenStream) -> TokenStream {
        let ty = &self.ty;
        match self.native {
            None => {
                quote_spanned!(ty.span()=> <#ty as __sdt::arg::Argument>::carried(#place).untyped())
            }
            Some(_) => quote_spanned!(ty.span()=> __sdt::arg::Carried::new::<#ty>(#place)),
        }
    }
}
