//! What a firing leaves behind, and for whom: consumers, and a buffer for each CPU of theirs.

mod consumer;
mod data;
mod error;
mod pair;
mod reading;
mod record;
pub(crate) mod ring;
mod traced;

pub use consumer::ConsumerId;
pub(crate) use consumer::{Activity, Buffer, Consumer, allocate, free};
pub(crate) use data::{get_bytes, put_bytes, put_number};
pub use error::ConsumerError;
pub(crate) use pair::Pair;
pub(crate) use record::Event;
pub use record::{ARGS, Firing, HEADER, LONGEST, Record, Recording, Records};
pub(crate) use traced::{Policy, Traced, bits};
