//! Enabling control blocks: what happens when an enabled probe fires.

pub(crate) mod chain;
mod consuming;
mod enabling;
mod fire;
mod look;
mod matching;
mod retained;

pub(crate) use fire::Brought;
pub(crate) use look::look;
pub(crate) use matching::BATCH;
pub(crate) use retained::Retained;

use crate::buffer::Recording;
use chain::Node;

/// One enabling of one probe by one consumer. Read in probe context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ecb {
    /// Index of the consumer.
    pub(crate) consumer: usize,
    /// Number of the enabled probe.
    pub(crate) epid: u32,
    /// What it records.
    pub(crate) recording: Recording,
}

/// An ECB with its link to the next one of the same probe.
pub(crate) type EcbNode = Node<Ecb>;
