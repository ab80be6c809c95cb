//! What a consumer and a tracing framework say to each other, over any byte stream.
//!
//! # What this is
//!
//! A consumer asks, one [`Request`] a frame; the framework answers each with one frame, a [`Reply`] and the
//! items that belong to it. The kernel sends nothing without a request, except [`Reply::Gone`], after which
//! it sends nothing more. So a consumer that does not read delays no other one: its records stay in the
//! framework's buffers, and what does not fit there is counted where it always is.
//!
//! Every frame has a [channel](Header::channel): consumers that share a line, by a multiplexer, have one
//! each. A channel is greeted with [`Request::Hello`], which also ends whatever an earlier consumer on the
//! channel has left behind; [`Request::Close`] ends it. Channel [`OTHERS`] is never the framework's: a host may
//! have something else to say on the same line.
//!
//! A consumer's way: [`Hello`](Request::Hello); [`List`](Request::List) and [`Describe`](Request::Describe) at
//! any time; [`Open`](Request::Open), [`Option`](Request::Option), [`Program`](Request::Program), [`Go`](Request::Go), then
//! [`Snapshot`](Request::Snapshot) of each CPU's buffers and [`Run`](Request::Run) again and again; [`Stop`](Request::Stop), the
//! last snapshots; [`Close`](Request::Close).
//!
//! Messages borrow from the frame that they came in, nothing allocates, and whatever bytes arrive, a receiver
//! is in step again after the next zero byte.
//!
//! # What it is not
//!
//! The transport: that is the host's on one side, the crate `dtrace`'s on the other. Nor the formats of D programs and of
//! what they record, which are `dtrace-abi`'s. Frames neither authenticate nor encrypt: the peer on the line has the rights that the
//! framework gives it. A line that leaves the machine has another layer under them, [`secure`]; the ciphers are those of the two sides.
//!
//! # Where to read on
//!
//! [`Request`] and [`Reply`] are all that can be said, [`frame`] is how. The framework's side is `sdt_framework::server`,
//! the consumer's `dtrace::client`; for how they fit, `docs/architecture.md` of the project.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod frame;
mod message;
pub mod secure;

pub use frame::{Decoder, Frame, FrameError, Header, Items, OTHERS, TooLong, Writer};
pub use message::{
    Argument, DataOf, Datum, Declared, Detail, Probe, Reply, Request, Run, RunOption, Side, Site,
    SiteState, SnapshotOf, Status, Symbol, VERSION, Why,
};
