//! Formats of `printf` and the like: what they are made of (`dt_printf_create`, dt_printf.c).

use dtrace_abi::ErrTag;

use crate::error::Result;
use crate::sema::Session;

/// A conversion, with what comes before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conversion {
    /// Its letters, such as `lld`.
    pub name: String,
    /// `*` before the point.
    pub width_argument: bool,
    /// `*` behind it.
    pub precision_argument: bool,
    /// `@`
    pub aggregation: bool,
}

/// Which values a conversion takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Address,
    UserAddress,
    SmallInteger,
    Integer,
    Float,
    /// Just this type.
    Type(&'static str),
    Short,
    Long,
    LongLong,
    Str,
    WideStr,
    Stack,
    Time,
    Nothing,
}

impl Takes {
    /// What errors say that it takes.
    pub const fn prototype(self) -> &'static str {
        match self {
            Self::Address => "pointer or integer",
            Self::UserAddress => "pointer or integer (with -p/-c) or _usymaddr (without -p/-c)",
            Self::SmallInteger => "char, short, or int",
            Self::Integer => "char, short, int, long, or long long",
            Self::Float => "float, double, or long double",
            Self::Type(name) => name,
            Self::Short => "short",
            Self::Long => "long",
            Self::LongLong => "long long",
            Self::Str => "char [] or string (or use stringof)",
            Self::WideStr => "wchar_t []",
            Self::Stack => "stack",
            Self::Time => "int64_t",
            Self::Nothing => "void",
        }
    }
}

/// What the conversion of this name takes, if there is one (`_dtrace_conversions`).
pub(super) fn takes(name: &str) -> Option<Takes> {
    Some(match name {
        "a" | "p" => Takes::Address,
        "A" => Takes::UserAddress,
        "c" | "C" => Takes::SmallInteger,
        "d" | "i" | "o" | "u" | "x" | "X" => Takes::Integer,
        "e" | "E" | "f" | "g" | "G" => Takes::Float,
        "hd" | "hi" => Takes::Type("short"),
        "ho" | "hu" => Takes::Type("unsigned short"),
        "hx" | "hX" => Takes::Short,
        "lc" | "wc" => Takes::Type("int"),
        "ld" | "li" => Takes::Type("long"),
        "lo" | "lu" => Takes::Type("unsigned long"),
        "lx" | "lX" => Takes::Long,
        "lld" | "lli" => Takes::Type("long long"),
        "llo" | "llu" => Takes::Type("unsigned long long"),
        "llx" | "llX" => Takes::LongLong,
        "Le" | "LE" | "Lf" | "Lg" | "LG" => Takes::Type("long double"),
        "P" => Takes::Type("uint16_t"),
        "I" | "s" | "S" => Takes::Str,
        "ls" | "ws" => Takes::WideStr,
        "k" => Takes::Stack,
        "T" | "Y" => Takes::Time,
        "%" => Takes::Nothing,
        _ => return None,
    })
}

/// Reads a format. Conversions are counted from 1, text behind the last one not.
pub(super) fn parse(session: &Session<'_>, format: &[u8]) -> Result<Vec<Conversion>> {
    let mut conversions = Vec::new();
    let mut rest = format.iter().copied().peekable();
    let wrong = |message: String| session.error(ErrTag::Syntax, message);
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            continue;
        }
        let number = conversions.len() + 1;
        let mut conversion = Conversion {
            name: String::new(),
            width_argument: false,
            precision_argument: false,
            aggregation: false,
        };
        let (mut point, mut first) = (false, true);
        loop {
            let Some(byte) = rest.next() else {
                return wrong(format!(
                    "format conversion #{number} name expected before end of format string"
                ));
            };
            match byte {
                b'0'..=b'9' | b'#' | b'+' | b'-' | b'?' | b'\'' | b' ' => {}
                b'*' => {
                    let slot = if point {
                        &mut conversion.precision_argument
                    } else {
                        &mut conversion.width_argument
                    };
                    if std::mem::replace(slot, true) {
                        return wrong(format!(
                            "format conversion #{number} has more than one '*' specified for the output precision"
                        ));
                    }
                }
                b'.' => {
                    if std::mem::replace(&mut point, true) {
                        return wrong(format!(
                            "format conversion #{number} has more than one '.' specified"
                        ));
                    }
                }
                b'@' => conversion.aggregation = true,
                b'$' => {
                    return wrong(format!(
                        "format conversion #{number} uses unsupported positional format (%n$)"
                    ));
                }
                b'%' if !first => {
                    return wrong(format!(
                        "format conversion #{number} cannot be combined with other format flags: %%"
                    ));
                }
                b'h' | b'l' | b'L' | b'w' => {
                    if conversion.name.len() < 6 {
                        conversion.name.push(char::from(byte));
                    }
                }
                _ => {
                    conversion.name.push(char::from(byte));
                    break;
                }
            }
            first = false;
        }
        if takes(&conversion.name).is_none() {
            let name = &conversion.name;
            return wrong(format!("format conversion #{number} is undefined: %{name}"));
        }
        conversions.push(conversion);
    }
    Ok(conversions)
}
