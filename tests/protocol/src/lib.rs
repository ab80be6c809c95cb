//! The messages between the stand-in kernel and the test bench, in addition to those of consumers.
//!
//! On the line, consumers use `dtrace-protocol`; the bench uses the channel [`OTHERS`](dtrace_protocol::OTHERS).
//!
//! The host sends [`Request`]s, each with a sequence number. The kernel answers each with exactly one [`Event::Reply`]
//! of that number, and sends other [`Event`]s at any time. On the wire every message is one [frame]: postcard, a
//! CRC-32, COBS, a zero byte.
#![cfg_attr(not(test), no_std)]
#![warn(missing_docs)]

extern crate alloc;

pub mod frame;
pub mod symbols;

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// The version of this protocol. Both sides send their version in the first exchange, and refuse another one.
pub const VERSION: u32 = 12;

/// Distance in memory from the kernel's symbols to the mailbox: where the host of a machine puts a long message.
/// See [`Request::Mailed`].
pub const MAILBOX: u64 = symbols::Table::ROOM as u64;
/// Size of the mailbox, in bytes.
pub const MAILBOX_ROOM: usize = 4 << 20;

/// A message from the host to the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The sequence number, which the reply repeats.
    pub seq: u32,
    /// The request.
    pub request: Request,
}

/// The requests of the host to the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// The first request. Answer: [`Reply::Hello`].
    Hello {
        /// The time of day on the host, which becomes the kernel's: nanoseconds since 1970.
        time: u64,
    },
    /// Behave like another FreeBSD kernel from now on. No module may be loaded. Answer: [`Reply::Done`].
    FreeBsd {
        /// The `__FreeBSD_version` of the kernel.
        version: i32,
    },
    /// Behave like illumos's kernel from now on. No module may be loaded. On x86_64 only. Answer: [`Reply::Done`].
    Illumos {
        /// The way in which krtld marks the calls of probes.
        sites: Sites,
    },
    /// Load a module, as kldload(8) does, or modload(8). Answer: [`Reply::Done`].
    KldLoad {
        /// File name, with its `.ko`.
        file: String,
        /// The whole file.
        image: Vec<u8>,
    },
    /// Unload a module, as kldunload(8) does. Answer: [`Reply::Done`].
    KldUnload {
        /// File name, with its `.ko`.
        file: String,
    },
    /// List loaded files. Answer: [`Reply::Modules`].
    KldStat,
    /// Execute these images, spread over the CPUs, each through the `process_exec` event handlers.
    /// The answer, [`Reply::Executed`], comes when all are done.
    Exec {
        /// The images in the order of the log.
        execs: Vec<Exec>,
    },
    /// Write to a sysctl, as sysctl(8) does. Answer: [`Reply::Done`].
    Sysctl {
        /// Its name.
        name: String,
        /// The new value.
        value: String,
    },
    /// Read a kstat, as kstat(8) does; on illumos only. Answer: [`Reply::Bytes`], its data.
    Kstat {
        /// `module:instance:name`.
        name: String,
    },
    /// Bytes of a loaded module's memory, for tests that compare its text. Answer:
    /// [`Reply::Bytes`].
    ReadText {
        /// File name, with its `.ko`.
        file: String,
    },
    /// Returns the counters of the kernel. Answer: [`Reply::Counters`].
    Counters,
    /// Lets all CPUs fire the kernel's own probes while one CPU changes the state of their sites, in random order. The
    /// kernel sends [`Event::Progress`] about every second; the answer is [`Reply::Tortured`].
    Torture {
        /// The seed of the random numbers.
        seed: u64,
        /// The number of times that a probe is enabled, disabled, or changed to another mode.
        transitions: u64,
        /// The D programs that run during the torture, in DOF; none if empty.
        program: Vec<u8>,
    },
    /// Hit the kernel's own probes in probe handlers, in interrupts that interrupt a probe, with
    /// interrupts off and inside the breakpoint exception, on all CPUs. Answer: [`Reply::Reentered`].
    Reenter {
        /// The number of rounds on each CPU.
        rounds: u32,
        /// Sites jump; else they trap.
        jump: bool,
    },
    /// Makes every CPU call functions that count their calls. Answer: [`Reply::Called`].
    Call {
        /// The number of calls on each CPU, of functions chosen at random.
        rounds: u32,
    },
    /// Enables and disables all functions that a consumer has sent, while all CPUs call them. The kernel sends
    /// [`Event::Progress`] about every second; the answer is [`Reply::TorturedFunctions`].
    TortureFunctions {
        /// The seed of the random numbers.
        seed: u64,
        /// The number of times that all functions are enabled or disabled.
        transitions: u64,
    },
    /// Returns a hash of the kernel's own text. Answer: [`Reply::Hash`].
    HashText,
    /// Handle the message in the [mailbox](MAILBOX). The reply has the number of this request. A long message over the serial
    /// line would cost the emulator an interrupt for each byte.
    Mailed {
        /// Length of the message's frame, in bytes.
        length: u32,
    },
    /// Power off. There is no answer.
    PowerOff,
}

/// The way in which an illumos kernel marks a probe's call in a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sites {
    /// Five nops, as illumos does.
    #[default]
    Nops,
    /// One nop of five bytes, as no illumos does yet, with a breakpoint in it while the probe is enabled.
    LongNop,
}

