//! Steps: actions on a number that needs no program.

use super::field::Field;
use crate::machine::Simple;
use crate::machine::aggregation::Function;

/// An action on a number that is computed without the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) what: Simple,
    /// The number of its action, from 1.
    pub(crate) action: u32,
    pub(crate) then: Then,
}

/// The tag is a number of its own, so that a hit does not compute it from a field.
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

impl Step {
    /// The initial element of arrays.
    pub(crate) const EMPTY: Self =
        Self { what: Simple::Constant(0), action: 0, then: Then::Record(Field::NOWHERE) };
}
