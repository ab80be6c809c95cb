//! What the stand-in kernel and the bench around it say to each other, beside what consumers say.
//!
//! On the line that the two share, consumers speak `dtrace-protocol`; the bench has a channel of its own there, the one
//! that is not theirs ([`OTHERS`](dtrace_protocol::OTHERS)).
//!
//! The host sends [`Request`]s, each with a sequence number; the kernel answers each with exactly one
//! [`Event::Reply`] of that number and sends other [`Event`]s whenever there is something to say.
//! On the wire every message is one [frame]: postcard, a CRC-32, COBS, a zero byte.
#![cfg_attr(not(test), no_std)]
#![warn(missing_docs)]

extern crate alloc;

pub mod frame;
pub mod symbols;

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// Number of this protocol. Both sides say theirs in the first exchange and refuse another one.
pub const VERSION: u32 = 11;

/// Distance in memory from the kernel's symbols to the mailbox: where the host of a machine puts a long message.
/// See [`Request::Mailed`].
pub const MAILBOX: u64 = symbols::Table::ROOM as u64;
/// Size of the mailbox, in bytes.
pub const MAILBOX_ROOM: usize = 4 << 20;

/// From the host to the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Comes back in the reply.
    pub seq: u32,
    /// What is asked.
    pub request: Request,
}

/// What the host can ask of the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// The first request. Answer: [`Reply::Hello`].
    Hello {
        /// The time of day on the host, which becomes the kernel's: nanoseconds since 1970.
        time: u64,
    },
    /// Be another FreeBSD's kernel from here on; no module is loaded yet. Answer: [`Reply::Done`].
    FreeBsd {
        /// Its `__FreeBSD_version`.
        version: i32,
    },
    /// Be illumos's kernel from here on; no module is loaded yet. On x86_64 only. Answer: [`Reply::Done`].
    Illumos {
        /// What becomes of probes' calls.
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
        /// In the order of the log.
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
    /// What happened in the kernel so far. Answer: [`Reply::Counters`].
    Counters,
    /// Have all CPUs fire the kernel's own probes while one of them changes what their sites do, in
    /// random order. [`Event::Progress`] comes every second or so; the answer is [`Reply::Tortured`].
    Torture {
        /// Of the random numbers.
        seed: u64,
        /// How often a probe is to be enabled, disabled, or brought to another mode.
        transitions: u64,
        /// What goes on meanwhile: programs in D, in DOF. None if this is empty.
        program: Vec<u8>,
    },
    /// Hit the kernel's own probes in probe handlers, in interrupts that interrupt a probe, with
    /// interrupts off and inside the breakpoint exception, on all CPUs. Answer: [`Reply::Reentered`].
    Reenter {
        /// How often, on each CPU.
        rounds: u32,
        /// Sites jump; else they trap.
        jump: bool,
    },
    /// Handle the message in the [mailbox](MAILBOX) instead of this one, whose number the answer has. Over the serial line, each
    /// byte of a long message would cost the emulator an interrupt.
    Mailed {
        /// Length of the message's frame, in bytes.
        length: u32,
    },
    /// Power off. There is no answer.
    PowerOff,
}

/// What a kernel of illumos's makes of a probe's call in a module.
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

/// From the kernel to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A line for the system console, without its newline.
    Console {
        /// The text.
        text: String,
    },
    /// The answer to a request.
    Reply {
        /// Of the request.
        seq: u32,
        /// What came of it.
        result: Result<Reply, Refusal>,
    },
    /// How far a request has come that takes long.
    Progress {
        /// What is done.
        done: u64,
        /// What was asked for.
        total: u64,
    },
    /// A frame from the host was damaged and has been dropped; its request has no reply.
    BadFrame {
        /// What was wrong with it.
        reason: String,
    },
    /// The kernel cannot go on. The machine stops after this.
    Panic {
        /// Why.
        message: String,
    },
}

/// Answers to requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// Nothing more to say.
    Done,
    /// To [`Request::Hello`].
    Hello {
        /// [`VERSION`] of the kernel.
        version: u32,
        /// CPUs that are up.
        cpus: u32,
        /// Architecture, as `--arch` names it.
        arch: String,
    },
    /// To [`Request::Exec`].
    Executed {
        /// How many images went through the event handlers, by CPU.
        per_cpu: Vec<u64>,
    },
    /// To [`Request::KldStat`].
    Modules(Vec<Module>),
    /// To [`Request::ReadText`].
    Bytes(Vec<u8>),
    /// To [`Request::Counters`].
    Counters(Counters),
    /// To [`Request::Torture`].
    Tortured(Tortured),
    /// To [`Request::Reenter`].
    Reentered(Reentered),
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The kernel's error number (FreeBSD's), 0 where none fits.
    pub errno: i32,
    /// What is wrong with what, in one line.
    pub message: String,
}

/// A loaded file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its number.
    pub id: u32,
    /// File name, with its `.ko`.
    pub file: String,
    /// Where it was mapped.
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
    /// Hits of those that no consumer recorded, because their probe had been disabled meanwhile.
    pub unclaimed: u64,
    /// Hits inside probe context that were counted and not recorded.
    pub reentered: u64,
    /// Timer interrupts, all CPUs.
    pub ticks: u64,
}

/// What came of a torture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tortured {
    /// Times that a probe was enabled.
    pub enabled: u64,
    /// Times that an enabled probe was brought from trapping to jumping.
    pub upgraded: u64,
    /// The other way round.
    pub downgraded: u64,
    /// Times that a probe was disabled.
    pub disabled: u64,
    /// What was counted of each probe, all CPUs.
    pub probes: Vec<TorturedProbe>,
    /// Hits that the framework counted, those inside of others too.
    pub framework: u64,
    /// Breakpoint exceptions; hits less these came by jumps.
    pub breakpoints: u64,
    /// Timer interrupts, all CPUs.
    pub ticks: u64,
    /// Bytes of text that were compared at the end with what they were at the start.
    pub text: u64,
    /// Everything that was not as it should be, up to some number.
    pub failures: Vec<String>,
}

/// What was counted of one probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TorturedProbe {
    /// Its name.
    pub name: String,
    /// Its sites.
    pub sites: u32,
    /// Times that a CPU came to a site.
    pub passes: u64,
    /// Times that the probe was hit.
    pub hits: u64,
    /// Stretches of time, CPU by CPU, in which the probe was enabled all through.
    pub intervals: u64,
    /// Passes in them.
    pub stable_passes: u64,
    /// Hits in them.
    pub stable_hits: u64,
}

/// What was counted while probes were hit in other probes and exceptions, all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reentered {
    /// Of each probe. All of it is a stretch in which the probe was enabled.
    pub probes: Vec<TorturedProbe>,
    /// What happened in the kernel meanwhile.
    pub counters: Counters,
    /// Hits whose arguments were not those of the pass.
    pub garbled: u64,
}
