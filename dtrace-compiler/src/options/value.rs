//! The values of options: numbers, sizes and rates as text (dt_options.c).

use dtrace_abi::option::UNSET;

use super::error::OptionError;

/// Parses a decimal, octal or hexadecimal number, as in C; returns it with the rest of the text.
fn number(text: &str) -> Option<(i64, &str)> {
    let (base, begin) = match text.as_bytes() {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (16, 2),
        [b'0', ..] => (8, 0),
        _ => (10, 0),
    };
    let end = text[begin..].find(|c: char| !c.is_digit(base)).map_or(text.len(), |at| begin + at);
    let value = if begin == end { 0 } else { u64::from_str_radix(&text[begin..end], base).ok()? };
    Some((i64::try_from(value).ok()?, &text[end..]))
}

/// Parses a number, or a word for yes (1) or no ([`UNSET`]).
pub(super) fn count(text: &str) -> Result<i64, OptionError> {
    let is = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    if is(&["yes", "enable", "enabled", "true", "on", "set"]) {
        return Ok(1);
    }
    if text.is_empty() || is(&["no", "disable", "disabled", "false", "off", "unset"]) {
        return Ok(UNSET);
    }
    match number(text) {
        Some((value, "")) => Ok(value),
        _ => Err(OptionError::Value),
    }
}

/// Parses a number of bytes, with an optional unit `k`, `m`, `g` or `t`.
///
/// # Errors
/// [`OptionError::Value`]: the text is not a size, or the size does not fit an `i64`.
pub fn size(text: &str) -> Result<i64, OptionError> {
    let (value, unit) = number(text).ok_or(OptionError::Value)?;
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return Err(OptionError::Value),
    };
    value.checked_mul(1 << shift).ok_or(OptionError::Value)
}

/// Parses a time, or a frequency in `hz`; returns the time between two events in nanoseconds.
pub(super) fn rate(text: &str) -> Result<i64, OptionError> {
    const SECOND: i64 = 1_000_000_000;
    let (value, unit) = number(text).ok_or(OptionError::Value)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" | "ns" | "nsec" => 1,
        "us" | "usec" => 1000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => SECOND,
        "m" | "min" => 60 * SECOND,
        "h" | "hour" => 3600 * SECOND,
        "d" | "day" => 24 * 3600 * SECOND,
        "hz" => return Ok(SECOND.checked_div(value).unwrap_or(0)),
        _ => return Err(OptionError::Value),
    };
    value.checked_mul(unit).ok_or(OptionError::Value)
}

/// Parses a number of registers, from 1 to `limit`.
pub(super) fn registers(text: &str, limit: u8) -> Result<u8, OptionError> {
    let count: u8 = text.parse().map_err(|_| OptionError::Value)?;
    if (1..=limit).contains(&count) { Ok(count) } else { Err(OptionError::Value) }
}
