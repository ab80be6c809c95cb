//! Subroutines over text.

use dtrace_abi::fault::Fault;
use sdt_framework::testing::address::ObjectAddress;

use super::super::world::{SCRATCH, STRING};
use super::{Oracle, Result, bad, stop};

impl Oracle<'_> {
    /// Finds `wanted` in a text. A match may continue beyond the end of a string of full length.
    pub(super) fn find(
        &self,
        text: u64,
        length: usize,
        wanted: &[u8],
        from: Option<i64>,
        last: bool,
    ) -> Result<Option<u64>> {
        if length == 0 && wanted.is_empty() {
            return Ok(Some(0));
        }
        let length = length as i64;
        let places: Vec<i64> = match (from, last) {
            (Some(..0), true) => return Ok(wanted.is_empty().then_some(0)),
            (from, true) => (0..=from.unwrap_or(length).min(length)).rev().collect(),
            (Some(from), false) if from >= length => {
                return Ok(wanted.is_empty().then_some(length as u64));
            }
            (from, false) => (from.unwrap_or(0).max(0)..length).collect(),
        };
        'places: for at in places {
            for (offset, wanted) in (0..).zip(wanted) {
                if self.byte(text.wrapping_add(at as u64 + offset))? != *wanted {
                    continue 'places;
                }
            }
            return Ok(Some(at as u64));
        }
        Ok(None)
    }

    pub(super) fn strtok(&mut self, text: u64, separators: u64) -> Result<u64> {
        let limit = u64::from(STRING);
        if self.used + STRING as usize > SCRATCH {
            return stop(Fault::NoScratch);
        }
        let separators = self.string(separators, limit)?;
        let text = if text == 0 { self.token } else { Some((text, limit)) };
        let Some((mut at, mut left)) = text else { return bad(0) };
        // Separators that fill their place have no zero.
        let is_full = separators.len() as u64 == limit;
        let mut byte = if is_full { separators[separators.len() - 1] } else { 0 };
        while left > 0 {
            byte = self.byte(at)?;
            if byte == 0 || !separators.contains(&byte) {
                break;
            }
            (at, left) = (at.wrapping_add(1), left - 1);
        }
        if byte == 0 {
            self.token = Some((0, 0));
            return Ok(0);
        }
        let to = self.allocate(limit, false)?;
        for place in to..to + limit - 1 {
            if left == 0 {
                break;
            }
            let byte = self.byte(at)?;
            if byte == 0 || separators.contains(&byte) {
                break;
            }
            self.writable(place, 1)?[0] = byte;
            (at, left) = (at.wrapping_add(1), left - 1);
        }
        self.token = Some((at, left));
        Ok(to)
    }

    pub(super) fn cleanpath(&mut self, path: u64) -> Result<u64> {
        let limit = u64::from(STRING);
        let to = self.allocate(limit, false)?;
        let mut text = vec![0; STRING as usize];
        let (mut at, mut length) = (0, 0);
        let result = loop {
            if length + 5 >= text.len() {
                break Ok(());
            }
            // Reads as many bytes as needed to decide whether a component of dots begins here.
            let mut part = Vec::new();
            let fault = loop {
                let from = at + part.len() as u64;
                match if from < limit { self.byte(path.wrapping_add(from)) } else { Ok(0) } {
                    Ok(byte) => part.push(byte),
                    Err(fault) => break Some(fault),
                }
                if part.len() == 4 || !b"/..".starts_with(&part) {
                    break None;
                }
            };
            if let Some(fault) = fault {
                break Err(fault);
            }
            let ends = part.ends_with(&[0]);
            match &part[..] {
                b"//" | b"/./" => at += part.len() as u64 - 1,
                b"/../" | b"/..\0" => {
                    at += 3;
                    while length > 0 {
                        length -= 1;
                        if text[length] == b'/' {
                            break;
                        }
                    }
                    length += usize::from(ends);
                }
                _ => {
                    at += part.len() as u64;
                    let kept = part.len() - usize::from(ends);
                    text[length..length + kept].copy_from_slice(&part[..kept]);
                    length += kept;
                }
            }
            if ends {
                break Ok(());
            }
        };
        if result.is_ok() {
            text[length] = 0;
        }
        self.writable(to, limit)?.copy_from_slice(&text);
        result.map(|()| to)
    }

    pub(super) fn strjoin(&mut self, a: u64, b: u64) -> Result<u64> {
        let limit = u64::from(STRING);
        let at = self.allocate(limit, false)?;
        let mut length = 0;
        for text in [a, b] {
            for offset in 0.. {
                if length >= limit {
                    return stop(Fault::NoScratch);
                }
                let byte = self.byte(text.wrapping_add(offset))?;
                if byte == 0 {
                    break;
                }
                self.writable(at + length, 1)?[0] = byte;
                length += 1;
            }
        }
        self.used = ObjectAddress::of(at).unwrap().unwrap().offset as usize + length as usize + 1;
        Ok(at)
    }

    pub(super) fn strtoll(&mut self, text: u64, base: Option<u64>) -> Result<u64> {
        let base = base.map_or(10, |base| base as i32);
        if !(2..=36).contains(&base) {
            return stop(Fault::IllegalOperation);
        }
        let limit = u64::from(STRING);
        let byte = |at: u64| self.byte(text.wrapping_add(at));
        let mut at = 0;
        while at < limit && [b' ', b'\t'].contains(&byte(at)?) {
            at += 1;
        }
        let sign = byte(at)?;
        at += u64::from(sign == b'-' || sign == b'+');
        if base == 16 && byte(at)? == b'0' && byte(at + 1)?.eq_ignore_ascii_case(&b'x') {
            at += if byte(at + 2)?.is_ascii_hexdigit() { 2 } else { 0 };
        }
        let mut number: i64 = 0;
        // The terminating byte is read, too.
        let mut next = byte(at)?;
        while at < limit {
            let Some(digit) = char::from(next).to_digit(base as u32) else { break };
            number = number.wrapping_mul(base.into()).wrapping_add(digit.into());
            at += 1;
            next = byte(at)?;
        }
        Ok(if sign == b'-' { number.wrapping_neg() } else { number } as u64)
    }

    pub(super) fn lltostr(&mut self, number: i64, base: Option<u64>) -> Result<u64> {
        let base = base.map_or(10, |base| base as i32);
        if !(2..=36).contains(&base) {
            return stop(Fault::IllegalOperation);
        }
        let mut digits = Vec::new();
        let mut left = match base {
            10 => u128::from(number.unsigned_abs()),
            _ => u128::from(number as u64),
        };
        while left != 0 {
            digits.push(char::from_digit((left % base as u128) as u32, base as u32).unwrap());
            left /= base as u128;
        }
        let digits: String = digits.iter().rev().collect();
        let text = match base {
            _ if number == 0 && base != 16 => "0".into(),
            16 if number == 0 => "0x0".into(),
            16 => format!("0x{digits}"),
            8 => format!("0{digits}"),
            10 if number < 0 => format!("-{digits}"),
            _ => digits,
        };
        self.at_end(&text, 65)
    }

    pub(super) fn inet(&mut self, family: i32, from: u64, only_dotted: bool) -> Result<u64> {
        match family {
            2 => {
                let bytes = self.read(from, 4)?;
                let parts: Vec<_> = bytes.iter().map(u8::to_string).collect();
                self.at_end(&parts.join("."), 16)
            }
            26 | 28 => {
                let bytes: [u8; 16] = self.read(from, 16)?.try_into().unwrap();
                let address = std::net::Ipv6Addr::from(bytes);
                let stands_for_4 = bytes[..10] == [0; 10]
                    && (bytes[10..12] == [255; 2]
                        || bytes[10..12] == [0; 2] && u128::from(address) > 1);
                let dotted = bytes[12..].iter().map(u8::to_string).collect::<Vec<_>>().join(".");
                let text = match (stands_for_4, only_dotted) {
                    (true, true) => dotted,
                    (true, false) => self.mixed(&bytes, &dotted),
                    _ => address.to_string(),
                };
                self.at_end(&text, 46)
            }
            _ => stop(Fault::IllegalOperation),
        }
    }

    /// Version 4 within version 6, with the prefix.
    pub(super) fn mixed(&self, bytes: &[u8; 16], dotted: &str) -> String {
        match bytes[10..12] {
            [0, 0] => format!("::{dotted}"),
            _ => format!("::ffff:{dotted}"),
        }
    }

    /// Writes a text with its zero byte to the end of this number of bytes of scratch space.
    pub(super) fn at_end(&mut self, text: &str, size: u64) -> Result<u64> {
        let at = self.allocate(size, false)? + size - 1 - text.len() as u64;
        self.writable(at, text.len() as u64)?.copy_from_slice(text.as_bytes());
        Ok(at)
    }
}

