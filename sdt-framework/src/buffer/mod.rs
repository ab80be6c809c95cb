//! What a firing leaves behind, and for whom: consumers, and a buffer for each CPU of theirs.

mod consumer;
mod record;
pub(crate) mod ring;

pub(crate) use consumer::{Buffer, Consumer};
pub use consumer::{ConsumerError, ConsumerId};
pub use record::{ARGS, Record};
