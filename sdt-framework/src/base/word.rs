//! 64-bit words that several CPUs read and write.

#[cfg(target_has_atomic = "64")]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering;

/// 64 bits that all CPUs share. They are read and written as a whole if the machine has 64-bit atomics, otherwise in
/// halves.
#[derive(Debug)]
pub struct Word(
    #[cfg(target_has_atomic = "64")] AtomicU64,
    #[cfg(not(target_has_atomic = "64"))] [core::sync::atomic::AtomicU32; 2],
);

#[cfg(target_has_atomic = "64")]
impl Word {
    /// Returns a word that is 0.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns the value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Writes the value.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

#[cfg(not(target_has_atomic = "64"))]
impl Word {
    /// Returns a word that is 0.
    pub const fn new() -> Self {
        Self([const { core::sync::atomic::AtomicU32::new(0) }; 2])
    }

    /// Returns the value.
    pub fn get(&self) -> u64 {
        let [low, high] = &self.0;
        u64::from(high.load(Ordering::Relaxed)) << 32 | u64::from(low.load(Ordering::Relaxed))
    }

    /// Writes the value.
    pub fn set(&self, value: u64) {
        let [low, high] = &self.0;
        low.store(value as u32, Ordering::Relaxed);
        high.store((value >> 32) as u32, Ordering::Relaxed);
    }
}

impl Default for Word {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads bytes from words, beginning at a byte offset. `None`: the words end before `into` is full.
pub(crate) fn read(words: &[Word], offset: usize, into: &mut [u8]) -> Option<()> {
    let mut at = offset;
    let mut to = into;
    while !to.is_empty() {
        let bytes = words.get(at / 8)?.get().to_le_bytes();
        // Most words are read whole, and a copy of constant length is one instruction.
        let count = if at.is_multiple_of(8) && to.len() >= 8 {
            *to.first_chunk_mut()? = bytes;
            8
        } else {
            let from = bytes.iter().skip(at % 8);
            let count = from.len().min(to.len());
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            count
        };
        to = to.get_mut(count..)?;
        at = at.checked_add(count)?;
    }
    Some(())
}

/// Writes bytes to words. `None`: the words end before all of `from` is written; the bytes that fit may be written.
///
/// A word that is written in part is read first, so a simultaneous store of another CPU to the rest of the word is lost.
pub(crate) fn write(words: &[Word], offset: usize, from: &[u8]) -> Option<()> {
    let mut at = offset;
    let mut from = from;
    while !from.is_empty() {
        let word = words.get(at / 8)?;
        let count = if at.is_multiple_of(8) && from.len() >= 8 {
            word.set(u64::from_le_bytes(*from.first_chunk()?));
            8
        } else {
            let mut bytes = word.get().to_le_bytes();
            let to = bytes.iter_mut().skip(at % 8);
            let count = to.len().min(from.len());
            to.zip(from).for_each(|(to, from)| *to = *from);
            word.set(u64::from_le_bytes(bytes));
            count
        };
        from = from.get(count..)?;
        at = at.checked_add(count)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_are_bytes(writes in prop::collection::vec((0..40usize, prop::collection::vec(any::<u8>(), 0..24)), 0..20)) {
            let words: [Word; 6] = Default::default();
            let mut bytes = [0u8; 48];
            for (offset, from) in writes {
                let room = bytes.get_mut(offset..offset + from.len());
                prop_assert_eq!(write(&words, offset, &from).is_some(), room.is_some());
                if let Some(room) = room {
                    room.copy_from_slice(&from);
                } else {
                    // The bytes that fit are written.
                    let room = &mut bytes[offset..];
                    let count = room.len();
                    room.copy_from_slice(&from[..count]);
                }
                let mut all = [0; 48];
                prop_assert!(read(&words, 0, &mut all).is_some());
                prop_assert_eq!(all, bytes);
                let mut some = vec![0; from.len()];
                let expected = bytes.get(offset..offset + from.len());
                prop_assert_eq!(read(&words, offset, &mut some).is_some(), expected.is_some());
                if let Some(expected) = expected {
                    prop_assert_eq!(&some[..], expected);
                }
            }
        }
    }
}