pub(super) fn substr(text: &[u8], index: i64, count: i64) -> &[u8] {
    let length = text.len() as i128;
    let (mut index, mut count) = (i128::from(index), i128::from(count));
    if index < 0 {
        index += length;
        if index < 0 && index + count > 0 {
            (index, count) = (0, count + index);
        }
    }
    if index < 0 || index >= length {
        return &[];
    }
    if count < 0 {
        count += length - index;
    }
    let end = (index + count.max(0)).min(length);
    &text[index as usize..end as usize]
}

pub(super) fn basename(path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        return b".".to_vec();
    }
    match path.split(|&byte| byte == b'/').rfind(|part| !part.is_empty()) {
        Some(part) => part.to_vec(),
        None => b"/".to_vec(),
    }
}

pub(super) fn dirname(path: &[u8]) -> Vec<u8> {
    let trimmed = |path: &[u8]| {
        let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
        path[..end].to_vec()
    };
    if path.is_empty() {
        return b".".to_vec();
    }
    let whole = trimmed(path);
    if whole.is_empty() {
        return b"/".to_vec();
    }
    match whole.iter().rposition(|&byte| byte == b'/') {
        None => b".".to_vec(),
        Some(at) => match trimmed(&whole[..at]) {
            dir if dir.is_empty() => b"/".to_vec(),
            dir => dir,
        },
    }
}
