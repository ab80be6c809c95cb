//! Formats of `printf` and similar functions: their conversions (`dt_printf_create`, dt_printf.c), and the form that
//! the kernel receives (`dtrace_printf_format`).

use dtrace_abi::ErrTag;

use crate::error::Result;
use crate::sema::Session;

/// A conversion, with the text before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conversion {
    /// Text before it.
    before: Vec<u8>,
    alternate: bool,
    zero: bool,
    left: bool,
    plus: bool,
    group: bool,
    space: bool,
    width: u32,
    precision: u32,
    /// Its letters, such as `lld`.
    pub name: String,
    /// `*` before the point.
    pub width_argument: bool,
    /// `*` after the point: the precision is an argument.
    pub precision_argument: bool,
    /// `@`: the conversion shows the value of an aggregation.
    pub aggregation: bool,
}

/// A format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Format {
    pub conversions: Vec<Conversion>,
    /// Text after the last conversion.
    rest: Vec<u8>,
}

impl Conversion {
    /// Returns the kernel's form: flags in a fixed order, and letters by the types of the arguments.
    fn write(&self, letters: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.before);
        out.push(b'%');
        let flags: [(bool, &[u8]); 9] = [
            (self.alternate, b"#"),
            (self.zero, b"0"),
            (self.left, b"-"),
            (self.plus, b"+"),
            (self.width_argument, b"*"),
            (self.precision_argument, b".*"),
            (self.group, b"'"),
            (self.space, b" "),
            (self.aggregation, b"@"),
        ];
        for (_, flag) in flags.iter().filter(|(set, _)| *set) {
            out.extend_from_slice(flag);
        }
        if self.width != 0 {
            out.extend_from_slice(self.width.to_string().as_bytes());
        }
        if self.precision != 0 {
            out.extend_from_slice(format!(".{}", self.precision).as_bytes());
        }
        out.extend_from_slice(letters.as_bytes());
    }

    /// Returns its letters for a value of this size and signedness.
    pub fn letters(&self, size: u64, signed: bool) -> String {
        let long = if size == 8 { "ll" } else { "" };
        let last = self.name.chars().next_back().unwrap_or('%');
        match (self.name.as_str(), last) {
            ("d", _) => format!("{long}{}", if signed { 'i' } else { 'u' }),
            ("p", _) => format!("{long}x"),
            ("lc" | "wc", _) => "lc".into(),
            ("ls" | "ws", _) => "ls".into(),
            (_, 'd' | 'i' | 'o' | 'u' | 'x' | 'X') => format!("{long}{last}"),
            (_, 'e' | 'E' | 'f' | 'g' | 'G') => {
                format!("{}{last}", if size == 16 { "L" } else { "" })
            }
            (name, _) => name.into(),
        }
    }
}

impl Format {
    /// Returns the kernel's form, with the letters of each conversion.
    pub fn write(&self, letters: &[String]) -> Vec<u8> {
        let mut out = Vec::new();
        for (conversion, letters) in self.conversions.iter().zip(letters) {
            conversion.write(letters, &mut out);
        }
        out.extend_from_slice(&self.rest);
        out
    }
}

/// The values that a conversion accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Address,
    UserAddress,
    SmallInteger,
    Integer,
    Float,
    /// Exactly this type.
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
    /// Returns the name of the values in errors.
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

/// Returns the values of the conversion of this name (`_dtrace_conversions`).
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

/// Parses a format. Conversions are numbered from 1; the text after the last one has no number.
pub(super) fn parse(session: &Session<'_>, format: &[u8]) -> Result<Format> {
    let mut conversions = Vec::new();
    let mut before = Vec::new();
    let mut rest = format.iter().copied().peekable();
    let wrong = |message: String| session.error(ErrTag::Syntax, message);
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            before.push(byte);
            continue;
        }
        let number = conversions.len() + 1;
        let before = std::mem::take(&mut before);
        let mut conversion = Conversion { before, ..Conversion::default() };
        let (mut point, mut first, mut digits) = (false, true, false);
        loop {
            let Some(byte) = rest.next() else {
                return wrong(format!(
                    "format conversion #{number} name expected before end of format string"
                ));
            };
            match byte {
                b'0' if !point && !digits => (conversion.zero, conversion.left) = (true, false),
                b'0'..=b'9' => {
                    let mut value = u32::from(byte - b'0');
                    while let Some(digit) = rest.next_if(u8::is_ascii_digit) {
                        value = value.saturating_mul(10).saturating_add((digit - b'0').into());
                    }
                    let (width, precision) = (&mut conversion.width, &mut conversion.precision);
                    *(if point { precision } else { width }) = value;
                    digits = true;
                }
                b'#' => conversion.alternate = true,
                b'+' => conversion.plus = true,
                b'-' => (conversion.left, conversion.zero) = (true, false),
                b'?' => conversion.width = 16,
                b'\'' => conversion.group = true,
                b' ' => conversion.space = true,
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
                    digits = false;
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
    Ok(Format { conversions, rest: before })
}
