//! Formats of `printf` and `printa`, as received from the kernel.
//!
//! The compiler encodes the types in the DOF (`dtrace_printf_format`, dt_printf.c): `%i` or `%u` instead of `%d`, `ll`
//! for eight bytes. So a received `%d` is unsigned, as in libdtrace.

use crate::render::data::cprintf::{FloatStyle, Spec};

/// Why a text is not a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The format ends inside of a conversion.
    #[error("the format ends inside of conversion #{0}")]
    End(usize),
    /// There is no such conversion.
    #[error("conversion #{0} is undefined: %{1}")]
    Undefined(usize, String),
}

/// The kinds of conversions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `%i %lli`
    Signed,
    /// `%d %u %llu`
    Unsigned,
    /// `%o`
    Octal,
    /// `%x %p`, and `%X` if `true`.
    Hex(bool),
    /// `%c`
    Char,
    /// `%lc %wc`
    WideChar,
    /// `%C`
    EscapedChar,
    /// `%s`
    Str,
    /// `%S`
    EscapedStr,
    /// `%ls %ws`
    WideStr,
    /// `%e %f %g`, in upper case if `true`.
    Float(FloatStyle, bool),
    /// `%a`: an address in the kernel.
    Address,
    /// `%A`: an address in a process.
    UserAddress,
    /// `%k`
    Stack,
    /// `%P`: a port.
    Port,
    /// `%I`: an internet address.
    Internet,
    /// `%Y`
    Time,
    /// `%T`
    Time822,
    /// `%%`
    Percent,
}

/// A conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The kind of conversion.
    pub kind: Kind,
    /// The width, precision and flags.
    pub spec: Spec,
    /// `*`: the width is a datum of its own.
    pub width_argument: bool,
    /// `.*`: the precision is a datum of its own.
    pub precision_argument: bool,
    /// `@`: the value of an aggregation.
    pub aggregation: bool,
}

/// A part of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text as it is.
    Text(Vec<u8>),
    /// A conversion.
    Conversion(Conversion),
}

/// A format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its parts.
    pub pieces: Vec<Piece>,
}

fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "a" => Kind::Address,
        "A" => Kind::UserAddress,
        "c" => Kind::Char,
        "C" => Kind::EscapedChar,
        "d" | "u" | "hu" | "lu" | "llu" => Kind::Unsigned,
        "i" | "hd" | "hi" | "ld" | "li" | "lld" | "lli" => Kind::Signed,
        "o" | "ho" | "lo" | "llo" => Kind::Octal,
        "x" | "p" | "hx" | "lx" | "llx" => Kind::Hex(false),
        "X" | "hX" | "lX" | "llX" => Kind::Hex(true),
        "e" | "Le" => Kind::Float(FloatStyle::Exponent, false),
        "E" | "LE" => Kind::Float(FloatStyle::Exponent, true),
        "f" | "Lf" => Kind::Float(FloatStyle::Fixed, false),
        "g" | "Lg" => Kind::Float(FloatStyle::General, false),
        "G" | "LG" => Kind::Float(FloatStyle::General, true),
        "I" => Kind::Internet,
        "k" => Kind::Stack,
        "lc" | "wc" => Kind::WideChar,
        "ls" | "ws" => Kind::WideStr,
        "P" => Kind::Port,
        "s" => Kind::Str,
        "S" => Kind::EscapedStr,
        "T" => Kind::Time822,
        "Y" => Kind::Time,
        "%" => Kind::Percent,
        _ => return None,
    })
}

impl Format {
    /// Reads a format.
    ///
    /// # Errors
    ///
    /// It has a conversion that is undefined, or ends inside of one.
    pub fn parse(text: &[u8]) -> Result<Self, FormatError> {
        let mut pieces = Vec::new();
        let mut count = 0;
        let mut rest = text;
        while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
            if at > 0 {
                pieces.push(Piece::Text(rest[..at].to_vec()));
            }
            count += 1;
            let (conversion, used) = conversion(&rest[at + 1..], count)?;
            pieces.push(Piece::Conversion(conversion));
            rest = &rest[at + 1 + used..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_vec()));
        }
        Ok(Self { pieces })
    }
}

/// Parses a conversion, without its `%`. Returns it with the number of bytes that it takes.
fn conversion(text: &[u8], number: usize) -> Result<(Conversion, usize), FormatError> {
    let mut spec = Spec::default();
    let (mut width_argument, mut precision_argument, mut aggregation) = (false, false, false);
    let (mut point, mut digits) = (false, false);
    let mut name = String::new();
    let mut at = 0;
    loop {
        let Some(&byte) = text.get(at) else { return Err(FormatError::End(number)) };
        at += 1;
        match byte {
            b'0' if !point && !digits => (spec.zero, spec.left) = (true, false),
            b'0'..=b'9' => {
                let count = text[at - 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let value = text[at - 1..at - 1 + count].iter().fold(0_usize, |value, digit| {
                    value.saturating_mul(10).saturating_add((digit - b'0').into())
                });
                *(if point { &mut spec.precision } else { &mut spec.width }) = value;
                at += count - 1;
                digits = true;
            }
            b'#' => spec.alternate = true,
            b'*' if point => precision_argument = true,
            b'*' => width_argument = true,
            b'+' => spec.plus = true,
            b'-' => (spec.left, spec.zero) = (true, false),
            b'.' => (point, digits) = (true, false),
            b'?' => spec.width = 16,
            b'@' => aggregation = true,
            // Thousands are not separated in the C locale.
            b'\'' => {}
            b' ' => spec.space = true,
            b'h' | b'l' | b'L' | b'w' => {
                if name.len() < 6 {
                    name.push(char::from(byte));
                }
            }
            _ => {
                name.push(char::from(byte));
                break;
            }
        }
    }
    let Some(kind) = kind(&name) else { return Err(FormatError::Undefined(number, name)) };
    let conversion = Conversion { kind, spec, width_argument, precision_argument, aggregation };
    Ok((conversion, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Conversion {
        match &Format::parse(text.as_bytes()).unwrap().pieces[..] {
            [Piece::Conversion(conversion)] => *conversion,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_widths_and_precisions() {
        let long = only("%#0*12.5@llx");
        assert_eq!(long.kind, Kind::Hex(false));
        assert!(long.spec.alternate && long.spec.zero && long.width_argument && long.aggregation);
        assert_eq!((long.spec.width, long.spec.precision), (12, 5));
        assert!(only("%-05i").spec.zero && !only("%-05i").spec.left);
        assert_eq!(only("%?p").spec.width, 16);
        assert!(only("%.*s").precision_argument);
    }

    #[test]
    fn what_is_none() {
        assert_eq!(Format::parse(b"a%"), Err(FormatError::End(1)));
        assert_eq!(Format::parse(b"%s%5"), Err(FormatError::End(2)));
        assert_eq!(Format::parse(b"%hhd"), Err(FormatError::Undefined(1, "hhd".into())));
    }
}
