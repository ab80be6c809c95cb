//! Enabling control blocks: what happens when an enabled probe fires.

mod budget;
pub(crate) mod chain;
mod consuming;
mod enabling;
mod fire;
pub(crate) mod live;
mod look;
mod matching;
pub(crate) mod pool;
mod retained;

pub(crate) use enabling::Wanted;
pub(crate) use fire::{Brought, Tally};
pub(crate) use look::look;
pub(crate) use matching::BATCH;
pub(crate) use retained::Retained;

use core::ptr::NonNull;

use crate::buffer::Recording;
use crate::program::clause::Clause;
use chain::Node;

/// One enabling of one probe by one consumer. Read in probe context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ecb {
    /// Index of the consumer.
    pub(crate) consumer: usize,
    /// Number of the enabled probe.
    pub(crate) epid: u32,
    /// What it does.
    pub(crate) what: What,
}

/// What an ECB does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// It records arguments.
    Args(Recording),
    /// It does what a program says. The clause is there as long as the consumer has ECBs, and until every CPU has left
    /// probe context after that.
    Clause(NonNull<Clause>),
}

// SAFETY: a clause never changes, and is looked at while it is there.
unsafe impl Send for What {}

impl What {
    /// The clause, if there is one.
    ///
    /// # Safety
    /// It is there: see [`Clause`](Self::Clause).
    pub(crate) unsafe fn clause<'a>(self) -> Option<&'a Clause> {
        match self {
            Self::Args(_) => None,
            // SAFETY: by the contract above.
            Self::Clause(clause) => Some(unsafe { clause.as_ref() }),
        }
    }
}

/// An ECB with its link to the next one of the same probe.
pub(crate) type EcbNode = Node<Ecb>;
