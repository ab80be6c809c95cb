//! Enabling control blocks: what happens when an enabled probe fires.

pub(crate) mod chain;
pub(crate) mod enabling;
mod fire;
mod look;

pub(crate) use fire::Brought;
pub(crate) use look::look;

use chain::Node;

/// One thing that is done for an enabling when its probe fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Write a [`Record`](crate::Record) (DTrace's default action).
    Trace,
}

/// What an enabling without a clause body does.
pub(crate) const DEFAULT_ACTIONS: &[Action] = &[Action::Trace];

/// One enabling of one probe by one consumer. Read in probe context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ecb {
    /// Index of the consumer.
    pub(crate) consumer: usize,
    /// Done in this order.
    pub(crate) actions: &'static [Action],
}

/// An ECB with its link to the next one of the same probe.
pub(crate) type EcbNode = Node<Ecb>;
