//! The protocol between a consumer and a tracing framework, over any byte stream.
//!
//! # What this is
//!
//! A consumer sends frames with one [`Request`] each. The framework answers each with one frame: a [`Reply`] and its
//! items. The kernel sends nothing without a request, except [`Reply::Gone`], after which it sends nothing more. So a
//! consumer that does not read delays no other one: its records stay in the framework's buffers, and drops are counted
//! as usual.
//!
//! Every frame has a [channel](Header::channel): consumers that share a line through a multiplexer have one each.
//! [`Request::Hello`] greets a channel, and closes everything that an earlier consumer left open on it;
//! [`Request::Close`] ends it. The framework never uses channel [`OTHERS`]: a host may send other data on it.
//!
//! The requests of a consumer: [`Hello`](Request::Hello); [`List`](Request::List) and [`Describe`](Request::Describe)
//! at any time; [`Open`](Request::Open), [`Option`](Request::Option), [`Program`](Request::Program),
//! [`Go`](Request::Go), then repeatedly [`Snapshot`](Request::Snapshot) of each CPU's buffers and
//! [`Run`](Request::Run); [`Stop`](Request::Stop), the last snapshots; [`Close`](Request::Close).
//!
//! Messages borrow from their frame, nothing allocates, and after any bytes a receiver is synchronised again at the
//! next zero byte.
//!
//! # What it is not
//!
//! It does not contain the transport, which the host and the crate `dtrace` provide, or the formats of D programs and
//! records, which are in `dtrace-abi`. Frames are neither authenticated nor encrypted: the peer on the line has the
//! rights that the framework grants. A line that leaves the machine needs the layer [`secure`] below the frames; both
//! sides provide the ciphers.
//!
//! # Where to read on
//!
//! [`Request`] and [`Reply`] are all messages, and [`frame`] is their encoding. `sdt_framework::server` implements the
//! framework's side, and `dtrace_consumer::client` the consumer's. `docs/architecture.md` of the project explains how they work
//! together.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod cobs;
pub mod frame;
mod message;
pub mod packed;
pub mod secure;

pub use frame::{Decoder, Frame, FrameError, Header, Items, OTHERS, TooLong, Writer};
pub use message::{
    Argument, DataOf, Datum, Declared, Detail, FunctionProbe, FunctionSite, FunctionWindow, Probe,
    RefusedFunction, Reply, Request, Run, RunOption, Side, Site, SiteState, SnapshotOf, Status,
    Symbol, VERSION, Why, WhyNoFunction,
};
