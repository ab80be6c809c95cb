//! Registers, and the tables of integers and strings.

use std::collections::HashMap;

use dtrace_abi::dif::Register;
use dtrace_abi::limits;

use crate::error::{Error, Result};

/// The registers in use. The first one is always zero, and is never allocated.
pub(super) struct Registers {
    taken: u32,
    count: u8,
}

impl Registers {
    pub fn new(count: u8) -> Self {
        Self { taken: 1, count }
    }

    /// Allocates the lowest free register.
    pub fn alloc(&mut self) -> Option<Register> {
        let register = self.taken.trailing_ones() as u8;
        (register < self.count).then(|| {
            self.taken |= 1 << register;
            register
        })
    }

    pub fn free(&mut self, register: Register) {
        if register != 0 {
            self.taken &= !(1 << register);
        }
    }
}

/// The table of integers.
#[derive(Default)]
pub(super) struct Integers {
    pub values: Vec<u64>,
    shared: HashMap<u64, u16>,
}

impl Integers {
    /// Returns the index of an integer. Equal integers share an entry.
    pub fn add(&mut self, value: u64, shared: bool) -> Result<u16> {
        if let Some(&index) = self.shared.get(&value).filter(|_| shared) {
            return Ok(index);
        }
        let index = u16::try_from(self.values.len())
            .map_err(|_| Error::library("Integer constant table limit exceeded"))?;
        self.values.push(value);
        if shared {
            self.shared.insert(value, index);
        }
        Ok(index)
    }
}

/// The string table; it begins with the empty string.
pub(super) struct Strings {
    pub bytes: Vec<u8>,
    offsets: HashMap<Vec<u8>, u16>,
}

impl Strings {
    pub fn new() -> Self {
        Self { bytes: vec![0], offsets: HashMap::from([(Vec::new(), 0)]) }
    }

    /// Returns the offset of a string, up to its first zero.
    pub fn add(&mut self, string: &[u8]) -> Result<u16> {
        let string = string.split(|&byte| byte == 0).next().unwrap_or_default();
        if let Some(&offset) = self.offsets.get(string) {
            return Ok(offset);
        }
        let offset = u16::try_from(self.bytes.len())
            .ok()
            .filter(|&offset| u32::from(offset) <= limits::STRING_OFFSET)
            .ok_or_else(|| Error::library("String constant table limit exceeded"))?;
        self.bytes.extend(string);
        self.bytes.push(0);
        self.offsets.insert(string.to_vec(), offset);
        Ok(offset)
    }

    /// Returns the table for a DIFO: empty if it has only the empty string.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
