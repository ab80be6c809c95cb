//! The in-kernel half of DTrace for kernels that have none.
//!
//! # What this is
//!
//! A [`Dtrace`] is what `dtrace.c` is to FreeBSD and illumos: providers register with it, their probes
//! get ids, consumers enable probes by description, and what fires is written into per-CPU buffers
//! without a lock and without waiting. It is a `static`, and all memory that it uses is [handed over](Dtrace::init) at
//! boot.
//!
//! The kernel supplies a [`Host`]; providers, including those made with `sdt_core`'s macros, see the
//! [`Framework`](sdt_core::ops::Framework) trait.
//!
//! # What it is not
//!
//! It patches no text and knows no firing site: that is the provider's part, `sdt_core`'s for probes declared with its
//! macros. It prints nothing but for [`console`], and compiles nothing: programs in D come in DOF. FreeBSD and illumos have
//! a framework of their own, and
//! modules for them do not need this one.
//!
//! # Two ways to enable
//! - [`Dtrace::enable`]: the arguments of what fires are recorded, to be [read](Dtrace::read) one after the other. For
//!   consumers in the kernel, which need no compiler.
//! - [`Dtrace::enable_program`]: what a program in D says is done. The consumer sends it before it [goes](Dtrace::go),
//!   with [options](Dtrace::set_option); what it leaves behind comes in [snapshots](Dtrace::snapshot), and
//!   [`eprobe`](Dtrace::eprobe), [`aggregation`](Dtrace::aggregation) and [`format`](Dtrace::format) say what that is. What
//!   programs may ask of the kernel says
//!   [`Host::kernel`]; [`Dtrace::register_own`] and [`Dtrace::register_profile`] are the framework's own providers.
//!
//! # Where to read on
//!
//! - To host it: [`machine`], or [`Host`] and [`Dtrace`]; [`kernel`] is what it tells programs of itself; the project's
//!   `docs/your-kernel-in-an-afternoon.md` does it, and the
//!   smallest host is `embedded-example/`. Feature `server`: consumers on the other side of a line, with [rights](Rights); feature
//!   `noise`: lines that leave the machine, for those alone who have the kernel's key; [`console`]: consumers on the machine itself.
//! - To write a provider whose probes are made as a program runs, or as consumers ask for them: [`sdt_core::runtime`]; in
//!   C's terms [`ProviderOps`](sdt_core::ops::ProviderOps), [`registration`].
//! - To change it: `registry/` is who provides what, `providers/` its own ones, `ecb/` what is done when it
//!   fires, `program/` when that is a program, [`dif`] what computes there and [`aggregation`] what counts, `buffer/` what that leaves
//!   behind, `server/` who is told; [`Dtrace`] lists its functions in groups, each with its file; then `docs/architecture.md` of the project.
//!
//! # Example
//!
//! ```
//! use sdt_core::ops::{Framework, Privileges, ProviderAttr, ProviderOps};
//! use sdt_framework::{Config, Dtrace, Field, Host, Memory, Records, Spec, SpinLock};
//!
//! struct Uniprocessor;
//!
//! // SAFETY: there is one CPU and nothing that interrupts it, so nobody else is ever in probe context.
//! unsafe impl Host for Uniprocessor {
//!     type Lock = SpinLock<Self>;
//!
//!     fn cpu(&self) -> usize { 0 }
//!     fn cpus(&self) -> usize { 1 }
//!     fn timestamp(&self) -> u64 { 1_000 }
//!     fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R { f() }
//!     fn sync(&self) {}
//! }
//!
//! static DTRACE: Dtrace<Uniprocessor> = Dtrace::new(Uniprocessor);
//!
//! // At boot: memory for 8 probes of 2 providers, and for buffers of 2 kB for each of 2 consumers.
//! const CONFIG: Config = Config { providers: 2, probes: 8, ecbs: 8, consumers: 2, buffer: 2048 };
//! static MEMORY: Memory<{ CONFIG.memory::<Uniprocessor>(1, 2) }> = Memory::new();
//! DTRACE.init(MEMORY.take().expect("nobody else has taken it"), &CONFIG)?;
//!
//! // Here `enable` would have the firing sites patched, and `disable` back.
//! let ops = ProviderOps::INERT;
//! let null = core::ptr::null_mut();
//! // SAFETY: the functions do nothing, and stay.
//! let provider =
//!     unsafe { DTRACE.register(c"proc", &ProviderAttr::SDT, Privileges::USER, &ops, null) }?;
//! // SAFETY: the ops do not look at the pointer.
//! let exec = unsafe { DTRACE.probe_create(provider, c"", c"none", c"exec-success", 1, null) }?;
//!
//! let consumer = DTRACE.open()?;
//! assert_eq!(DTRACE.enable(consumer, &Spec::parse("proc:::exec-*", Field::Name)?)?, 1);
//! DTRACE.go(consumer)?;
//! DTRACE.probe(exec, &[42, 0, 0, 0, 0, 0]);
//! DTRACE.stop(consumer)?;
//!
//! let mut bytes = [0; 1024];
//! let count = DTRACE.read(consumer, 0, &mut bytes)?;
//! let firings = Records::new(&bytes[..count]).filter_map(|record| record.firing());
//! assert_eq!(firings.map(|firing| (firing.probe, firing.args[0])).collect::<Vec<_>>(), [(exec, 42)]);
//! assert_eq!(DTRACE.drops(consumer, 0)?, 0);
//!
//! DTRACE.close(consumer)?;
//! DTRACE.unregister(provider)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What happens when
//! - A probe's chain holds one enabling control block (ECB) for each enabling of each consumer. The
//!   provider's `enable` and `disable` are called for the first and the last ECB of a probe.
//! - Enablings are retained: a probe that is created later is enabled by those that mean it.
//! - Probe context only reads chains. An ECB that is removed is unlinked, then [`Host::sync`] waits for
//!   every CPU to leave probe context, then it is used again. So it is with a consumer's buffers.
//! - A record that finds its buffer full is dropped and counted, by consumer and CPU
//!   ([`Dtrace::drops`]). Nothing else is ever lost between a firing and the buffer: what cannot be
//!   recorded at all is in [`Counters`].
//!
//! # Locks
//! Two, neither ever taken in probe context: one over registration and the `provide` ops, which may
//! therefore create and look up probes, and one over the tables and all other ops. Both are of the kind that the
//! [host](Host::Lock) has, and taken with interrupts on. The second one is not held while many probes are searched
//! for those that a description means: it is let go every few. Each consumer's reader has one of its own. None is held
//! while a function of the consumer's runs.
#![cfg_attr(not(test), no_std)]

pub mod aggregation;
mod arena;
mod buffer;
mod config;
pub mod console;
mod context;
mod counters;
pub mod dif;
mod dtrace;
mod ecb;
mod halting;
mod host;
pub mod kernel;
// FreeBSD and illumos have a framework of their own.
#[cfg(not(any(target_os = "freebsd", target_os = "illumos")))]
pub mod machine;
mod postmortem;
mod program;
mod providers;
mod registry;
mod rights;
#[cfg(feature = "server")]
pub mod server;
mod sync;
#[cfg(test)]
mod tests;

pub use arena::Memory;
pub use buffer::{
    ARGS, ConsumerError, ConsumerId, Firing, HEADER, LONGEST, Record, Recording, Records,
};
pub use config::{Config, InitError};
pub use context::{Contexts, ProbeContext};
pub use counters::Counters;
pub use dtrace::Dtrace;
pub use dtrace_abi::spec::{Field, Spec, SpecError};
pub use halting::Held;
pub use host::{Host, RawMutex, Relaxing, SpinLock};
pub use program::{AggregationDesc, Malformed, ProgramError, Snapshot, Status, Which};
pub use registry::{Detail, ProbeInfo, registration};
pub use rights::Rights;
