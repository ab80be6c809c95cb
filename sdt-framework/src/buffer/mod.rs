//! What a firing leaves behind, and for whom: consumers, and a buffer for each CPU of theirs.

mod consumer;
mod error;
mod reading;
mod record;
pub(crate) mod ring;

pub use consumer::ConsumerId;
pub(crate) use consumer::{Buffer, Consumer, allocate, free};
pub use error::ConsumerError;
pub(crate) use record::Event;
pub use record::{ARGS, Firing, HEADER, LONGEST, Record, Recording, Records};
