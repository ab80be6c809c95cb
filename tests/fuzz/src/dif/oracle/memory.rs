//! Memory as programs see it.

use dtrace_abi::fault::Fault;
use sdt_framework::kernel::{Kernel, Text};
use sdt_framework::testing::address::{ObjectAddress, Region};

use super::super::world::{SCRATCH, STRING};
use super::{Oracle, Result, bad, place, region, stop};

impl Oracle<'_> {
    /// Returns the bytes at a place of the consumer's own memory.
    pub(super) fn ours(&self, place: ObjectAddress) -> Option<Vec<u8>> {
        let zero_ended = |text: &[u8]| Some([text, &[0]].concat());
        let item = place.item as u16;
        match place.region {
            Region::Scratch => Some(self.scratch[..self.used].to_vec()),
            Region::Literals => {
                let mut all = self.literals.clone();
                all.resize(4096, 0);
                Some(all)
            }
            Region::Global | Region::Local => {
                Some(self.references.get(&(region(place.region), item))?.1.clone())
            }
            Region::Dynamic => self.contents.get(place.item as usize).cloned(),
            Region::Text => match place.item {
                0 => zero_ended(b"prov"),
                1 => zero_ended(b"mod"),
                2 => zero_ended(b""),
                3 => zero_ended(b"name"),
                _ if !self.rights.process => None,
                4 => zero_ended(self.world.text(Text::Execname)?),
                5 => zero_ended(self.world.text(Text::Zonename)?),
                6 => zero_ended(self.world.text(Text::Jailname)?),
                7 => zero_ended(self.world.text(Text::Execargs)?),
                8 => zero_ended(self.world.text(Text::Threadname)?),
                _ => None,
            },
        }
    }

    pub(super) fn read(&self, address: u64, length: u64) -> Result<Vec<u8>> {
        if length == 0 {
            return Ok(Vec::new());
        }
        match ObjectAddress::of(address) {
            None if !self.rights.kernel => Err((Fault::KernelPrivilege, address)),
            None => {
                let mut bytes = Vec::new();
                for at in 0..length {
                    let mut byte = [0];
                    let address_of = address.wrapping_add(at);
                    let toxic = self.world.is_toxic(address_of, 1);
                    if toxic || !self.world.load(address_of, &mut byte) {
                        return bad(address);
                    }
                    bytes.extend(byte);
                }
                Ok(bytes)
            }
            Some(found) => {
                if let (Ok(found), Some(output)) = (found, self.output) {
                    let end = u64::from(found.offset).saturating_add(length);
                    let reads = found.region == Region::Scratch && end > output as u64;
                    self.undefined.set(self.undefined.get() || reads);
                }
                let bytes = found.ok().and_then(|found| {
                    let end = u64::from(found.offset).checked_add(length)?;
                    Some(self.ours(found)?.get(found.offset as usize..end as usize)?.to_vec())
                });
                bytes.ok_or((Fault::BadAddress, address))
            }
        }
    }

    /// Reads a byte of a string. A string ends at the latest with the memory of its place.
    pub(super) fn byte(&self, address: u64) -> Result<u8> {
        let found = ObjectAddress::of(address).and_then(std::result::Result::ok);
        let room = found.and_then(|found| Some((self.ours(found)?.len(), found.offset as usize)));
        match room {
            Some((length, offset)) if length == offset => Ok(0),
            _ => Ok(self.read(address, 1)?[0]),
        }
    }

    pub(super) fn number(&self, address: u64, size: u64) -> Result<u64> {
        let mut bytes = self.read(address, size)?;
        bytes.resize(8, 0);
        Ok(u64::from_le_bytes(bytes.try_into().unwrap()))
    }

    pub(super) fn user(&self, address: u64, size: usize) -> Result<u64> {
        let mut bytes = [0; 8];
        match self.world.copyin(address, &mut bytes[..size]) {
            true => Ok(u64::from_le_bytes(bytes)),
            false => bad(address),
        }
    }

    /// Returns the bytes at an address, if the program may write them.
    pub(super) fn writable(&mut self, address: u64, length: u64) -> Result<&mut [u8]> {
        let found = ObjectAddress::of(address).and_then(std::result::Result::ok);
        let room = found.and_then(|found| {
            let all: &mut [u8] = match found.region {
                Region::Scratch => &mut self.scratch[..self.used],
                Region::Global | Region::Local => {
                    &mut self.references.get_mut(&(region(found.region), found.item as u16))?.1
                }
                Region::Dynamic => self.contents.get_mut(found.item as usize)?,
                Region::Literals | Region::Text => return None,
            };
            let end = u64::from(found.offset).checked_add(length)?;
            all.get_mut(found.offset as usize..usize::try_from(end).ok()?)
        });
        room.ok_or((Fault::BadAddress, address))
    }

    pub(super) fn store(&mut self, value: u64, size: u64, address: u64) -> Result<()> {
        let room = self.writable(address, size)?;
        if !address.is_multiple_of(size) {
            return Err((Fault::BadAlignment, address));
        }
        room.copy_from_slice(&value.to_le_bytes()[..size as usize]);
        Ok(())
    }

    /// Copies in parts of 64 bytes, from the end if the overlap of the places requires that.
    pub(super) fn copy(&mut self, from: u64, to: u64, length: u64) -> Result<()> {
        self.writable(to, length)?;
        let mut parts: Vec<_> = (0..length).step_by(64).collect();
        if from < to && to < from.saturating_add(length) {
            parts.reverse();
        }
        for at in parts {
            let count = (length - at).min(64);
            // A literal goes on with zeroes, and so does a name, in which it begins.
            let place = ObjectAddress::of(from).and_then(std::result::Result::ok);
            let length = place.and_then(|place| match place.region {
                Region::Literals => Some(4096),
                Region::Text => {
                    let length = self.ours(place)?.len() as u64;
                    Some(length).filter(|length| u64::from(place.offset) <= *length)
                }
                _ => None,
            });
            let there = length.zip(place).map_or(count, |(length, place)| {
                length.saturating_sub(u64::from(place.offset).saturating_add(at)).min(count)
            });
            let mut bytes = self.read(from.wrapping_add(at), there)?;
            bytes.resize(count as usize, 0);
            self.writable(to.wrapping_add(at), bytes.len() as u64)?.copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// Shorter data are filled with zeroes up to this number of bytes.
    pub(super) fn copy_padded(&mut self, from: u64, to: u64, length: u64) -> Result<()> {
        self.writable(to, length)?;
        let found = ObjectAddress::of(from).and_then(std::result::Result::ok);
        let room =
            found.and_then(|found| self.ours(found)?.len().checked_sub(found.offset as usize));
        let there = room.map_or(length, |room| length.min(room as u64));
        self.copy(from, to, there)?;
        self.writable(to.wrapping_add(there), length - there)?.fill(0);
        Ok(())
    }

    /// Reads a string of at most `limit` bytes, without its zero byte.
    pub(super) fn string(&self, address: u64, limit: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for at in 0..limit {
            match self.byte(address.wrapping_add(at))? {
                0 => break,
                byte => bytes.push(byte),
            }
        }
        Ok(bytes)
    }

    pub(super) fn compare(&self, a: u64, b: u64) -> Result<i32> {
        if a == b {
            return Ok(0);
        }
        for at in 0..u64::from(STRING) {
            let byte = |start: u64| match start {
                0 => Ok(0),
                _ => self.byte(start.wrapping_add(at)),
            };
            let (one, other) = (byte(a)?, byte(b)?);
            if one != other {
                return Ok(i32::from(one) - i32::from(other));
            }
            if one == 0 {
                break;
            }
        }
        Ok(0)
    }

    pub(super) fn allocate(&mut self, size: u64, aligned: bool) -> Result<u64> {
        let start = if aligned { self.used.next_multiple_of(8) } else { self.used };
        let end = u128::from(size) + start as u128;
        if end > SCRATCH as u128 {
            return stop(Fault::NoScratch);
        }
        self.scratch[self.used..end as usize].fill(0);
        self.used = end as usize;
        Ok(place(Region::Scratch, 0, start))
    }

    /// Allocates scratch space for a string, and writes it there. Cuts a string that is too long.
    pub(super) fn give(&mut self, text: &[u8]) -> Result<u64> {
        let at = self.allocate(STRING.into(), false)?;
        self.fill(at, text);
        Ok(at)
    }

    pub(super) fn fill(&mut self, at: u64, text: &[u8]) {
        let text = &text[..text.len().min(STRING as usize - 1)];
        let text = text.split(|&byte| byte == 0).next().unwrap();
        self.writable(at, text.len() as u64).unwrap().copy_from_slice(text);
    }
}
