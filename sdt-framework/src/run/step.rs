//! Steps: actions that need no program, or only the string of an argument.

use super::field::Field;
use crate::machine::aggregation::Function;
use crate::machine::{ArgumentText, Simple};

/// An action that runs without the machine. The tag is a number of its own, so that a hit does not compute it from a field.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Step {
    /// It uses a number that is computed without the machine.
    Number {
        /// The number of its action, from 1.
        action: u32,
        what: Simple,
        then: Then,
    },
    /// It stores a string.
    Text(TextStep),
}

const _: () = assert!(size_of::<Step>() <= 64, "a cache line");

/// The use of a number. The tag is a number of its own, so that a hit does not compute it from a field.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Then {
    /// It is stored in the record.
    Record(Field),
    /// It is the status with which the consumer exits, and is stored in the record.
    Exit(Field),
    /// It is a key.
    Key(Field),
    /// It is aggregated.
    Value {
        /// The first word of the tuple is the number of the aggregation, the second word is the number of its variable.
        id: u32,
        variable: u64,
        /// Words of the tuple.
        keys: u32,
        function: Function,
    },
}

/// An action that stores the string of an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextStep {
    pub(crate) text: ArgumentText,
    pub(crate) place: TextPlace,
    /// The number of its action, from 1.
    pub(crate) action: u32,
    /// The offset of the string, a multiple of 8, and the size of its place in bytes.
    pub(crate) offset: u32,
    pub(crate) size: u32,
}

/// The place of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextPlace {
    Record,
    /// A key that another key follows.
    Key,
    /// The last key of a tuple, whose words after the string count as zeroes.
    LastKey,
}

impl Step {
    /// The initial element of arrays.
    pub(crate) const EMPTY: Self =
        Self::Number { action: 0, what: Simple::Constant(0), then: Then::Record(Field::NOWHERE) };

    /// Returns whether the action stores a string.
    pub(crate) const fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }
}
