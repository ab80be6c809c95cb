//! The messages.

use serde::{Deserialize, Serialize};

/// The version of this protocol. [`Request::Hello`], [`Reply::Hello`] and [`Reply::Gone`] are the same in all of them.
pub const VERSION: u32 = 6;

/// A request of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Request<'a> {
    /// The first request on a channel. Closes everything that an earlier consumer had open on it. Answer:
    /// [`Reply::Hello`], with the framework's version; the channel is greeted if the versions are equal.
    Hello {
        /// [`VERSION`] of the consumer.
        version: u32,
    },
    /// Opens the framework for this channel. While a channel is open no provider can be unregistered. Answer:
    /// [`Reply::Done`].
    Open,
    /// Ends the channel: its enablings are removed, records that were not read are discarded, and it must be greeted
    /// again. Answer: [`Reply::Done`].
    Close,
    /// Requests the probes that a description matches, in the order of ids, as many as fit into a frame. Answer:
    /// [`Reply::Probes`]. Repeat it with the last received id until the answer has no probes.
    List {
        /// The description: `provider:module:function:name`.
        spec: &'a str,
        /// Only probes with a greater id; 0 for all.
        after: u32,
    },
    /// Requests the names, stability and privileges of a probe. Answer: [`Reply::Detail`].
    Describe {
        /// The probe's id.
        probe: u32,
    },
    /// Requests the type of one of a probe's arguments. Answer: [`Reply::Argument`].
    Argument {
        /// The probe's id.
        probe: u32,
        /// The index of the argument, from 0.
        index: u8,
    },
    /// Requests the sites of a probe, in the order of addresses, as many as fit into a frame. Answer: [`Reply::Sites`].
    /// Repeat it with the number of received sites until the answer has none.
    Sites {
        /// The probe's id.
        probe: u32,
        /// The number of sites to skip.
        skip: u32,
    },
    /// Sets an option of the run, by its `DTRACEOPT_*` number (sys/dtrace.h), before [`Go`](Self::Go). Answer:
    /// [`Reply::Done`].
    Option {
        /// Its number.
        option: u32,
        /// Its value, in the option's unit.
        value: i64,
    },
    /// Sends a piece of a D program in DOF. Pieces must be in order, without gaps; the first one, at 0, discards pieces
    /// of another program. The last piece enables the program's clauses. Answer: [`Reply::Done`], and to the last piece
    /// [`Reply::Matched`] with the number of enabled probes (ECBs) of all clauses.
    Program {
        /// The total size of all pieces in bytes.
        size: u32,
        /// The offset of this piece.
        at: u32,
        /// The piece.
        bytes: &'a [u8],
    },
    /// Claims the anonymous enabling (`-a`). Answer: [`Reply::Done`].
    Claim,
    /// Requests the description of the records of one of this channel's enabled probes. Answer: [`Reply::Eprobe`].
    Eprobe {
        /// Its number.
        epid: u32,
    },
    /// Requests the description of one of this channel's aggregations. Answer: [`Reply::Aggregation`].
    Aggregation {
        /// Its number, from 1.
        id: u32,
    },
    /// Requests a format of this channel's programs. Answer: [`Reply::Bytes`]. Repeat it with the number of received
    /// bytes until the answer has none.
    Format {
        /// Its number, from 1.
        number: u16,
        /// The number of bytes to skip.
        at: u32,
    },
    /// Starts recording. `dtrace:::BEGIN` fires before the answer. Answer: [`Reply::On`].
    Go,
    /// Stops recording. `dtrace:::END` fires before the answer. The records can still be read. Answer: [`Reply::On`].
    Stop,
    /// Requests the contents of a CPU's buffer of records or aggregations. The request with `at` 0 switches the buffer,
    /// so that recording continues in an empty one, and returns the first bytes of the contents. Repeat it with the
    /// number of unpacked bytes until all have arrived. Answer: [`Reply::Snapshot`].
    Snapshot {
        /// The CPU, from 0.
        cpu: u32,
        /// The kind of buffer.
        buffer: SnapshotOf,
        /// The number of bytes to skip.
        at: u32,
    },
    /// Requests the status of this channel's run. Like [`Snapshot`](Self::Snapshot), it also shows that the consumer is
    /// alive: the framework aborts a consumer that sends neither for a long time. Answer: [`Reply::Run`].
    Run,
    /// Requests the symbol at an address in the kernel. Answer: [`Reply::Symbol`].
    Symbol {
        /// The address.
        address: u64,
    },
    /// Requests the status of the framework and the line. Answer: [`Reply::Status`].
    Status,
    /// Requests a part of the description of an enabled probe's records or an aggregation's tuples, if it is longer
    /// than a frame and [`Eprobe`](Self::Eprobe) or [`Aggregation`](Self::Aggregation) was refused with
    /// [`Why::TooLong`]. Answer: [`Reply::Data`]. Repeat it with the number of received data until all have arrived.
    Data {
        /// The object.
        of: DataOf,
        /// The number of data to skip.
        skip: u32,
    },
    /// Requests the declarations of a module for D programs: structs, enums and translators, as text (documented in
    /// `sdt_core::layout`). The current modules are numbered from 0. Answer: [`Reply::Declared`].
    Declared {
        /// The number of the module.
        index: u32,
        /// The position in the module's text: 0, or [`Declared::next`] of the last answer.
        at: u32,
    },
    /// Requests a variable or function of the kernel by its name. Answer: [`Reply::Symbol`].
    SymbolNamed {
        /// Its module; empty for any.
        module: &'a str,
        /// Its name, as in the file or demangled.
        name: &'a str,
    },
    /// Requests the options that the consumer or programs have set for this channel's run, in the order of their
    /// numbers, as many as fit into a frame. A consumer that [claimed](Self::Claim) the anonymous enabling needs them
    /// to read its buffers. Answer: [`Reply::Options`]. Repeat it with the number after that of the last option until
    /// the answer has none.
    Options {
        /// Only options with this number or a greater one.
        from: u32,
    },
    /// Requests the machine code (text) whose functions this line may trace. Answer: [`Reply::FunctionText`].
    FunctionText,
    /// Sends functions to trace, on an open channel: [`FunctionSite`]s, which follow as items. Each becomes a site of a
    /// probe `entry` or `return` of the provider `fbt`, until the channel is closed. Answer: [`Reply::Functions`].
    Functions {
        /// The build ID of the file from which they come.
        build_id: &'a [u8],
    },
}

