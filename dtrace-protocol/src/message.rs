//! The messages.

use serde::{Deserialize, Serialize};

/// Number of this protocol. [`Request::Hello`], [`Reply::Hello`] and [`Reply::Gone`] are the same in all of them.
pub const VERSION: u32 = 3;

/// What a consumer asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Request<'a> {
    /// First of all: greets the channel. What an earlier consumer had open on it is closed. Answer:
    /// [`Reply::Hello`], with the other side's version; the channel is greeted if they are the same.
    Hello {
        /// [`VERSION`] of who asks.
        version: u32,
    },
    /// Opens the framework for this channel. While a channel is open no provider can be unregistered. Answer:
    /// [`Reply::Done`].
    Open,
    /// Ends the channel: its enablings go, what was recorded and not read is dropped, and it has to be greeted
    /// again. Answer: [`Reply::Done`].
    Close,
    /// The probes that a description matches, in order of id, as many as fit a frame. Answer:
    /// [`Reply::Probes`]; asked again with the last id that came, until there are none.
    List {
        /// The description: `provider:module:function:name`.
        spec: &'a str,
        /// Those with a greater id; all if 0.
        after: u32,
    },
    /// Names, stability and privileges of a probe. Answer: [`Reply::Detail`].
    Describe {
        /// The probe's id.
        probe: u32,
    },
    /// Type of one of a probe's arguments. Answer: [`Reply::Argument`].
    Argument {
        /// The probe's id.
        probe: u32,
        /// Which one, from 0.
        index: u8,
    },
    /// Where a probe fires, in order of address, as many as fit a frame. Answer: [`Reply::Sites`]; asked again
    /// with the number of those that came so far, until there are none.
    Sites {
        /// The probe's id.
        probe: u32,
        /// So many are left out.
        skip: u32,
    },
    /// Sets an option of the run, as `DTRACEOPT_*` numbers them (sys/dtrace.h), before the channel goes. Answer:
    /// [`Reply::Done`].
    Option {
        /// Its number.
        option: u32,
        /// Its value, in the option's unit.
        value: i64,
    },
    /// A piece of a D program in DOF. Pieces come in order, without gaps; the first one, at 0, drops what there was of
    /// another program. Answer: [`Reply::Done`], and to the last piece, with which the program's clauses are enabled,
    /// [`Reply::Matched`] with the number of enabled probes (ECBs) of all clauses.
    Program {
        /// Bytes of all pieces together.
        size: u32,
        /// Where this one begins.
        at: u32,
        /// The piece.
        bytes: &'a [u8],
    },
    /// Takes over what was enabled before any consumer was there (`-a`). Answer: [`Reply::Done`].
    Claim,
    /// What an enabled probe of this channel's records. Answer: [`Reply::Eprobe`].
    Eprobe {
        /// Its number.
        epid: u32,
    },
    /// What an aggregation of this channel's holds. Answer: [`Reply::Aggregation`].
    Aggregation {
        /// Its number, from 1.
        id: u32,
    },
    /// A format of this channel's programs. Answer: [`Reply::Bytes`], asked again with the number of those that came so
    /// far, until there are none.
    Format {
        /// Its number, from 1.
        number: u16,
        /// So many bytes are left out.
        at: u32,
    },
    /// From here on is recorded. `dtrace:::BEGIN` has fired before the answer. Answer: [`Reply::On`].
    Go,
    /// Ends recording. `dtrace:::END` has fired before the answer. What was recorded can still be read. Answer:
    /// [`Reply::On`].
    Stop,
    /// What is in a CPU's buffer of records or of aggregations that programs have filled, and its end. The request with
    /// `at` 0 switches the buffer, so that recording goes on in an empty one, and is answered with the first bytes of what was in
    /// it; asked again with the number of bytes that came so far it is answered with the next ones, until they are all
    /// there. Answer: [`Reply::Snapshot`].
    Snapshot {
        /// The CPU, from 0.
        cpu: u32,
        /// Which of its buffers.
        buffer: SnapshotOf,
        /// So many bytes are left out.
        at: u32,
    },
    /// How this channel's programs are. It is also the sign that their consumer lives, as is [`Snapshot`](Self::Snapshot): one
    /// that asks for neither for a long time is given up. Answer: [`Reply::Run`].
    Run,
    /// What stands at an address of the kernel's. Answer: [`Reply::Symbol`].
    Symbol {
        /// The address.
        address: u64,
    },
    /// How framework and line are. Answer: [`Reply::Status`].
    Status,
    /// What an enabled probe's records or an aggregation's tuples hold, some of it: for those that are longer than a frame, where
    /// [`Eprobe`](Self::Eprobe) and [`Aggregation`](Self::Aggregation) are refused with [`Why::TooLong`]. Answer:
    /// [`Reply::Data`]; asked again with the number of those that came so far, until there are as many as it says.
    Data {
        /// Of what.
        of: DataOf,
        /// So many are left out.
        skip: u32,
    },
    /// What a module declares for programs in D: its structs and enums, and translators, as text (`sdt_core::layout` documents
    /// it). Modules are counted from 0, as they are now. Answer: [`Reply::Declared`].
    Declared {
        /// Which module.
        index: u32,
        /// Where in its text: 0, or what the last answer said.
        at: u32,
    },
    /// A variable or function of the kernel's by its name. Answer: [`Reply::Symbol`].
    SymbolNamed {
        /// Its module; empty for any.
        module: &'a str,
        /// Its name, as it is in the file or as it is demangled.
        name: &'a str,
    },
    /// The options of this channel's run that have been set, by the consumer or by programs, in order of their numbers, as many as
    /// fit a frame. Who has [claimed](Self::Claim) what was enabled before learns so how it is to be read. Answer:
    /// [`Reply::Options`]; asked again with the number behind that of the last one, until there are none.
    Options {
        /// Those with this number or a greater one.
        from: u32,
    },
}

