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
//! macros. It prints nothing except in [`console`], and compiles nothing: programs in D come in DOF. FreeBSD and illumos have
//! a framework of their own, and
//! modules for them do not need this one.
//!
//! # How probes are enabled
//! By programs. [`Dtrace::enable_program`] takes one in DOF before the consumer [starts](Dtrace::go), with
//! [options](Dtrace::set_option). A consumer in the kernel needs no compiler: [`Dtrace::enable`] enables a clause that records a probe's
//! arguments. What was recorded comes in [snapshots](Dtrace::snapshot); [`eprobe`](Dtrace::eprobe),
//! [`aggregation`](Dtrace::aggregation) and [`format`](Dtrace::format) describe it. [`Host::kernel`] documents what
//! programs may ask of the kernel; [`Dtrace::register_own`] and [`Dtrace::register_profile`] are the framework's own providers.
//!
//! # Where to read on
//!
//! - To host it: [`smp`], or [`Host`] and [`Dtrace`]; [`kernel`] is what it tells programs of itself; the project's
//!   `docs/your-kernel-in-an-afternoon.md` does it, and the
//!   smallest host is `embedded-example/`. Feature `server`: consumers on the other side of a line, with [rights](Rights); feature
//!   `noise`: lines that leave the machine, for consumers that have the kernel's key; [`console`]: consumers on the machine itself.
//! - To write a provider whose probes are made as a program runs, or as consumers ask for them: [`sdt_core::runtime`]; in
//!   C's terms [`ProviderOps`](sdt_core::ops::ProviderOps), [`registration`].
//! - To change it: four layers, each of which imports only those before it: `machine/` (DIF and aggregations), `run/` (clauses, buffers,
//!   and what happens when a probe fires: `run/fire.rs`), `registry/` (providers and probes), `control/` (consumers, programs, server,
//!   console). [`Dtrace`] is the facade; then `docs/architecture.md` of the project.
//!
//! # Example
//!
//! ```
//! use sdt_core::ops::{Framework, Privileges, ProviderAttr, ProviderOps};
//! use sdt_framework::{Config, Dtrace, Field, Host, Memory, Spec, SpinLock, Which, records};
//!
//! struct Uniprocessor;
//!
//! // SAFETY: there is one CPU and nothing that interrupts it, so no other thread is ever in probe context.
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
//! DTRACE.init(MEMORY.take().expect("the memory is taken once"), &CONFIG)?;
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
//! let found = DTRACE.snapshot(consumer, 0, Which::Records, 0, &mut bytes)?;
//! assert_eq!(found.drops, 0);
//! let all: Vec<_> = records(&bytes[..found.size]).collect();
//! let enabled = DTRACE.eprobe(consumer, all[0].epid, 0, &mut [])?.expect("it is enabled");
//! assert_eq!((all.len(), enabled.probe, all[0].args[0]), (1, exec.get(), 42));
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
//!   ([`Snapshot::drops`]). Nothing else is ever lost between a firing and the buffer: hits that cannot be
//!   recorded at all are in [`Counters`].
//!
//! # Locks
//! Two, neither ever taken in probe context: one over registration and the `provide` ops, which may
//! therefore create and look up probes, and one over the tables and all other ops. Both are of the kind that the
//! [host](Host::Lock) has, and taken with interrupts on. The second one is not held while many probes are searched
//! for those that a description means: it is released every few. Neither is held
//! while a function of the consumer's runs.
#![cfg_attr(not(test), no_std)]

mod base;
mod control;
mod dtrace;
pub mod kernel;
mod machine;
mod registry;
mod run;
// FreeBSD and illumos have a framework of their own.
#[cfg(not(any(target_os = "freebsd", target_os = "illumos")))]
pub mod smp;
#[doc(hidden)]
pub mod testing;

pub use base::arena::Memory;
pub use base::context::{Contexts, ProbeContext};
pub use base::counters::Counters;
pub use base::host::{Host, RawMutex, Relaxing, SpinLock};
pub use base::rights::Rights;
pub use control::arguments::{Record, records};
pub use control::config::{Config, InitError};
pub use control::console;
pub use control::error::ConsumerError;
pub use control::functions::{FunctionError, FunctionSite, FunctionText, Registers};
pub use control::halt::Held;
pub use control::query::{AggregationDesc, Snapshot, Status, Which};
pub use control::refused::{Malformed, ProgramError};
#[cfg(feature = "server")]
pub use control::server;
pub use dtrace::Dtrace;
pub use dtrace_abi::spec::{Field, Spec, SpecError};
pub use machine::{Invalid, InvalidPlace, Problem};
pub use registry::registration;
pub use registry::{Detail, ProbeInfo};
pub use run::consumer::ConsumerId;
pub use sdt_core::ops::ARGS;
