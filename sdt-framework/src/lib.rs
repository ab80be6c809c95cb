//! The in-kernel half of DTrace for kernels that have none.
//!
//! # What this is
//!
//! A [`Dtrace`] corresponds to `dtrace.c` of FreeBSD and illumos: providers register with it, their probes get ids, consumers
//! enable probes by description, and hits are recorded in per-CPU buffers without a lock and without waiting. It is a `static`.
//! The host provides all of its memory [at boot](Dtrace::init).
//!
//! The kernel supplies a [`Host`]. Providers, including those made with `sdt_core`'s macros, use the trait
//! [`Framework`](sdt_core::ops::Framework).
//!
//! # What it is not
//!
//! It patches no text and has no table of sites: both are tasks of the provider. For probes declared with the macros of
//! `sdt_core`, that is `sdt_core`. It prints nothing except in [`console`], and contains no compiler: D programs arrive as DOF.
//! FreeBSD and illumos have their own framework, so modules for them do not need this one.
//!
//! # How probes are enabled
//! Programs enable probes. [`Dtrace::enable_program`] accepts a program in DOF before the consumer [starts](Dtrace::go), with
//! [options](Dtrace::set_option). A consumer in the kernel needs no compiler: [`Dtrace::enable`] enables a clause that records a
//! probe's arguments. A consumer reads the records in [snapshots](Dtrace::snapshot); [`eprobe`](Dtrace::eprobe),
//! [`aggregation`](Dtrace::aggregation) and [`format`](Dtrace::format) describe them. [`Host::kernel`] is the interface of
//! programs to the kernel. [`Dtrace::register_own`] and [`Dtrace::register_profile`] register the framework's own providers.
//!
//! # Where to read on
//!
//! - To host it: [`smp`], or [`Host`] and [`Dtrace`]; [`kernel`] is the interface of programs to the kernel. The tutorial is the
//!   project's `docs/your-kernel-in-an-afternoon.md`, and the smallest host is `embedded-example/`. Feature `server`: consumers
//!   at the other end of a line, with [rights](Rights). Feature `noise`: lines that leave the machine, for consumers that have
//!   the kernel's key. [`console`]: consumers on the machine itself.
//! - To write a provider that creates probes at run time or when consumers request them: [`sdt_core::runtime`]. With the
//!   interface of the C kernels: [`ProviderOps`](sdt_core::ops::ProviderOps), [`registration`].
//! - To change it: there are four layers, each of which imports only those before it: `machine/` (DIF and aggregations), `run/`
//!   (clauses, buffers, and the path of a hit: `run/fire.rs`), `registry/` (providers and probes), `control/` (consumers,
//!   programs, server, console). [`Dtrace`] is the facade. Continue with `docs/architecture.md` of the project.
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
//! - Enablings are retained: they also enable matching probes that are created later.
//! - Probe context only reads chains. To remove an ECB, the framework unlinks it, calls [`Host::sync`], which waits until every
//!   CPU has left probe context, and reuses it only then. The same applies to a consumer's buffers.
//! - A record that does not fit its buffer is dropped and counted, by consumer and CPU ([`Snapshot::drops`]). Nothing else is
//!   lost between a hit and the buffer: [`Counters`] counts hits that cannot be recorded at all.
//!
//! # Locks
//! There are two locks. Code in probe context takes neither of them. One lock is held during registration and the `provide` ops,
//! which may therefore create and look up probes. The other lock protects the tables, and is held during all other ops. Both have
//! the type that the [host](Host::Lock) chooses, and are taken with interrupts on. While the framework searches many probes for
//! those that a description matches, it releases the second lock after every few probes. It holds neither lock while it calls a
//! function of the consumer.
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
pub use dtrace_abi::function::Window;
pub use dtrace_abi::spec::{Field, Spec, SpecError};
pub use machine::{Invalid, InvalidPlace, Problem};
pub use registry::registration;
pub use registry::{Detail, ProbeInfo};
pub use run::consumer::ConsumerId;
pub use sdt_core::ops::ARGS;