/// What holds data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DataOf {
    /// Records of the enabled probe with this number.
    Eprobe(u32),
    /// Tuples of the aggregation with this number.
    Aggregation(u32),
}

/// Which of a CPU's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SnapshotOf {
    /// That of records, `struct dtrace_rechdr` and data each, as they lie in DTrace's (`DTRACEIOC_BUFSNAP`).
    Records,
    /// That of aggregations: tuples, each with the number of its aggregation first (`DTRACEIOC_AGGSNAP`).
    Aggregations,
}

/// What a framework answers. Of those that are said to have items, [`Items`](crate::Items) follow in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reply<'a> {
    /// To [`Request::Hello`].
    Hello {
        /// [`VERSION`] of who answers.
        version: u32,
        /// Not in the request: what an echo gives back is no answer.
        side: Side,
    },
    /// To nothing: the framework, or the line to it, has come to an end, and this is all that is known.
    Gone {
        /// Why, in one line or several.
        reason: &'a str,
    },
    /// The request was refused, and nothing was changed.
    Refused {
        /// Of which kind.
        why: Why,
        /// What is wrong with what, in one line.
        message: &'a str,
    },
    /// Nothing more to say.
    Done,
    /// To [`Request::List`]. Items: [`Probe`].
    Probes,
    /// To [`Request::Describe`].
    Detail(#[serde(borrow)] Detail<'a>),
    /// To [`Request::Argument`]: none past the last.
    Argument(#[serde(borrow)] Option<Argument<'a>>),
    /// To [`Request::Sites`]. Items: [`Site`].
    Sites,
    /// Answers the last piece of a [`Request::Program`].
    Matched {
        /// The number of enabled probes (ECBs) of all clauses.
        probes: u32,
    },
    /// To [`Request::Status`].
    Status(Status),
    /// To [`Request::Go`] and [`Request::Stop`]: the CPU on which `dtrace:::BEGIN` or `dtrace:::END` fired.
    On {
        /// The CPU, from 0.
        cpu: u32,
    },
    /// To [`Request::Eprobe`]. Items: [`Datum`], in the order of the actions.
    Eprobe {
        /// The probe's id.
        probe: u32,
        /// Bytes of one record, its header included.
        size: u32,
    },
    /// To [`Request::Aggregation`]. Items: [`Datum`]: the number of the variable, the keys, the value.
    Aggregation {
        /// The number of its variable.
        variable: u32,
        /// The enabled probe that aggregates.
        epid: u32,
        /// Bytes of one tuple, its header included.
        size: u32,
    },
    /// To [`Request::Format`].
    Bytes {
        /// The next bytes; none behind the last.
        bytes: &'a [u8],
    },
    /// To [`Request::Snapshot`].
    Snapshot {
        /// Bytes of the whole buffer that was switched.
        size: u32,
        /// The offset of its oldest record: 0 except in a ring that has wrapped around.
        oldest: u32,
        /// What found no room in it since it was switched the last time.
        drops: u64,
        /// Errors of programs on this CPU since then.
        errors: u64,
        /// When it was switched, in nanoseconds since boot.
        timestamp: u64,
        /// The bytes from where the request said.
        bytes: &'a [u8],
    },
    /// To [`Request::Run`].
    Run(Run),
    /// To [`Request::Symbol`] and [`Request::SymbolNamed`]: none where nothing is known.
    Symbol(#[serde(borrow)] Option<Symbol<'a>>),
    /// To [`Request::Data`]. Items: [`Datum`].
    Data {
        /// How many there are in all.
        count: u32,
        /// Of an enabled probe its id; of an aggregation the number of its variable.
        number: u32,
        /// Of an aggregation the enabled probe that aggregates.
        epid: u32,
        /// Bytes of one record or tuple, its header included.
        size: u32,
    },
    /// To [`Request::Declared`]: none where there is no such module. One that this line may see no probe of has neither name nor
    /// text.
    Declared(#[serde(borrow)] Option<Declared<'a>>),
    /// To [`Request::Options`]. Items: [`RunOption`].
    Options,
}

/// Who answers a [`Request::Hello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Side {
    /// A framework.
    Framework,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Why {
    /// The frame is whole, and no request of this version.
    NotUnderstood,
    /// The channel has not been greeted.
    NotGreeted,
    /// There is no room for one more channel or consumer.
    TooMany,
    /// The channel is not open.
    NotOpen,
    /// The channel is open already.
    Open,
    /// The text is no probe description.
    Spec,
    /// There is no such probe.
    NoProbe,
    /// There is no room for so many enablings.
    NoRoom,
    /// There is no such enabled probe, aggregation, format or CPU.
    NoSuch,
    /// The option does not take this value, or not any more.
    Option,
    /// The program cannot be run; the message has the reason.
    Program,
    /// The channel's rights do not suffice.
    NotPermitted,
    /// Something else; the message says what.
    Other,
    /// The answer is longer than a frame: it can be had in parts.
    TooLong,
}

/// A probe as it is listed. Names are as the kernel has them: not always UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe<'a> {
    /// Its id.
    pub id: u32,
    /// Provider name.
    pub provider: &'a [u8],
    /// Module name.
    pub module: &'a [u8],
    /// Function name.
    pub function: &'a [u8],
    /// Probe name.
    pub name: &'a [u8],
}

/// What can be said of a probe beside its arguments. Stability is name, data, class, as DTrace numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail<'a> {
    /// Its names.
    #[serde(borrow)]
    pub probe: Probe<'a>,
    /// Stability of its description: the weakest of the provider's parts, as libdtrace computes it.
    pub stability: [u8; 3],
    /// Stability of its arguments.
    pub args: [u8; 3],
    /// Stability of its provider: of the provider itself, of modules, functions, names and arguments.
    pub provider: [[u8; 3]; 5],
    /// Who may use the provider, as DTrace's bits (`DTRACE_PRIV_*`).
    pub privileges: u32,
}

/// Type of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument<'a> {
    /// C type that the kernel passes.
    pub native: &'a [u8],
    /// C type that D sees; empty if it is the same.
    pub translated: &'a [u8],
}

