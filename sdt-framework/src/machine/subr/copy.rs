//! Copies to and from processes, and within scratch space.

use dtrace_abi::fault::Fault;

use crate::kernel::Kernel;
use crate::machine::access::Cursor;
use crate::machine::address::{ObjectAddress, Region};
use crate::machine::failure::Stop;
use crate::machine::firing::Firing;

/// The largest size of `memstr` in bytes (`dtrace_memstr_max`, FreeBSD's dtrace.c).
pub(in crate::machine) const MEMSTR: u64 = 4096;

const fn bad_address(address: u64) -> Stop {
    Stop { fault: Fault::BadAddress, address }
}

impl<K: Kernel> Firing<'_, K> {
    /// Returns the allocated scratch space at an address; `None` if a part of it is not allocated.
    fn scratch(&mut self, address: u64, length: u64) -> Option<&mut [u8]> {
        let place = ObjectAddress::of(address)?.ok()?;
        if place.region != Region::Scratch {
            return None;
        }
        let length = usize::try_from(length).ok()?;
        self.room.scratch.get_mut(..self.used)?.get_mut(place.offset as usize..)?.get_mut(..length)
    }

    pub(super) fn copyin(&mut self, from: u64, size: u64) -> Result<u64, Stop> {
        let to = self.allocate(size, true)?;
        self.copyinto(from, size, to)?;
        Ok(to)
    }

    pub(super) fn copyinto(&mut self, from: u64, size: u64, to: u64) -> Result<(), Stop> {
        self.scratch(to, size).ok_or(bad_address(to))?;
        self.charge_user(size)?;
        let kernel = self.kernel;
        let into = self.scratch(to, size).ok_or(bad_address(to))?;
        if into.is_empty() || kernel.copyin(from, into) { Ok(()) } else { Err(bad_address(from)) }
    }

    /// `copyinstr`: copies a string from the process, at most `most` characters if given.
    pub(super) fn copyinstr(&mut self, from: u64, most: Option<u64>) -> Result<u64, Stop> {
        const LINE: u64 = 32;
        let limit = self.limit();
        let size = match most {
            Some(most) if most < limit => most + 1,
            _ => limit,
        };
        if size == 0 {
            return Err(Stop::new(Fault::NoScratch));
        }
        let to = self.allocate(size, false)?;
        let kernel = self.kernel;
        let mut line = [0; LINE as usize];
        let mut at = 0;
        // The last byte stays 0.
        while at < size - 1 {
            let address = from.wrapping_add(at);
            // Charged twice, because the code below copies a single byte if the whole line is not readable.
            self.charge_user(LINE)?;
            self.charge_user(LINE)?;
            // Copies to the end of a cache line at once: all of it is readable, or nothing.
            let count = (LINE - address % LINE).min(size - 1 - at);
            let part = line.get_mut(..count as usize).unwrap_or_default();
            let count = if kernel.copyin(address, part) {
                count
            } else if part.get_mut(..1).is_some_and(|byte| kernel.copyin(address, byte)) {
                1
            } else {
                return Err(bad_address(address));
            };
            let part = line.get(..count as usize).unwrap_or_default();
            let text = part.split(|&byte| byte == 0).next().unwrap_or_default();
            self.write(to.wrapping_add(at), text)?;
            if text.len() < part.len() {
                break;
            }
            at += count;
        }
        Ok(to)
    }

    /// `copyout` and, if `string`, `copyoutstr`, which stops after the NUL.
    pub(super) fn copyout(
        &mut self,
        from: u64,
        to: u64,
        size: u64,
        string: bool,
    ) -> Result<(), Stop> {
        const PART: u64 = 64;
        if !self.access.control {
            return Err(Stop::new(Fault::UserPrivilege));
        }
        let kernel = self.kernel;
        let mut cursor = Cursor::default();
        let mut part = [0; PART as usize];
        let mut at = 0;
        while at < size {
            let count = (size - at).min(PART) as usize;
            let mut filled = 0;
            let mut ended = false;
            for place in part.iter_mut().take(count) {
                *place = self.byte(&mut cursor, from.wrapping_add(at + filled))?;
                filled += 1;
                if string && *place == 0 {
                    ended = true;
                    break;
                }
            }
            let address = to.wrapping_add(at);
            self.charge_user(filled)?;
            if !kernel.copyout(part.get(..filled as usize).unwrap_or_default(), address) {
                return Err(bad_address(address));
            }
            if ended {
                break;
            }
            at += filled;
        }
        Ok(())
    }

    pub(super) fn bcopy(&mut self, from: u64, to: u64, size: u64) -> Result<(), Stop> {
        self.scratch(to, size).ok_or(bad_address(to))?;
        self.copy(from, to, size)
    }

    /// `memref`: stores an address and a length in scratch space, for `printm`.
    pub(super) fn memref(&mut self, address: u64, length: u64) -> Result<u64, Stop> {
        let to = self.allocate(16, true)?;
        self.write(to, &address.to_le_bytes())?;
        self.write(to.wrapping_add(8), &length.to_le_bytes())?;
        Ok(to)
    }

    /// `memstr`: copies memory as a string, and replaces each zero byte with the character `instead`.
    pub(super) fn memstr(&mut self, from: u64, instead: u8, size: u64) -> Result<u64, Stop> {
        if size == 0 {
            return Ok(0);
        }
        self.check_scratch(size)?;
        if size > MEMSTR {
            return Err(super::illegal());
        }
        let to = self.allocate(size, false)?;
        let mut cursor = Cursor::default();
        let mut at = 0;
        while at < size - 1 {
            let line = self.line(&mut cursor, from.wrapping_add(at))?;
            let mut part = [0; Cursor::SIZE];
            let length = line.len().min((size - 1 - at) as usize);
            let part = part.get_mut(..length).unwrap_or_default();
            for (to, &byte) in part.iter_mut().zip(line) {
                *to = if byte == 0 { instead } else { byte };
            }
            self.write(to.wrapping_add(at), part)?;
            at += length as u64;
        }
        Ok(to)
    }
}
