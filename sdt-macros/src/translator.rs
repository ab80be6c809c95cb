//! `sdt_translator!`: D text that is part of the image.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Error, LitStr, Path, Result};

use crate::krate;

/// `crate = path; "text"`
struct Text {
    sdt: Path,
    text: LitStr,
}

impl Parse for Text {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        Ok(Self { sdt: krate::in_front(input)?, text: input.parse()? })
    }
}

pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let Text { sdt, text } = syn::parse2(input)?;
    let source = text.value();
    if source.lines().any(|line| line.trim_start().starts_with('#')) {
        let error = "D text in an image must not contain control lines (`#pragma`, `#line`): \
            dtrace rejects them";
        return Err(Error::new(text.span(), error));
    }
    let lines: Vec<_> = source.lines().map(directive).collect::<Option<_>>().ok_or_else(|| {
        Error::new(
            text.span(),
            "D text must not contain control characters except newlines and \
             tabs",
        )
    })?;
    Ok(quote!(#sdt::__sdt_types!(@text #(#lines),*);))
}

/// Returns the assembler's directive for a line of the description; `None` if the line cannot be represented.
fn directive(line: &str) -> Option<String> {
    let mut out = String::from(".ascii \"text\\t");
    for c in line.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => return None,
            c if c.is_ascii() => out.push(c),
            c => {
                let mut bytes = [0; 4];
                let bytes = c.encode_utf8(&mut bytes).bytes();
                out.extend(bytes.map(|byte| format!("\\{byte:03o}")));
            }
        }
    }
    out.push_str("\\n\"");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_the_assembler_takes() {
        let line = directive("\tx = \"a\\n\"; /* \u{e9} {} */").unwrap();
        assert_eq!(line, r#".ascii "text\t\tx = \"a\\n\"; /* \303\251 {} */\n""#);
        assert_eq!(directive("\u{1b}[2J"), None);
    }

    #[test]
    fn text_is_one_literal() {
        let text = expand(quote!("inline int a = 1;\ninline int b = 2;")).unwrap().to_string();
        assert_eq!(text.matches(".ascii").count(), 2);
        assert!(expand(quote!(translator)).is_err() && expand(quote!("\u{7}")).is_err());
        assert!(expand(quote!("inline int a = 1;\n #pragma D option quiet")).is_err());
    }
}
