//! sys/dtrace.h as Rust: the one contract between kernels, the compiler of D and consumers.
//!
//! # What this is
//!
//! | for | modules |
//! |---|---|
//! | providers and their framework | [`ops`], [`stability`] |
//! | which probes are meant | [`spec`], [`glob`], [`name`] |
//! | what D becomes | [`dif`], [`dof`], [`action`], [`option`] |
//! | what a kernel leaves in its buffers | [`record`], [`aggregation`], [`fault`] |
//! | the framework's memory in a dump | [`postmortem`] |
//! | errors of the compiler | [`errtag`] |
//! | modules: text of sites, releases of FreeBSD | [`site`], [`freebsd`] |
//!
//! # What it is not
//!
//! It does nothing: it registers no provider (`sdt-core`, `sdt-framework`), compiles no D (`dtrace-compiler`) and runs
//! none, and has no connection to anything.
//!
//! # Where to read on
//!
//! [`ops::ProviderOps`] for a provider, [`dof::Dof`] for a program, [`spec::Spec`] for a description of probes; for how
//! the parts are used `docs/architecture.md` of the project.
//!
//! # Sources
//!
//! Every number and layout here is one that a DTrace kernel or libdtrace already uses. Where no other
//! source is named it is `sys/dtrace.h`, of illumos (`usr/src/uts/common/sys/dtrace.h`) and of FreeBSD
//! (`sys/cddl/contrib/opensolaris/uts/common/sys/dtrace.h`, as of 13.0), which agree except where a
//! [`Platform`] is asked for. What libdtrace adds says so, with the file below
//! `usr/src/lib/libdtrace/common` it is from.
//!
//! Nothing allocates, nothing panics on bytes of others, nothing is `unsafe`. Numbers in memory and in
//! files are little endian, as on every architecture this is built for; a DOF of the other order is
//! refused.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

#[macro_use]
mod macros;

pub mod action;
pub mod aggregation;
pub mod dif;
pub mod dof;
pub mod errtag;
pub mod fault;
pub mod freebsd;
pub mod function;
pub mod glob;
pub mod limits;
pub mod name;
pub mod ops;
pub mod option;
pub mod platform;
pub mod postmortem;
pub mod reader;
pub mod record;
pub mod site;
pub mod spec;
pub mod stability;

pub use errtag::ErrTag;
pub use platform::Platform;