/// An object with descriptions of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DataOf {
    /// The records of the enabled probe with this number.
    Eprobe(u32),
    /// The tuples of the aggregation with this number.
    Aggregation(u32),
}

/// A kind of buffer of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SnapshotOf {
    /// The buffer of records: each a `struct dtrace_rechdr` and data, in DTrace's layout (`DTRACEIOC_BUFSNAP`).
    Records,
    /// The buffer of aggregations: tuples, each beginning with the number of its aggregation (`DTRACEIOC_AGGSNAP`).
    Aggregations,
}

/// An answer of a framework. If the documentation mentions items, [`Items`](crate::Items) follow in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reply<'a> {
    /// Answers [`Request::Hello`].
    Hello {
        /// [`VERSION`] of the framework.
        version: u32,
        /// The sender. The request has no such field, so that an echo of the request cannot be mistaken for an answer.
        side: Side,
    },
    /// Sent without a request: the framework, or the line to it, has ended.
    Gone {
        /// The reason, in one or more lines.
        reason: &'a str,
    },
    /// The request was refused, and nothing was changed.
    Refused {
        /// The kind of refusal.
        why: Why,
        /// The message, in one line.
        message: &'a str,
    },
    /// The request was successful.
    Done,
    /// Answers [`Request::List`]. Items: [`Probe`].
    Probes,
    /// Answers [`Request::Describe`].
    Detail(#[serde(borrow)] Detail<'a>),
    /// Answers [`Request::Argument`]: `None` after the last argument.
    Argument(#[serde(borrow)] Option<Argument<'a>>),
    /// Answers [`Request::Sites`]. Items: [`Site`].
    Sites,
    /// Answers the last piece of a [`Request::Program`].
    Matched {
        /// The number of enabled probes (ECBs) of all clauses.
        probes: u32,
    },
    /// Answers [`Request::Status`].
    Status(Status),
    /// Answers [`Request::Go`] and [`Request::Stop`]: the CPU on which `dtrace:::BEGIN` or `dtrace:::END` fired.
    On {
        /// The CPU, from 0.
        cpu: u32,
    },
    /// Answers [`Request::Eprobe`]. Items: [`Datum`], in the order of the actions.
    Eprobe {
        /// The probe's id.
        probe: u32,
        /// The size of one record in bytes, including its header.
        size: u32,
    },
    /// Answers [`Request::Aggregation`]. Items: [`Datum`]: the number of the variable, the keys, the value.
    Aggregation {
        /// The number of its variable.
        variable: u32,
        /// The enabled probe that aggregates.
        epid: u32,
        /// The size of one tuple in bytes, including its header.
        size: u32,
    },
    /// Answers [`Request::Format`].
    Bytes {
        /// The next bytes; none after the last.
        bytes: &'a [u8],
    },
    /// Answers [`Request::Snapshot`].
    Snapshot {
        /// The size in bytes of the contents of the switched buffer.
        size: u32,
        /// The offset of its oldest record: 0 except in a ring that has wrapped around.
        oldest: u32,
        /// The number of drops since the previous switch.
        drops: u64,
        /// The number of faults of programs on this CPU since then.
        errors: u64,
        /// The time of the switch in nanoseconds since boot.
        timestamp: u64,
        /// The bytes from the requested offset on, [packed](crate::packed): a multiple of eight bytes, or all.
        bytes: &'a [u8],
    },
    /// Answers [`Request::Run`].
    Run(Run),
    /// Answers [`Request::Symbol`] and [`Request::SymbolNamed`]: `None` if there is no such symbol.
    Symbol(#[serde(borrow)] Option<Symbol<'a>>),
    /// Answers [`Request::Data`]. Items: [`Datum`].
    Data {
        /// The total number of data.
        count: u32,
        /// For an enabled probe, the id of the probe; for an aggregation, the number of its variable.
        number: u32,
        /// For an aggregation, the enabled probe that aggregates.
        epid: u32,
        /// The size of one record or tuple in bytes, including its header.
        size: u32,
    },
    /// Answers [`Request::Declared`]: `None` if there is no such module. If this line may see none of the module's probes, name
    /// and text are empty.
    Declared(#[serde(borrow)] Option<Declared<'a>>),
    /// Answers [`Request::Options`]. Items: [`RunOption`].
    Options,
    /// Answers [`Request::FunctionText`]. Items: the addresses in the file (`u64`) of the functions that the breakpoint handler
    /// calls, which must not be traced.
    FunctionText {
        /// The build ID.
        build_id: &'a [u8],
        /// The number of further sites for which there is room.
        left: u32,
        /// The number of bytes below the stack pointer to which a traced instruction may store.
        free_stack: u32,
    },
    /// Answers [`Request::Functions`]. Items: [`RefusedFunction`]. All other sites of the request were accepted.
    Functions,
}

/// The sender of a [`Reply::Hello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Side {
    /// A framework.
    Framework,
}

/// The reason why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Why {
    /// The frame is intact, but not a request of this version.
    NotUnderstood,
    /// The channel has not been greeted.
    NotGreeted,
    /// The greatest number of channels or consumers is open.
    TooMany,
    /// The channel is not open.
    NotOpen,
    /// The channel is already open.
    Open,
    /// The text is not a probe description.
    Spec,
    /// There is no such probe.
    NoProbe,
    /// There are not enough free enablings.
    NoRoom,
    /// There is no such enabled probe, aggregation, format or CPU.
    NoSuch,
    /// The option does not accept this value, or can no longer be set.
    Option,
    /// The program cannot be run; the message has the reason.
    Program,
    /// The channel's rights do not suffice.
    NotPermitted,
    /// Another reason, in the message.
    Other,
    /// The answer is longer than a frame: request it in parts.
    TooLong,
}

/// A listed probe. Its names are those of the kernel, and not always UTF-8.
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

/// An instruction at the boundary of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSite<'a> {
    /// The probe; `None` if the site belongs to the same probe as the previous item.
    #[serde(borrow)]
    pub probe: Option<FunctionProbe<'a>>,
    /// The address of the instruction in the file.
    pub address: u64,
    /// The offset of the instruction in the function.
    pub offset: u32,
    /// The bytes of the instruction.
    pub code: &'a [u8],
    /// The bytes around the instruction that a jump may overwrite together with it; `None` if no jump may overwrite the instruction.
    pub window: Option<FunctionWindow>,
}

