//! The kernel's `printf(9)`, which C modules call.
//!
//! Supports the conversions `d i u o x X c s p %`, with flags, width, precision and length. Other conversions, such as FreeBSD's
//! `%b` and `%D`, and `%n`, are not supported: the rest of the format string is printed unchanged.

use alloc::format;
use alloc::string::String;

/// The arguments that follow the format string.
pub trait Arguments {
    /// Returns the next `int`, or a value that C promotes to `int`.
    fn int(&mut self) -> i32;
    /// Returns the next `long`, pointer, or value of that width.
    fn long(&mut self) -> i64;
    /// Returns at most `limit` bytes of the string at the next `const char *`; `None` for NULL.
    fn text(&mut self, limit: Option<usize>) -> Option<String>;
}

#[derive(Default)]
struct Conversion {
    left: bool,
    zero: bool,
    alternate: bool,
    plus: bool,
    space: bool,
    width: usize,
    precision: Option<usize>,
    length: Length,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Length {
    Char,
    Short,
    #[default]
    Int,
    Long,
}

/// Formats as `printf(9)` does.
pub fn format(template: &str, arguments: &mut dyn Arguments) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = match convert(&rest[at + 1..], arguments, &mut out) {
            Some(behind) => behind,
            None => {
                // The conversion is unknown, so the types of the remaining arguments are unknown, too.
                out.push_str(&rest[at..]);
                return out;
            }
        };
    }
    out.push_str(rest);
    out
}

/// Formats a pointer as `%p` does; NULL is `0`.
pub fn pointer(address: u64) -> String {
    if address == 0 { "0".into() } else { format!("{address:#x}") }
}

/// Formats the conversion after a `%` and returns the text after it; `None` if the conversion is unknown.
fn convert<'t>(text: &'t str, arguments: &mut dyn Arguments, out: &mut String) -> Option<&'t str> {
    let mut this = Conversion::default();
    let mut chars = text.chars();
    let mut next = chars.next()?;
    loop {
        match next {
            '-' => this.left = true,
            '0' => this.zero = true,
            '#' => this.alternate = true,
            '+' => this.plus = true,
            ' ' => this.space = true,
            _ => break,
        }
        next = chars.next()?;
    }
    let mut number = |next: &mut char, chars: &mut core::str::Chars<'_>| -> Option<i32> {
        if *next == '*' {
            *next = chars.next()?;
            return Some(arguments.int());
        }
        let mut value = 0i32;
        while let Some(digit) = next.to_digit(10) {
            value = value.saturating_mul(10).saturating_add(digit as i32);
            *next = chars.next()?;
        }
        Some(value)
    };
    let width = number(&mut next, &mut chars)?;
    this.left |= width < 0;
    this.width = (width.unsigned_abs() as usize).min(MAX_WIDTH);
    if next == '.' {
        next = chars.next()?;
        let precision = number(&mut next, &mut chars)?;
        this.precision = usize::try_from(precision).ok().map(|p| p.min(MAX_WIDTH));
    }
    loop {
        this.length = match next {
            'h' if this.length == Length::Short => Length::Char,
            'h' => Length::Short,
            'l' | 'q' | 'j' | 'z' | 't' => Length::Long,
            _ => break,
        };
        next = chars.next()?;
    }
    let signed = |arguments: &mut dyn Arguments| match this.length {
        Length::Char => i64::from(arguments.int() as i8),
        Length::Short => i64::from(arguments.int() as i16),
        Length::Int => i64::from(arguments.int()),
        Length::Long => arguments.long(),
    };
    let unsigned = |arguments: &mut dyn Arguments| match this.length {
        Length::Char => u64::from(arguments.int() as u8),
        Length::Short => u64::from(arguments.int() as u16),
        Length::Int => u64::from(arguments.int() as u32),
        Length::Long => arguments.long() as u64,
    };
    match next {
        '%' => out.push('%'),
        'd' | 'i' => {
            let value = signed(arguments);
            let sign = match value {
                ..0 => "-",
                _ if this.plus => "+",
                _ if this.space => " ",
                _ => "",
            };
            this.number(sign, format!("{}", value.unsigned_abs()), out);
        }
        'u' => this.number("", format!("{}", unsigned(arguments)), out),
        'o' => this.number("", format!("{:o}", unsigned(arguments)), out),
        'x' | 'X' => {
            let value = unsigned(arguments);
            let prefix = if this.alternate && value != 0 { "0x" } else { "" };
            let digits = if next == 'x' { format!("{value:x}") } else { format!("{value:X}") };
            this.number(prefix, digits, out);
        }
        'p' => {
            let value = pointer(arguments.long() as u64);
            this.pad(&value, out);
        }
        'c' => {
            let text = char::from(arguments.int() as u8);
            this.pad(text.encode_utf8(&mut [0; 4]), out);
        }
        's' => {
            let text = arguments.text(this.precision);
            this.pad(text.as_deref().unwrap_or("(null)"), out);
        }
        _ => return None,
    }
    Some(chars.as_str())
}

