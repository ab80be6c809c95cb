//! Numbers as text.

use crate::kernel::Kernel;
use crate::machine::access::Cursor;
use crate::machine::failure::Stop;
use crate::machine::firing::Firing;

/// Room for the longest: 64 binary digits and a zero.
const SIZE: u64 = 65;

/// `rand`, as in illumos: a number computed from the time.
pub(super) const fn random(time: u64) -> u64 {
    ((time as i64).wrapping_mul(2416).wrapping_add(374_441) % 1_771_875) as u64
}

fn base(given: Option<u64>) -> Result<u32, Stop> {
    match given.map_or(10, |base| base as i32) {
        base @ 2..=36 => Ok(base as u32),
        _ => Err(super::illegal()),
    }
}

impl<K: Kernel> Firing<'_, K> {
    /// `strtoll`: reads all digits. A number that is too large wraps.
    pub(super) fn strtoll(&mut self, text: u64, given: Option<u64>) -> Result<u64, Stop> {
        let base = base(given)?;
        self.parse(text, base).map(|number| number as u64)
    }

    pub(super) fn parse(&mut self, text: u64, base: u32) -> Result<i64, Stop> {
        let mut cursor = Cursor::default();
        let limit = self.limit();
        let mut at = 0;
        let mut byte = self.byte(&mut cursor, text)?;
        while at < limit && matches!(byte, b' ' | b'\t') {
            at += 1;
            byte = self.byte(&mut cursor, text.wrapping_add(at))?;
        }
        let negative = byte == b'-';
        if matches!(byte, b'-' | b'+') {
            at += 1;
            byte = self.byte(&mut cursor, text.wrapping_add(at))?;
        }
        if base == 16 && byte == b'0' {
            let next = self.byte(&mut cursor, text.wrapping_add(at + 1))?;
            if matches!(next, b'x' | b'X') {
                let digit = self.byte(&mut cursor, text.wrapping_add(at + 2))?;
                if digit.is_ascii_hexdigit() {
                    at += 2;
                    byte = digit;
                }
            }
        }
        let mut number: i64 = 0;
        while at < limit {
            let Some(digit) = digit(byte).filter(|&digit| digit < base) else { break };
            number = number.wrapping_mul(base.into()).wrapping_add(digit.into());
            at += 1;
            byte = self.byte(&mut cursor, text.wrapping_add(at))?;
        }
        Ok(if negative { number.wrapping_neg() } else { number })
    }

    /// `lltostr`: with `0` or `0x` before it in base 8 and 16, signed in base 10 only.
    pub(super) fn lltostr(&mut self, number: i64, given: Option<u64>) -> Result<u64, Stop> {
        let base = u64::from(base(given)?);
        let negative = base == 10 && number < 0;
        let mut left = if negative { number.unsigned_abs() } else { number as u64 };
        let start = self.allocate(SIZE, false)?;
        let mut at = start.wrapping_add(SIZE - 1);
        let mut before = |this: &mut Self, byte: u8| {
            at = at.wrapping_sub(1);
            this.write(at, &[byte])
        };
        while left != 0 {
            let digit = (left % base) as u8;
            before(self, if digit < 10 { b'0' + digit } else { b'a' + digit - 10 })?;
            left /= base;
        }
        if number == 0 && base == 16 {
            before(self, b'0')?;
        }
        if base == 16 {
            before(self, b'x')?;
        }
        if number == 0 || base == 8 || base == 16 {
            before(self, b'0')?;
        }
        if negative {
            before(self, b'-')?;
        }
        Ok(at)
    }
}

const fn digit(byte: u8) -> Option<u32> {
    match byte {
        b'0'..=b'9' => Some((byte - b'0') as u32),
        b'a'..=b'z' => Some((byte - b'a') as u32 + 10),
        b'A'..=b'Z' => Some((byte - b'A') as u32 + 10),
        _ => None,
    }
}
