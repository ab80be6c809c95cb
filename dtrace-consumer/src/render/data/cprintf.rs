//! printf(3) as FreeBSD's libc does it, one value at a time.

/// The greatest width or precision in columns; larger ones are cut, because formats and widths come from the kernel.
pub const COLUMNS: usize = u16::MAX as usize;

/// Flags, width and precision of a conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// `#`
    pub alternate: bool,
    /// `0`
    pub zero: bool,
    /// `-`
    pub left: bool,
    /// `+`
    pub plus: bool,
    /// A blank.
    pub space: bool,
    /// The least width in columns.
    pub width: usize,
    /// The precision; 0 is none, as in libdtrace.
    pub precision: usize,
}

impl Spec {
    /// Returns a conversion without flags, with this width; a negative width aligns left.
    pub const fn wide(width: i32) -> Self {
        Self {
            left: width < 0,
            width: width.unsigned_abs() as usize,
            alternate: false,
            zero: false,
            plus: false,
            space: false,
            precision: 0,
        }
    }

    /// Writes a value from a prefix, such as its sign, and its body, padded to the width. `columns` is the width of the
    /// body; `zero` pads with zeroes.
    fn put(self, out: &mut Vec<u8>, prefix: &[u8], body: &[u8], columns: usize, zero: bool) {
        if self.width <= columns && prefix.is_empty() {
            return out.extend_from_slice(body);
        }
        let pad = self.width.min(COLUMNS).saturating_sub(prefix.len() + columns);
        let (before, zeroes, behind) = match (self.left, zero) {
            (true, _) => (0, 0, pad),
            (false, true) => (0, pad, 0),
            (false, false) => (pad, 0, 0),
        };
        out.resize(out.len() + before, b' ');
        out.extend_from_slice(prefix);
        out.resize(out.len() + zeroes, b'0');
        out.extend_from_slice(body);
        out.resize(out.len() + behind, b' ');
    }

    /// Returns the sign before a number.
    const fn sign(self, negative: bool) -> &'static [u8] {
        match (negative, self.plus, self.space) {
            (true, ..) => b"-",
            (_, true, _) => b"+",
            (_, _, true) => b" ",
            _ => b"",
        }
    }

    fn digits(self, out: &mut Vec<u8>, prefix: &[u8], digits: &str) {
        let zero = self.zero && self.precision == 0;
        match self.precision.min(COLUMNS).saturating_sub(digits.len()) {
            0 => self.put(out, prefix, digits.as_bytes(), digits.len(), zero),
            missing => {
                let digits = "0".repeat(missing) + digits;
                self.put(out, prefix, digits.as_bytes(), digits.len(), zero);
            }
        }
    }

    /// Writes a value as `%d`.
    pub fn signed(self, out: &mut Vec<u8>, value: i64) {
        self.digits(out, self.sign(value < 0), itoa::Buffer::new().format(value.unsigned_abs()));
    }

    /// Writes a value as `%u`.
    pub fn unsigned(self, out: &mut Vec<u8>, value: u64) {
        self.digits(out, b"", itoa::Buffer::new().format(value));
    }

    /// Writes a value as `%o`.
    pub fn octal(self, out: &mut Vec<u8>, value: u64) {
        let zero = if self.alternate && value != 0 { "0" } else { "" };
        self.digits(out, b"", &format!("{zero}{value:o}"));
    }

    /// Writes a value as `%x`, or as `%X` if `upper` is set.
    pub fn hex(self, out: &mut Vec<u8>, value: u64, upper: bool) {
        let (prefix, digits) = match upper {
            true => (b"0X", format!("{value:X}")),
            false => (b"0x", format!("{value:x}")),
        };
        let prefix: &[u8] = if self.alternate && value != 0 { prefix } else { b"" };
        self.digits(out, prefix, &digits);
    }

    /// Writes a text as `%s`. The flag `0` pads strings with zeroes, too.
    pub fn string(self, out: &mut Vec<u8>, text: &[u8]) {
        let text = match self.precision {
            0 => text,
            precision => &text[..precision.min(text.len())],
        };
        self.put(out, b"", text, text.len(), self.zero);
    }

    /// Writes text; each character counts as one column.
    pub fn text(self, out: &mut Vec<u8>, text: &[u8]) {
        let columns = String::from_utf8_lossy(text).chars().count();
        self.put(out, b"", text, columns, false);
    }

    /// Writes a byte as `%c`.
    pub fn char(self, out: &mut Vec<u8>, byte: u8) {
        self.put(out, b"", &[byte], 1, self.zero);
    }

    /// Writes a value as `%e`, `%f` or `%g`, in upper case if `upper` is set.
    pub fn float(self, out: &mut Vec<u8>, value: f64, style: FloatStyle, upper: bool) {
        let sign = self.sign(value.is_sign_negative() && !value.is_nan());
        let magnitude = value.abs();
        let precision = if self.precision == 0 { 6 } else { self.precision.min(COLUMNS) };
        let mut body = if magnitude.is_nan() {
            "nan".into()
        } else if magnitude.is_infinite() {
            "inf".into()
        } else {
            match style {
                FloatStyle::Fixed => format!("{magnitude:.precision$}"),
                FloatStyle::Exponent => exponent(magnitude, precision),
                FloatStyle::General => general(magnitude, precision, self.alternate),
            }
        };
        if upper {
            body.make_ascii_uppercase();
        }
        self.put(out, sign, body.as_bytes(), body.len(), self.zero && magnitude.is_finite());
    }
}