/// A firing site of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site<'a> {
    /// Its address.
    pub address: u64,
    /// The symbol of the function it is in, as it is in the file, and the site's offset in it.
    #[serde(borrow)]
    pub function: Option<(&'a str, u64)>,
    /// What it does now.
    pub state: SiteState,
    /// Address of its cold block, where it goes while enabled.
    pub target: u64,
    /// Whether a jump can take it there.
    pub in_reach: bool,
    /// Most bytes that a jump can go on this architecture, either way.
    pub reach: u64,
}

/// What a site does when it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SiteState {
    /// Nothing.
    Nop,
    /// A breakpoint exception.
    Trap,
    /// A jump.
    Jump,
}

/// One datum of a record or a tuple (`dtrace_recdesc_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datum {
    /// The action that leaves it, as `DTRACEACT_*` and `DTRACEAGG_*` number them.
    pub action: u16,
    /// Bytes of it.
    pub size: u32,
    /// Where it begins, counted from the header.
    pub offset: u32,
    /// What its offset is a multiple of.
    pub alignment: u16,
    /// Number of its format, or 0.
    pub format: u16,
    /// The action's argument.
    pub arg: u64,
    /// What the program's writer put there: the number of the statement.
    pub uarg: u64,
}

/// An option of a run, as [`Request::Option`] sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOption {
    /// Its number.
    pub option: u32,
    /// Its value, in the option's unit.
    pub value: i64,
}