/// One successful `execve` of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// Process id in the log.
    pub pid: u32,
    /// The path that was executed.
    pub path: String,
}

/// A message from the kernel to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A line for the system console, without its newline.
    Console {
        /// The text.
        text: String,
    },
    /// The answer to a request.
    Reply {
        /// The sequence number of the request.
        seq: u32,
        /// The result.
        result: Result<Reply, Refusal>,
    },
    /// The progress of a long request.
    Progress {
        /// The number of completed steps.
        done: u64,
        /// The number of requested steps.
        total: u64,
    },
    /// A frame from the host was damaged and has been dropped; its request has no reply.
    BadFrame {
        /// The error in the message.
        reason: String,
    },
    /// The kernel panicked. The machine stops after this event.
    Panic {
        /// The reason.
        message: String,
    },
}

/// Answers to requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// Success without a value.
    Done,
    /// The answer to [`Request::Hello`].
    Hello {
        /// [`VERSION`] of the kernel.
        version: u32,
        /// CPUs that are up.
        cpus: u32,
        /// Architecture, as `--arch` names it.
        arch: String,
    },
    /// The answer to [`Request::Exec`].
    Executed {
        /// The number of images for which the event handlers ran, by CPU.
        per_cpu: Vec<u64>,
    },
    /// The answer to [`Request::KldStat`].
    Modules(Vec<Module>),
    /// The answer to [`Request::ReadText`].
    Bytes(Vec<u8>),
    /// The answer to [`Request::Counters`].
    Counters(Counters),
    /// The answer to [`Request::Torture`].
    Tortured(Tortured),
    /// The answer to [`Request::Reenter`].
    Reentered(Reentered),
    /// The answer to [`Request::Call`].
    Called(Called),
    /// The answer to [`Request::TortureFunctions`].
    TorturedFunctions(TorturedFunctions),
    /// The answer to [`Request::HashText`].
    Hash(u64),
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The kernel's error number (FreeBSD's), 0 where none fits.
    pub errno: i32,
    /// The object and the error, in one line.
    pub message: String,
}

/// A loaded file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its number.
    pub id: u32,
    /// File name, with its `.ko`.
    pub file: String,
    /// The address at which it was mapped.
    pub address: u64,
    /// Bytes in memory.
    pub size: u64,
}

/// Counts since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Breakpoint exceptions that a probe's handler claimed.
    pub breakpoints: u64,
    /// Probe hits that reached the framework.
    pub hits: u64,
    /// The number of these hits that no consumer recorded, because their probe had been disabled meanwhile.
    pub unclaimed: u64,
    /// Hits inside probe context that were counted and not recorded.
    pub reentered: u64,
    /// Timer interrupts, all CPUs.
    pub ticks: u64,
}

/// The result of a torture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tortured {
    /// Times that a probe was enabled.
    pub enabled: u64,
    /// Times that an enabled probe changed from trap to jump.
    pub upgraded: u64,
    /// Times that an enabled probe changed from jump to trap.
    pub downgraded: u64,
    /// Times that a probe was disabled.
    pub disabled: u64,
    /// The counts of each probe, for all CPUs.
    pub probes: Vec<TorturedProbe>,
    /// Hits that the framework counted, including hits inside other hits.
    pub framework: u64,
    /// Breakpoint exceptions; hits less these came by jumps.
    pub breakpoints: u64,
    /// Timer interrupts, all CPUs.
    pub ticks: u64,
    /// Bytes of text that were compared at the end with those at the start.
    pub text: u64,
    /// The discrepancies, up to some number.
    pub failures: Vec<String>,
}

/// The counts of one probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TorturedProbe {
    /// Its name.
    pub name: String,
    /// Its sites.
    pub sites: u32,
    /// Times that a CPU executed a site.
    pub passes: u64,
    /// Times that the probe was hit.
    pub hits: u64,
    /// The number of intervals on each CPU during which the probe was always enabled.
    pub intervals: u64,
    /// Passes in them.
    pub stable_passes: u64,
    /// Hits in them.
    pub stable_hits: u64,
}

/// The counts while probes were hit in other probes and in exceptions, for all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reentered {
    /// The counts of each probe, all from a period in which the probe was enabled.
    pub probes: Vec<TorturedProbe>,
    /// The counters of the kernel for this period.
    pub counters: Counters,
    /// Hits whose arguments were not those of the pass.
    pub garbled: u64,
}

/// The calls of the functions that count them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Called {
    /// The functions.
    pub functions: Vec<CalledFunction>,
    /// Calls with a wrong result.
    pub wrong: u64,
}

/// The calls of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalledFunction {
    /// Its name, as `fbt` has it.
    pub name: String,
    /// The number of calls.
    pub calls: u64,
}

/// The result of a torture of functions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TorturedFunctions {
    /// The number of times that all functions were enabled or disabled.
    pub transitions: u64,
    /// The number of probes.
    pub probes: u32,
    /// Calls of the counted functions that were compared with records.
    pub calls: u64,
    /// Recorded entries of them.
    pub entries: u64,
    /// Breakpoint exceptions.
    pub breakpoints: u64,
    /// Bytes of text that were compared at the end with those at the start.
    pub text: u64,
    /// Discrepancies, up to some number.
    pub failures: Vec<String>,
}