/// The notation of a floating-point number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatStyle {
    /// `%f`
    Fixed,
    /// `%e`
    Exponent,
    /// `%g`
    General,
}

/// Returns a number such as `1.000000e+02`: the exponent has a sign and at least two digits, as in C.
fn exponent(magnitude: f64, precision: usize) -> String {
    let text = format!("{magnitude:.precision$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.abs())
}

fn general(magnitude: f64, precision: usize, keep: bool) -> String {
    let text = exponent(magnitude, precision - 1);
    let power: i32 = text.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
    let trim = |digits: &str| match digits.contains('.') && !keep {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => digits.to_string(),
    };
    if power < -4 || power >= precision as i32 {
        let (digits, power) = text.split_once('e').unwrap_or((&text, "+00"));
        return format!("{}e{power}", trim(digits));
    }
    let behind = ((precision as i32 - 1 - power).max(0) as usize).min(COLUMNS);
    trim(&format!("{magnitude:.behind$}"))
}

/// Writes a text to the right of a column of this width.
pub(in crate::render) fn right(out: &mut Vec<u8>, width: usize, text: &str) {
    Spec { width, ..Spec::default() }.string(out, text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(show: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        show(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers() {
        let zero = Spec { zero: true, ..Spec::wide(6) };
        assert_eq!(shown(|out| zero.signed(out, -42)), "-00042");
        assert_eq!(shown(|out| Spec { precision: 4, ..zero }.signed(out, -42)), " -0042");
        assert_eq!(shown(|out| Spec::wide(-6).unsigned(out, 42)), "42    ");
        assert_eq!(shown(|out| Spec { plus: true, ..Spec::default() }.signed(out, 0)), "+0");
        let alternate = Spec { alternate: true, ..Spec::default() };
        assert_eq!(shown(|out| alternate.hex(out, 0, false)), "0");
        assert_eq!(shown(|out| alternate.hex(out, 255, true)), "0XFF");
        assert_eq!(shown(|out| alternate.octal(out, 8)), "010");
        assert_eq!(shown(|out| Spec::default().signed(out, i64::MIN)), i64::MIN.to_string());
    }

    #[test]
    fn floats_are_those_of_c() {
        let float = |value, style| shown(|out| Spec::default().float(out, value, style, false));
        assert_eq!(float(1234.5, FloatStyle::Fixed), "1234.500000");
        assert_eq!(float(1234.5, FloatStyle::Exponent), "1.234500e+03");
        assert_eq!(float(1e-7, FloatStyle::General), "1e-07");
        assert_eq!(float(1234.5, FloatStyle::General), "1234.5");
        assert_eq!(float(1e6, FloatStyle::General), "1e+06");
        assert_eq!(float(100_000.0, FloatStyle::General), "100000");
        assert_eq!(float(0.0, FloatStyle::General), "0");
        assert_eq!(float(-0.0, FloatStyle::Fixed), "-0.000000");
        assert_eq!(float(f64::NEG_INFINITY, FloatStyle::General), "-inf");
    }

    #[test]
    fn widths_are_bounded() {
        let out = shown(|out| Spec::wide(i32::MAX).signed(out, 1));
        assert_eq!(out.len(), COLUMNS);
        let out = shown(|out| Spec { precision: usize::MAX, ..Spec::default() }.signed(out, 1));
        assert_eq!(out.len(), COLUMNS);
    }
}
