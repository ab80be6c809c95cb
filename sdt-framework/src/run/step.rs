//! What is done with a number that is simply there.

use super::field::Field;
use crate::machine::Simple;
use crate::machine::aggregation::Function;

/// What is done with a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) what: Simple,
    /// Which action it is of, from 1.
    pub(crate) action: u32,
    pub(crate) then: Then,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    /// It is stored in the record.
    Record(Field),
    /// It is a key.
    Key(Field),
    /// It is aggregated.
    Value {
        /// The first word of the tuple, and the second: the number of the aggregation, and of its variable.
        id: u32,
        variable: u64,
        /// Words of the tuple.
        keys: u32,
        function: Function,
    },
}

impl Step {
    /// What an array of them is filled with.
    pub(crate) const EMPTY: Self =
        Self { what: Simple::Constant(0), action: 0, then: Then::Record(Field::NOWHERE) };
}