/// How a channel's programs are (`dtrace_status_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Dynamic variables that had no room.
    pub dynamic_drops: u64,
    /// Those for want of a chunk that was being rinsed.
    pub dynamic_drops_rinsing: u64,
    /// Those for want of a chunk that was dirty.
    pub dynamic_drops_dirty: u64,
    /// Records that a speculative buffer had no room for.
    pub speculation_drops: u64,
    /// Speculations refused because all buffers were being cleaned.
    pub speculations_busy: u64,
    /// Speculations refused because all buffers were taken.
    pub speculations_unavailable: u64,
    /// Errors in all.
    pub errors: u64,
    /// Buffers that are full, under the policy `fill`.
    pub filled: u64,
    /// Names of frames that had no room.
    pub stack_string_overflows: u64,
    /// Errors in clauses of `dtrace:::ERROR`.
    pub double_errors: u64,
    /// The consumer was given up, as it had not been heard of for long, or the kernel was too slow with it.
    pub killed: bool,
    /// A program has asked for the end (`exit`).
    pub exiting: bool,
}

/// What stands at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol<'a> {
    /// Its module.
    pub module: &'a [u8],
    /// Its name, as it is in the file.
    pub name: &'a [u8],
    /// Where it begins.
    pub address: u64,
    /// Bytes of it.
    pub size: u64,
}

/// Some of what a module declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared<'a> {
    /// The module, as its probes have it.
    pub module: &'a [u8],
    /// The text from where the request said. It has no NULs.
    pub text: &'a [u8],
    /// Where it goes on.
    pub next: u32,
    /// Where it ends.
    pub end: u32,
}

/// How a framework and the line to it are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// CPUs that fire probes.
    pub cpus: u32,
    /// Channels that are greeted.
    pub channels: u32,
    /// Probe hits that reached the framework since it came to be.
    pub hits: u64,
    /// Hits that no enabling recorded.
    pub unclaimed: u64,
    /// Hits inside probe context, counted and not recorded.
    pub reentered: u64,
    /// Hits of ids that are no probes.
    pub unknown: u64,
    /// Hits on CPUs that there is no room for.
    pub stray: u64,
    /// Whole frames that have arrived on this line.
    pub frames: u64,
    /// Frames that arrived damaged, and were dropped.
    pub damaged: u64,
    /// Frames that were longer than there is room for, and were dropped.
    pub overlong: u64,
    /// Requests that were refused.
    pub refused: u64,
}
