//! Memory access of programs: reads, writes, copies and compares memory at their addresses. Probe context.

#[cfg(doc)]
use dtrace_abi::dif::DifType;
use dtrace_abi::fault::Fault;

use super::address::{MOST, ObjectAddress, Region};
use super::failure::Stop;
use super::firing::Firing;
use super::op::{Shape, Width};
use super::work::{BYTE, LINE, OWN};
use crate::base::word::{self, Word};
use crate::kernel::Kernel;

/// A cache of the bytes that were read last. Programs usually read the bytes of a string in order, so several bytes are read at a
/// time.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    bytes: [u8; Self::SIZE],
    start: u64,
    length: u64,
}

impl Cursor {
    /// The largest number of bytes that are read at a time.
    pub(crate) const SIZE: usize = 32;

    /// Returns the byte at an address that the cursor contains.
    #[inline(always)]
    fn byte(&self, address: u64) -> Result<u8, Stop> {
        let at = address.wrapping_sub(self.start) as usize;
        self.bytes.get(at).copied().ok_or(bad_address(address))
    }
}

/// Returns the position of the first zero.
#[inline(always)]
pub(super) fn nul(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The lowest bit that is set belongs to the first zero byte.
        let zeros = word.wrapping_sub(ONES) & !word & ONES << 7;
        if zeros != 0 {
            return Some(index * 8 + (zeros.trailing_zeros() / 8) as usize);
        }
    }
    let found = rest.iter().position(|byte| *byte == 0)?;
    Some(words.len() * 8 + found)
}

/// Fills `into` with memory of the kernel. Returns `false` if some of it is not in the kernel, is toxic, or cannot be read. The
/// caller has checked the consumer's rights.
#[inline]
pub(crate) fn load_kernel(kernel: &(impl Kernel + ?Sized), address: u64, into: &mut [u8]) -> bool {
    let length = into.len() as u64;
    // A range that reaches into the machine's own addresses, or wraps around, is not in the kernel.
    let last = address.checked_add(length.saturating_sub(1));
    ObjectAddress::of(address).is_none()
        && last.is_some_and(|last| ObjectAddress::of(last).is_none())
        && !kernel.is_toxic(address, length)
        && kernel.load(address, into)
}

const fn bad_address(address: u64) -> Stop {
    Stop::at(Fault::BadAddress, address)
}

