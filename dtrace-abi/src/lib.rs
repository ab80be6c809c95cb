//! sys/dtrace.h in Rust: the contract between kernels, the D compiler and consumers.
//!
//! # What this is
//!
//! | for | modules |
//! |---|---|
//! | providers and their framework | [`ops`], [`stability`] |
//! | descriptions of probes | [`spec`], [`glob`], [`name`] |
//! | compiled D programs | [`dif`], [`dof`], [`action`], [`option`] |
//! | contents of buffers | [`record`], [`aggregation`], [`fault`] |
//! | the framework's memory in a dump | [`postmortem`] |
//! | errors of the compiler | [`errtag`] |
//! | kernel modules: instructions of sites, releases of FreeBSD | [`site`], [`freebsd`] |
//! | function probes: instructions that a kernel can emulate | [`function`] |
//! | limits, and the platforms with different numbers | [`limits`], [`platform`] |
//!
//! # What it is not
//!
//! It contains only data types: it registers no provider (`sdt-core`, `sdt-framework`), neither compiles D
//! (`dtrace-compiler`) nor runs it, and opens no connection.
//!
//! # Where to read on
//!
//! [`ops::ProviderOps`] for a provider, [`dof::Dof`] for a program, [`spec::Spec`] for a description of probes.
//! `docs/architecture.md` of the project explains how the parts work together.
//!
//! # Sources
//!
//! Every number and layout is one that a DTrace kernel or libdtrace already uses. Unless another source is named, it is
//! `sys/dtrace.h` of illumos (`usr/src/uts/common/sys/dtrace.h`) and of FreeBSD
//! (`sys/cddl/contrib/opensolaris/uts/common/sys/dtrace.h`, as of 13.0), which agree except where a [`Platform`] is a
//! parameter. Items of libdtrace name the file below `usr/src/lib/libdtrace/common`.
//!
//! Nothing allocates, nothing panics on untrusted bytes, nothing is `unsafe`. Numbers in memory and in files are little
//! endian, as on every supported architecture; a big-endian DOF is refused.
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
pub use platform::{Platform, System};
