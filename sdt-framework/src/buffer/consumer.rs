//! Consumers: those for whom probes are enabled and records are kept.

use core::fmt;
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::buffer::Record;
use crate::buffer::ring::Ring;
use crate::sync::{Count, Mutex};

/// An open consumer. Numbers start at 1; that of a closed consumer is not given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(NonZeroU32);

impl ConsumerId {
    /// The consumer with this number; `None` for 0.
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Its number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// Why a consumer's request was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConsumerError {
    /// The consumer is not open, or not any more.
    NotOpen(ConsumerId),
    /// All consumers there is room for are open.
    TooManyConsumers {
        /// How many that is.
        max: usize,
    },
    /// The host has more CPUs than there are buffers.
    TooManyCpus {
        /// CPUs of the host.
        cpus: usize,
        /// CPUs there is room for.
        max: usize,
    },
    /// There is no such CPU.
    NoCpu(usize),
    /// There are not enough enabling control blocks left.
    TooManyEnablings {
        /// How many are needed.
        needed: usize,
        /// How many are left.
        left: usize,
    },
}

impl fmt::Display for ConsumerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOpen(id) => write!(f, "consumer {} is not open", id.get()),
            Self::TooManyConsumers { max } => {
                write!(f, "{max} consumers are open and no more are possible; close one")
            }
            Self::TooManyCpus { cpus, max } => {
                write!(f, "the kernel has {cpus} CPUs, the framework was built for {max}")
            }
            Self::NoCpu(cpu) => write!(f, "there is no CPU {cpu}"),
            Self::TooManyEnablings { needed, left } => {
                write!(f, "{needed} probes match and only {left} enablings are left; enable fewer")
            }
        }
    }
}

impl core::error::Error for ConsumerError {}

/// The reader's side of one buffer.
#[derive(Debug)]
pub(crate) struct Reader {
    /// How many of the buffer's drops have been reported.
    pub(crate) reported: Count,
}

/// One CPU's records for one consumer.
#[derive(Debug)]
pub(crate) struct Buffer<const RECORDS: usize> {
    pub(crate) ring: Ring<Record, RECORDS>,
    /// Who holds it is the ring's reader. Never held over a call of anyone's.
    pub(crate) reader: Mutex<Reader>,
}

/// Room for one consumer.
#[derive(Debug)]
pub(crate) struct Consumer<const CPUS: usize, const RECORDS: usize> {
    /// Its number, 0 when closed. Changed with the framework locked only.
    pub(crate) number: AtomicU32,
    /// Whether records are written. Read in probe context.
    pub(crate) going: AtomicBool,
    pub(crate) buffers: [Buffer<RECORDS>; CPUS],
}

impl<const CPUS: usize, const RECORDS: usize> Consumer<CPUS, RECORDS> {
    /// A closed consumer; all zeros.
    pub(crate) const fn closed() -> Self {
        Self {
            number: AtomicU32::new(0),
            going: AtomicBool::new(false),
            buffers: [const { Buffer { ring: Ring::new(), reader: Mutex::new(Reader { reported: 0 }) } };
                CPUS],
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.number.load(Ordering::Acquire) != 0
    }

    pub(crate) fn is(&self, id: ConsumerId) -> bool {
        self.number.load(Ordering::Acquire) == id.get()
    }
}
