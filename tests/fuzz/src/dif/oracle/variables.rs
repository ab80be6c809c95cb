//! Variables: those with a place, and those of threads and arrays.

use dtrace_abi::dif::Variable;
use sdt_framework::testing::address::Region;

use super::super::world::CHUNK;
use super::{Key, Name, Oracle, Result, place};

/// Returns the number of words that a variable takes for itself and for its thread.
fn own_words(thread: bool) -> usize {
    1 + usize::from(thread)
}

impl Oracle<'_> {
    pub(super) fn assign(&mut self, variable: &Variable, from: u64, to: u64) -> Result<()> {
        let size = u64::from(variable.ty.size);
        if variable.ty.kind != 1 {
            return self.copy(from, to, size);
        }
        for at in 0..size {
            let byte = self.byte(from.wrapping_add(at))?;
            self.writable(to.wrapping_add(at), 1)?[0] = byte;
            if byte == 0 {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn name(&mut self, number: u16, thread: bool, alone: bool) -> Result<Option<Name>> {
        let mut keys = Vec::new();
        let mut words = own_words(thread);
        let tuple = if alone { Vec::new() } else { self.tuple.clone() };
        for (value, size) in tuple {
            words += 1;
            if words > CHUNK || size / 8 > CHUNK as u64 {
                return Ok(None);
            }
            let key = match size {
                0 => Key::Number(value),
                _ => {
                    // Reads as many words as fit.
                    let room = (CHUNK - words) as u64 * 8;
                    for at in (0..size.min(room + 8)).step_by(8) {
                        self.read(value.wrapping_add(at), (size - at).min(8))?;
                    }
                    if size > room {
                        return Ok(None);
                    }
                    Key::Bytes(size, self.read(value, size)?)
                }
            };
            words += key.words() - 1;
            keys.push(key);
        }
        Ok(Some((number, thread, keys)))
    }

    pub(super) fn store_dynamic(
        &mut self,
        name: Option<Name>,
        variable: &Variable,
        value: u64,
    ) -> Result<()> {
        if value == 0 {
            if let Some(chunk) = name.and_then(|name| self.chunks.remove(&name)) {
                // The host has one CPU, so no other CPU can be reading the chunk.
                self.free.push(chunk);
            }
            return Ok(());
        }
        let by_ref = variable.ty.flags & 1 != 0;
        let size = if by_ref { variable.ty.size.max(8) as usize } else { 8 };
        let Some(name) = name else {
            self.dropped = true;
            return Ok(());
        };
        let chunk = match self.chunks.get(&name) {
            Some(&chunk) => chunk,
            None => {
                let keys: usize = name.2.iter().map(Key::words).sum();
                if 2 + own_words(name.1) + keys + size.div_ceil(8) > CHUNK {
                    self.dropped = true;
                    return Ok(());
                }
                let Some(chunk) = self.free.pop() else {
                    self.dropped = true;
                    return Ok(());
                };
                self.contents[chunk] = vec![0; size];
                self.chunks.insert(name, chunk);
                chunk
            }
        };
        if by_ref {
            return self.assign(variable, value, place(Region::Dynamic, chunk, 0));
        }
        self.contents[chunk][..8].copy_from_slice(&value.to_le_bytes());
        Ok(())
    }
}
