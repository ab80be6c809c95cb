//! The options of a run that the kernel uses (`dtrace_state_option`, dtrace.c).

use dtrace_abi::option::{BufPolicy, BufResize, OptionId, UNSET};

use crate::run::make::Sizes;

/// The number of options.
const COUNT: usize = 32;

/// The options that a consumer has set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options([i64; COUNT]);

/// The error for an option that is unknown, or that does not accept the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

impl Options {
    /// Creates options, none of which is set.
    pub(crate) const fn new() -> Self {
        Self([UNSET; COUNT])
    }

    /// Sets an option, on a machine with this number of CPUs. For an option that only the consumer uses, every value that is not
    /// negative is accepted.
    pub(crate) fn set(&mut self, option: u32, value: i64, cpus: usize) -> Result<(), Refused> {
        let id = OptionId::from_number(option).ok_or(Refused)?;
        let is_cpu = |value| usize::try_from(value).is_ok_and(|cpu| cpu < cpus);
        let is_right = id.values().contains(&value) && (id != OptionId::Cpu || is_cpu(value));
        let place = self.0.get_mut(option as usize).filter(|_| is_right).ok_or(Refused)?;
        *place = value;
        Ok(())
    }

    /// Returns the first option that is set and has this number or a greater one.
    pub(crate) fn next(&self, from: u32) -> Option<(u32, i64)> {
        (0..).zip(self.0).skip(from as usize).find(|(_, value)| *value != UNSET)
    }

    /// Lowers the chosen sizes to those for which there was room, so that the consumer can read them.
    pub(crate) fn lower(&mut self, sizes: Sizes) {
        for (id, words) in [
            (OptionId::Bufsize, sizes.records),
            (OptionId::Aggsize, sizes.aggregations),
            (OptionId::Dynvarsize, sizes.dynamic),
            (OptionId::Specsize, sizes.speculative),
        ] {
            let bytes = i64::try_from(words.saturating_mul(8)).unwrap_or(i64::MAX);
            // A program without aggregations has no buffer for them.
            if let Some(value) = self.0.get_mut(id.number() as usize)
                && bytes != 0
                && *value > bytes
            {
                *value = bytes;
            }
        }
    }

    fn get(&self, id: OptionId) -> Option<i64> {
        self.0.get(id.number() as usize).copied().filter(|value| *value != UNSET)
    }

    /// Returns the value of an option, if it is set and not negative.
    fn size(&self, id: OptionId) -> Option<usize> {
        usize::try_from(self.get(id)?).ok()
    }

    /// Returns the only traced CPU, if the consumer has chosen one.
    pub(crate) fn cpu(&self) -> Option<usize> {
        self.size(OptionId::Cpu)
    }

    /// Returns the greatest size of a string in bytes.
    pub(crate) fn string(&self) -> u32 {
        self.get(OptionId::Strsize).map_or(256, |size| size as u32)
    }

    /// Returns the size of a buffer of records in bytes, if it is set.
    pub(crate) fn records(&self) -> Option<usize> {
        self.size(OptionId::Bufsize)
    }

    /// Returns the size of a buffer of aggregations in bytes, if it is set.
    pub(crate) fn aggregations(&self) -> Option<usize> {
        self.size(OptionId::Aggsize)
    }

    /// Returns the size of the memory for dynamic variables in bytes, if it is set.
    pub(crate) fn dynamic(&self) -> Option<usize> {
        self.size(OptionId::Dynvarsize)
    }

    /// Returns the number of speculations, and the size in bytes of the buffer of each.
    pub(crate) fn speculations(&self) -> (usize, usize) {
        let count = self.size(OptionId::Nspec).unwrap_or(1);
        (count, self.size(OptionId::Specsize).unwrap_or(32 * 1024))
    }

    /// Returns the policy for full buffers of records.
    pub(crate) fn policy(&self) -> BufPolicy {
        let number = self.get(OptionId::Bufpolicy).and_then(|value| u32::try_from(value).ok());
        number.and_then(BufPolicy::from_number).unwrap_or(BufPolicy::Switch)
    }

    /// Returns whether sizes for which there is no room are halved until there is.
    pub(crate) fn halves(&self) -> bool {
        self.get(OptionId::Bufresize) != Some(BufResize::Manual.number().into())
    }

    /// Returns whether destructive actions are allowed.
    pub(crate) fn destructive(&self) -> bool {
        // `-w` has no value, which is 0.
        self.get(OptionId::Destructive).is_some()
    }

    /// Returns the default numbers of frames for `stack()`, `ustack()` and `jstack()`, and the bytes for the names of
    /// `jstack()`'s frames.
    pub(crate) fn frames(&self) -> Frames {
        let of = |id, default| self.get(id).map_or(default, |count| count as u32);
        Frames {
            stack: of(OptionId::Stackframes, 20),
            ustack: of(OptionId::Ustackframes, 20),
            jstack: of(OptionId::Jstackframes, 50),
            names: of(OptionId::Jstackstrsize, 512),
        }
    }
}

/// The numbers of frames for actions without an explicit number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames {
    pub(crate) stack: u32,
    pub(crate) ustack: u32,
    pub(crate) jstack: u32,
    pub(crate) names: u32,
}