/// The bytes around an instruction that a jump may overwrite together with it (`dtrace_abi::function::Window`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionWindow {
    /// The number of bytes before the instruction.
    pub before: u8,
    /// The number of bytes after the instruction.
    pub after: u8,
}

/// The names of a probe of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionProbe<'a> {
    /// Module name: for Rust the crate.
    pub module: &'a [u8],
    /// Function name.
    pub function: &'a [u8],
    /// Whether it is the probe `return`; otherwise `entry`.
    pub is_return: bool,
}

/// A [`FunctionSite`] that was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedFunction {
    /// The index among the items of the request.
    pub index: u32,
    /// The reason.
    pub why: WhyNoFunction,
}

/// Why a [`FunctionSite`] was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WhyNoFunction {
    /// A name is empty, too long, or has a zero byte; or the first item has no probe.
    Name,
    /// The kernel does not emulate this instruction, or it has another length.
    Instruction,
    /// The instruction stores further below the stack pointer than the breakpoint handler leaves free.
    Stack,
    /// The host does not let consumers trace this address.
    Address,
    /// The kernel's text has other bytes here.
    Bytes,
    /// The instruction overlaps another site.
    Overlap,
    /// There is no room for more sites.
    NoRoom,
    /// Another reason.
    Other,
}