impl<K: Kernel> Firing<'_, K> {
    /// Subtracts units of work from the budget of the hit.
    #[inline(always)]
    pub(crate) fn charge(&self, units: u64) -> Result<(), Stop> {
        match u64::from(self.work.get()).checked_sub(units) {
            Some(left) => {
                self.work.set(left as u32);
                Ok(())
            }
            None => Err(self.exhausted()),
        }
    }

    /// Sets the remaining budget to 0, and returns the fault.
    #[cold]
    fn exhausted(&self) -> Stop {
        self.work.set(0);
        Stop::new(Fault::IllegalOperation)
    }

    /// Charges a copy from or to the process.
    pub(crate) fn charge_user(&self, bytes: u64) -> Result<(), Stop> {
        self.charge(u64::from(self.kernel.costs().user) + bytes / 8)
    }

    /// Returns the byte at an address, from the cursor if it contains that byte.
    #[inline]
    pub(crate) fn byte(&mut self, cursor: &mut Cursor, address: u64) -> Result<u8, Stop> {
        self.charge(BYTE)?;
        if address.wrapping_sub(cursor.start) >= cursor.length {
            return self.fill(cursor, address);
        }
        cursor.byte(address)
    }

    /// Returns the bytes of the cursor from an address on, at least one. Reads them if the cursor does not contain the address.
    #[inline]
    pub(crate) fn line<'c>(
        &mut self,
        cursor: &'c mut Cursor,
        address: u64,
    ) -> Result<&'c [u8], Stop> {
        self.byte(cursor, address)?;
        let at = address.wrapping_sub(cursor.start) as usize;
        Ok(cursor.bytes.get(at..cursor.length as usize).unwrap_or_default())
    }

    fn fill(&mut self, cursor: &mut Cursor, address: u64) -> Result<u8, Stop> {
        let most = Cursor::SIZE as u64;
        self.charge(LINE)?;
        (cursor.start, cursor.length) = (address, 0);
        if ObjectAddress::of(address).is_none() {
            // Reads a whole aligned line. If a part of it is unreadable, the code below reads only one byte.
            let start = address & !(most - 1);
            if self.load_kernel(start, &mut cursor.bytes).is_ok() {
                (cursor.start, cursor.length) = (start, most);
                return cursor.byte(address);
            }
        } else if let Some(length) = self.own_length(address) {
            if length == 0 {
                // The address is the end of the object. A string that fills its variable has no NUL, and ends here.
                (cursor.bytes, cursor.length) = ([0; Cursor::SIZE], 1);
                return Ok(0);
            }
            let length = length.min(most);
            if let Some(bytes) = cursor.bytes.get_mut(..length as usize) {
                self.load_own(address, bytes).ok_or(bad_address(address))?;
                cursor.length = length;
                return cursor.byte(address);
            }
        }
        let mut byte = [0];
        self.read(address, &mut byte)?;
        let [byte] = byte;
        if let Some(first) = cursor.bytes.first_mut() {
            *first = byte;
            cursor.length = 1;
        }
        Ok(byte)
    }

    /// Reads bytes at any address that the consumer may read.
    ///
    /// # Errors
    ///
    /// A fault if the bytes cannot be read, or if the consumer may not read them.
    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Stop> {
        if into.is_empty() {
            return Ok(());
        }
        match ObjectAddress::of(address) {
            None => self.load_kernel(address, into),
            Some(_) => {
                self.charge(OWN + into.len() as u64)?;
                self.load_own(address, into).ok_or(bad_address(address))
            }
        }
    }

    fn load_kernel(&self, address: u64, into: &mut [u8]) -> Result<(), Stop> {
        if !self.access.kernel {
            return Err(Stop::at(Fault::KernelPrivilege, address));
        }
        let length = into.len() as u64;
        self.charge(u64::from(self.kernel.costs().load) + length / 4)?;
        if load_kernel(self.kernel, address, into) { Ok(()) } else { Err(bad_address(address)) }
    }

    /// Returns the number of bytes from one of the machine's own addresses to the end of its object.
    fn own_length(&self, address: u64) -> Option<u64> {
        let place = ObjectAddress::of(address)?.ok()?;
        let memory = self.memory;
        let length = match place.region {
            // Only scratch space that was allocated in this clause is accessible.
            Region::Scratch => self.used as u64,
            Region::Literals => memory.literals.len() as u64 * 8,
            Region::Global => memory.globals.referred(0, place.item)?.2.into(),
            Region::Local => memory.locals.referred(self.cpu, place.item)?.2.into(),
            Region::Dynamic => memory.dynamic.value(place.item)?.1.into(),
            Region::Text => self.text(place.item)?.len() as u64 + 1,
        };
        length.checked_sub(place.offset.into())
    }

    fn load_own(&self, address: u64, into: &mut [u8]) -> Option<()> {
        let place = ObjectAddress::of(address)?.ok()?;
        if self.own_length(address)? < into.len() as u64 {
            return None;
        }
        let memory = self.memory;
        let offset = place.offset as usize;
        let words = match place.region {
            Region::Scratch => {
                let from = self.room.scratch.get(offset..)?;
                into.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                return Some(());
            }
            Region::Text => {
                let from = self.text(place.item)?.get(offset..)?.iter().chain(&[0]);
                into.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                return Some(());
            }
            Region::Literals => memory.literals,
            Region::Global => memory.globals.referred(0, place.item)?.1,
            Region::Local => memory.locals.referred(self.cpu, place.item)?.1,
            Region::Dynamic => memory.dynamic.value(place.item)?.0,
        };
        word::read(words, offset, into)
    }

    /// Writes bytes to memory of the program: scratch space or a variable.
    pub(crate) fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Stop> {
        self.charge(OWN + from.len() as u64)?;
        self.store_own(address, from).ok_or(bad_address(address))
    }

    fn store_own(&mut self, address: u64, from: &[u8]) -> Option<()> {
        let place = ObjectAddress::of(address)?.ok()?;
        if self.own_length(address)? < from.len() as u64 {
            return None;
        }
        let memory = self.memory;
        let offset = place.offset as usize;
        let words = match place.region {
            Region::Scratch => {
                let to = self.room.scratch.get_mut(offset..)?;
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                return Some(());
            }
            Region::Literals | Region::Text => return None,
            Region::Global => memory.globals.referred(0, place.item)?.1,
            Region::Local => memory.locals.referred(self.cpu, place.item)?.1,
            Region::Dynamic => memory.dynamic.value(place.item)?.0,
        };
        word::write(words, offset, from)
    }

    /// Returns a fault unless the program can write these bytes.
    pub(crate) fn check_store(&self, address: u64, length: u64) -> Result<(), Stop> {
        let writable = ObjectAddress::of(address).is_some_and(|place| {
            place.is_ok_and(|place| !matches!(place.region, Region::Literals | Region::Text))
        });
        match self.own_length(address) {
            Some(there) if writable && length <= there => Ok(()),
            _ => Err(bad_address(address)),
        }
    }

    /// Loads a number.
    #[inline]
    pub(crate) fn load(&self, width: Width, address: u64) -> Result<u64, Stop> {
        let count = width.bytes() as usize;
        if self.kernel.aligned() && address & (count as u64 - 1) != 0 {
            return Err(Stop::at(Fault::BadAlignment, address));
        }
        let mut bytes = [0; 8];
        let some = bytes.get_mut(..count).ok_or(bad_address(address))?;
        self.read(address, some)?;
        Ok(width.extend(u64::from_le_bytes(bytes)))
    }

    /// Loads a number from the process that runs.
    pub(crate) fn load_user(&self, width: Width, address: u64) -> Result<u64, Stop> {
        self.charge_user(width.bytes().into())?;
        let mut bytes = [0; 8];
        let some = bytes.get_mut(..width.bytes() as usize).ok_or(bad_address(address))?;
        if !self.kernel.copyin(address, some) {
            return Err(bad_address(address));
        }
        Ok(width.extend(u64::from_le_bytes(bytes)))
    }

    /// Stores a number.
    pub(crate) fn store(&mut self, width: Width, value: u64, address: u64) -> Result<(), Stop> {
        let count = u64::from(width.bytes());
        self.check_store(address, count)?;
        if address & (count - 1) != 0 {
            return Err(Stop::at(Fault::BadAlignment, address));
        }
        let bytes = value.to_le_bytes();
        self.write(address, bytes.get(..count as usize).unwrap_or_default())
    }

    /// Copies bytes. The two ranges may overlap.
    pub(crate) fn copy(&mut self, from: u64, to: u64, length: u64) -> Result<(), Stop> {
        const PART: u64 = 64;
        self.check_store(to, length)?;
        let mut part = [0; PART as usize];
        // Bytes must be read before they are overwritten.
        let backward = from < to && to < from.saturating_add(length);
        // A program can copy a literal or a text with the full size of a string (`strsize`). The bytes after the end are zeroes.
        let there = match ObjectAddress::of(from) {
            Some(Ok(ObjectAddress { region: Region::Literals, .. })) => {
                self.own_length(from).unwrap_or(0)
            }
            Some(Ok(ObjectAddress { region: Region::Text, .. })) => {
                self.own_length(from).unwrap_or(u64::MAX)
            }
            _ => u64::MAX,
        };
        let parts = length.div_ceil(PART);
        for index in 0..parts {
            let index = if backward { parts - 1 - index } else { index };
            let at = index * PART;
            let count = (length - at).min(PART);
            let Some(part) = part.get_mut(..count as usize) else { break };
            part.fill(0);
            let known = count.min(there.saturating_sub(at)) as usize;
            self.read(from.wrapping_add(at), part.get_mut(..known).unwrap_or_default())?;
            self.write(to.wrapping_add(at), part)?;
        }
        Ok(())
    }

    /// Copies like [`copy`](Self::copy), and writes zeroes after the end of a source object that is shorter than `length` (the
    /// instruction `copys`).
    pub(crate) fn copy_padded(&mut self, from: u64, to: u64, length: u64) -> Result<(), Stop> {
        self.check_store(to, length)?;
        let there = self.own_length(from).map_or(length, |there| there.min(length));
        self.copy(from, to, there)?;
        let zeros = [0; 64];
        let mut at = there;
        while at < length {
            let count = (length - at).min(zeros.len() as u64);
            self.write(to.wrapping_add(at), zeros.get(..count as usize).unwrap_or_default())?;
            at += count;
        }
        Ok(())
    }

    /// Copies a string of at most `most` bytes, with its NUL if the NUL fits. Returns the number of copied bytes without the NUL.
    pub(crate) fn copy_string(&mut self, from: u64, to: u64, most: u64) -> Result<u64, Stop> {
        let mut cursor = Cursor::default();
        let mut at = 0;
        while at < most {
            let line = self.line(&mut cursor, from.wrapping_add(at))?;
            let line = line.get(..(most - at).min(line.len() as u64) as usize).unwrap_or_default();
            let end = nul(line);
            let line = line.get(..end.map_or(line.len(), |end| end + 1)).unwrap_or_default();
            self.write(to.wrapping_add(at), line)?;
            if let Some(end) = end {
                return Ok(at + end as u64);
            }
            at += line.len() as u64;
        }
        Ok(most)
    }

    /// Copies a value to a variable by reference.
    pub(crate) fn copy_value(&mut self, from: u64, to: u64, shape: Shape) -> Result<(), Stop> {
        match shape {
            Shape::Value => self.store(Width::U64, from, to),
            Shape::Bytes(size) => self.copy(from, to, size.into()),
            Shape::String(size) => self.copy_string(from, to, size.into()).map(drop),
        }
    }

    /// Returns the length of a string without its NUL. Reads at most `limit` bytes.
    pub(crate) fn length(&mut self, address: u64, limit: u64) -> Result<u64, Stop> {
        let mut cursor = Cursor::default();
        let mut at = 0;
        while at < limit {
            let line = self.line(&mut cursor, address.wrapping_add(at))?;
            if let Some(end) = nul(line) {
                return Ok(limit.min(at + end as u64));
            }
            at += line.len() as u64;
        }
        Ok(limit)
    }

    /// Compares strings as `strncmp` does; a string at address 0 is empty.
    pub(crate) fn compare(&mut self, one: u64, other: u64, limit: u64) -> Result<i64, Stop> {
        if one == other {
            return Ok(0);
        }
        let (mut at_one, mut at_other) = (Cursor::default(), Cursor::default());
        let mut at = 0;
        while at < limit {
            let a = self.line_or_end(&mut at_one, one, at)?;
            let b = self.line_or_end(&mut at_other, other, at)?;
            let both = a.iter().zip(b).take((limit - at) as usize);
            for (&a, &b) in both {
                if a != b {
                    return Ok(i64::from(a) - i64::from(b));
                }
                if a == 0 {
                    return Ok(0);
                }
            }
            at += a.len().min(b.len()) as u64;
        }
        Ok(0)
    }

    fn line_or_end<'c>(
        &mut self,
        cursor: &'c mut Cursor,
        start: u64,
        at: u64,
    ) -> Result<&'c [u8], Stop> {
        if start == 0 { Ok(&[0]) } else { self.line(cursor, start.wrapping_add(at)) }
    }

    /// Allocates scratch space that is filled with zeroes. Returns its address.
    pub(crate) fn allocate(&mut self, size: u64, aligned: bool) -> Result<u64, Stop> {
        let full = Stop::new(Fault::NoScratch);
        let start = if aligned { self.used.next_multiple_of(8) } else { self.used };
        let end =
            usize::try_from(size).ok().and_then(|size| start.checked_add(size)).ok_or(full)?;
        if end > MOST as usize {
            return Err(full);
        }
        if end > self.room.scratch.len() {
            return Err(full);
        }
        self.charge(size / 16)?;
        self.room.scratch.get_mut(self.used..end).ok_or(full)?.fill(0);
        self.used = end;
        Ok(ObjectAddress { region: Region::Scratch, item: 0, offset: start as u32 }.address())
    }

    /// Returns a fault if less than this number of bytes of scratch space is left.
    pub(crate) fn check_scratch(&self, size: u64) -> Result<(), Stop> {
        let left = self.room.scratch.len().saturating_sub(self.used);
        if size <= left as u64 { Ok(()) } else { Err(Stop::new(Fault::NoScratch)) }
    }

    /// Returns the address of a variable's value; 0 if it is NULL.
    pub(crate) fn load_ref(&self, region: Region, number: u16) -> Result<u64, Stop> {
        let (null, ..) = self.variable(region, number)?;
        let address = ObjectAddress::start(region, number.into()).address();
        Ok(if null.get() == 0 { address } else { 0 })
    }

    /// Assigns a variable by reference; 0 makes it NULL.
    pub(crate) fn store_ref(
        &mut self,
        region: Region,
        number: u16,
        shape: Shape,
        from: u64,
    ) -> Result<(), Stop> {
        let (null, ..) = self.variable(region, number)?;
        if from == 0 {
            null.set(u64::MAX);
            return Ok(());
        }
        null.set(0);
        self.copy_value(from, ObjectAddress::start(region, number.into()).address(), shape)
    }

    fn variable(&self, region: Region, number: u16) -> Result<(&Word, &[Word], u32), Stop> {
        let memory = self.memory;
        let found = match region {
            Region::Global => memory.globals.referred(0, number.into()),
            _ => memory.locals.referred(self.cpu, number.into()),
        };
        found.ok_or(Stop::new(Fault::IllegalOperation))
    }

    /// Reads the object of a value by reference, and fills all of `into`.
    ///
    /// # Errors
    ///
    /// A fault if the memory cannot be read, or if the consumer may not read it.
    pub fn fetch(&self, address: u64, into: &mut [u8]) -> Result<(), Stop> {
        self.read(address, into)
    }

    /// Reads a string into `into`, as much as fits. Returns the number of bytes, with the NUL if the NUL fits.
    ///
    /// # Errors
    ///
    /// A fault if the memory cannot be read, or if the consumer may not read it.
    pub fn fetch_string(&mut self, address: u64, into: &mut [u8]) -> Result<usize, Stop> {
        self.read_string(address, into.len(), |_, at, piece| {
            let to = into.get_mut(at..).unwrap_or_default();
            to.iter_mut().zip(piece).for_each(|(to, from)| *to = *from);
            Ok(())
        })
    }

    /// Reads a string of at most this number of bytes, and calls `put` with the position and the bytes of each piece, in order.
    /// Returns the number of bytes, with the NUL if the string has one.
    ///
    /// # Errors
    ///
    /// As [`fetch_string`](Self::fetch_string), and those of `put`.
    #[inline(always)]
    pub(crate) fn read_string(
        &mut self,
        address: u64,
        most: usize,
        mut put: impl FnMut(&Self, usize, &[u8]) -> Result<(), Stop>,
    ) -> Result<usize, Stop> {
        let mut cursor = Cursor::default();
        let mut at = 0;
        while at < most {
            let line = self.line(&mut cursor, address.wrapping_add(at as u64))?;
            let line = line.get(..most - at).unwrap_or(line);
            let end = nul(line);
            let piece = end.and_then(|end| line.get(..=end)).unwrap_or(line);
            put(self, at, piece)?;
            at += piece.len();
            if end.is_some() {
                break;
            }
        }
        Ok(at)
    }

    /// Reads the object of a value by reference in the process ([`DifType::BYUREF`]).
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub(crate) fn fetch_user(&self, address: u64, into: &mut [u8]) -> Result<(), Stop> {
        self.charge_user(into.len() as u64)?;
        if self.kernel.copyin(address, into) {
            Ok(())
        } else {
            Err(Stop::at(Fault::BadAddress, address))
        }
    }
}