/// The maximum width and precision; greater values are reduced to this one.
const MAX_WIDTH: usize = 1024;

impl Conversion {
    fn number(&self, sign: &str, mut digits: String, out: &mut String) {
        let least = self.precision.unwrap_or(1);
        let wanted = match self.precision {
            None if self.zero && !self.left => self.width.saturating_sub(sign.len()).max(least),
            _ => least,
        };
        if digits.len() < wanted {
            digits.insert_str(0, &"0".repeat(wanted - digits.len()));
        }
        digits.insert_str(0, sign);
        self.pad(&digits, out);
    }

    fn pad(&self, text: &str, out: &mut String) {
        let missing = self.width.saturating_sub(text.chars().count());
        if !self.left {
            out.extend(core::iter::repeat_n(' ', missing));
        }
        out.push_str(text);
        if self.left {
            out.extend(core::iter::repeat_n(' ', missing));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[derive(Debug)]
    enum Value {
        Number(i64),
        Text(Option<&'static str>),
    }

    struct List(VecDeque<Value>);

    impl List {
        fn number(&mut self) -> i64 {
            match self.0.pop_front() {
                Some(Value::Number(value)) => value,
                other => panic!("a number is asked for, there is {other:?}"),
            }
        }
    }

    impl Arguments for List {
        fn int(&mut self) -> i32 {
            self.number() as i32
        }

        fn long(&mut self) -> i64 {
            self.number()
        }

        fn text(&mut self, limit: Option<usize>) -> Option<String> {
            match self.0.pop_front() {
                Some(Value::Text(text)) => {
                    text.map(|text| text[..text.len().min(limit.unwrap_or(usize::MAX))].to_string())
                }
                other => panic!("a text is asked for, there is {other:?}"),
            }
        }
    }

    fn formatted(template: &str, values: Vec<Value>) -> String {
        let mut list = List(values.into());
        let out = format(template, &mut list);
        assert!(list.0.is_empty(), "arguments left over");
        out
    }

    #[test]
    fn conversions_are_those_of_c() {
        use Value::{Number, Text};
        assert_eq!(formatted("plain 100%%", vec![]), "plain 100%");
        assert_eq!(
            formatted("%d %i %u", vec![Number(-1), Number(2), Number(-1)]),
            "-1 2 4294967295"
        );
        assert_eq!(
            formatted("%ld %lu %jd", vec![Number(-1), Number(-1), Number(5)]),
            "-1 18446744073709551615 5"
        );
        assert_eq!(
            formatted("%x %X %#x %#lx", vec![Number(255), Number(255), Number(255), Number(-1)]),
            "ff FF 0xff 0xffffffffffffffff"
        );
        assert_eq!(
            formatted("%o %p %p", vec![Number(8), Number(0x1000), Number(0)]),
            "10 0x1000 0"
        );
        assert_eq!(formatted("%hhd %hu", vec![Number(0x1ff), Number(0x1_0002)]), "-1 2");
        assert_eq!(
            formatted(
                "[%5d][%-5d][%05d][%+d][% d]",
                vec![Number(-42), Number(-42), Number(-42), Number(4), Number(4)]
            ),
            "[  -42][-42  ][-0042][+4][ 4]"
        );
        assert_eq!(
            formatted(
                "[%.3d][%*d][%-*d]",
                vec![Number(7), Number(4), Number(7), Number(4), Number(7)]
            ),
            "[007][   7][7   ]"
        );
        assert_eq!(
            formatted(
                "%s|%5s|%-5s|%.2s|%s",
                vec![
                    Text(Some("a")),
                    Text(Some("b")),
                    Text(Some("c")),
                    Text(Some("defg")),
                    Text(None)
                ]
            ),
            "a|    b|c    |de|(null)"
        );
        assert_eq!(formatted("%c%c", vec![Number(104), Number(105)]), "hi");
    }

    #[test]
    fn what_is_no_conversion_stays_and_ends_formatting() {
        assert_eq!(formatted("a %n b %d", vec![]), "a %n b %d");
        assert_eq!(formatted("end %", vec![]), "end %");
        assert_eq!(formatted("end %-5", vec![]), "end %-5");
        assert_eq!(formatted("[%99999999999d]", vec![Value::Number(1)]).len(), MAX_WIDTH + 2);
    }
}