/// The properties of a probe except its arguments. A stability is name, data and class, with DTrace's numbers.
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
    /// The privileges that the provider requires, as DTrace's bits (`DTRACE_PRIV_*`).
    pub privileges: u32,
}

/// The type of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument<'a> {
    /// The C type that the kernel passes.
    pub native: &'a [u8],
    /// The C type in D; empty if it is the same.
    pub translated: &'a [u8],
}

/// A firing site of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site<'a> {
    /// Its address.
    pub address: u64,
    /// The symbol of its function, as in the file, and the site's offset in the function.
    #[serde(borrow)]
    pub function: Option<(&'a str, u64)>,
    /// Its state.
    pub state: SiteState,
    /// The address of its cold block, to which control transfers while the site is enabled.
    pub target: u64,
    /// Whether a jump can reach the cold block.
    pub in_reach: bool,
    /// The reach of a jump on this architecture in bytes, in both directions.
    pub reach: u64,
}

/// The effect of executing a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SiteState {
    /// The instruction does nothing: the probe is disabled.
    Nop,
    /// A breakpoint exception.
    Trap,
    /// A jump.
    Jump,
}

/// One datum of a record or a tuple (`dtrace_recdesc_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datum {
    /// The action that records it, by its `DTRACEACT_*` or `DTRACEAGG_*` number.
    pub action: u16,
    /// Its size in bytes.
    pub size: u32,
    /// Its offset from the header.
    pub offset: u32,
    /// The alignment of its offset.
    pub alignment: u16,
    /// The number of its format, or 0.
    pub format: u16,
    /// The action's argument.
    pub arg: u64,
    /// The consumer's argument for the clause: the number of the statement.
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

/// The status of a channel's run (`dtrace_status_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Drops of dynamic variables.
    pub dynamic_drops: u64,
    /// Drops of dynamic variables because free chunks were being rinsed.
    pub dynamic_drops_rinsing: u64,
    /// Drops of dynamic variables because free chunks were dirty.
    pub dynamic_drops_dirty: u64,
    /// Drops of speculative records.
    pub speculation_drops: u64,
    /// Requests for a speculation that failed because all buffers were being committed or discarded.
    pub speculations_busy: u64,
    /// Requests for a speculation that failed because all buffers were in use.
    pub speculations_unavailable: u64,
    /// The number of times that a fault has aborted a clause.
    pub errors: u64,
    /// The number of full buffers with policy `fill`.
    pub filled: u64,
    /// The number of buffers with policy `switch` of which more than half is used.
    pub half_filled: u64,
    /// Drops of names of frames.
    pub stack_string_overflows: u64,
    /// Errors in clauses of `dtrace:::ERROR`.
    pub double_errors: u64,
    /// Whether the framework aborted the consumer, because it sent no request for too long, or because the kernel was
    /// unresponsive.
    pub killed: bool,
    /// Whether a program has called `exit`.
    pub exiting: bool,
}

/// A symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol<'a> {
    /// Its module.
    pub module: &'a [u8],
    /// Its name, as in the file.
    pub name: &'a [u8],
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// A part of the declarations of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared<'a> {
    /// The module's name, as the descriptions of its probes contain it.
    pub module: &'a [u8],
    /// The text from the requested position on, without NULs.
    pub text: &'a [u8],
    /// The position of the next part.
    pub next: u32,
    /// The position of the end.
    pub end: u32,
}

/// The status of a framework and the line to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The number of CPUs that fire probes.
    pub cpus: u32,
    /// Number of the operating system (`dtrace_abi::System`).
    pub system: u8,
    /// Enabled timers that do not fire, or not on all CPUs, because the host does not drive them.
    pub late_timers: u32,
    /// Threads that `profile-N` does not sample.
    pub unsampled_threads: u32,
    /// The number of greeted channels.
    pub channels: u32,
    /// The number of hits that reached the framework since its start.
    pub hits: u64,
    /// The number of hits that no enabling recorded.
    pub unclaimed: u64,
    /// The number of hits while the same CPU recorded another hit. They are not recorded.
    pub reentered: u64,
    /// The number of hits with an id that no probe has.
    pub unknown: u64,
    /// The number of hits on CPUs beyond the configured number.
    pub stray: u64,
    /// The largest number of units of work that one hit used; a unit is about a nanosecond.
    pub most_work: u64,
    /// The longest time in nanoseconds for which the host kept interrupts off to synchronise all CPUs; 0 if it is not measured.
    pub longest_sync: u64,
    /// The number of intact frames received on this line.
    pub frames: u64,
    /// The number of damaged frames, which were discarded.
    pub damaged: u64,
    /// The number of frames longer than the buffer, which were discarded.
    pub overlong: u64,
    /// The number of refused requests.
    pub refused: u64,
}
