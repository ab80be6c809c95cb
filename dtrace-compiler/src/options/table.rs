//! The table of all options: for the compiler, for `dtrace`, and for the help and documentation of both.

use std::ops::RangeInclusive;

use dtrace_abi::limits;
use dtrace_abi::option::{BufPolicy, BufResize, OptionId};
use dtrace_abi::stability::Attribute;

use super::error::OptionError;
use super::value::{count, registers, size};
use super::{Encoding, Options, OutputFormat};
use crate::version::Version;

/// An option of `-x` and of `#pragma D option`.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// Its name.
    pub name: &'static str,
    /// The value that it takes.
    pub takes: Takes,
    /// The value that applies if the option is not set, as a user would write it; `-` if there is none.
    pub default: &'static str,
    /// The part of the system that uses it.
    pub user: User,
    /// One line of help.
    pub help: &'static str,
    /// The ways in which a user can set it.
    pub settable_by: SettableBy,
    pub(super) setter: Setter,
}

/// The value that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No value: naming the option turns it on.
    Flag,
    /// `yes` or `no`; an option without a value is on.
    Switch,
    /// A number.
    Count,
    /// Bytes, with an optional unit `k`, `m`, `g` or `t`.
    Size,
    /// A time in ns, or with a unit `us`, `ms`, `s`, `m`, `h` or `d`; or a frequency in `hz`.
    Rate,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A text of this kind.
    Text(&'static str),
}

impl std::fmt::Display for Takes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag => f.pad("flag"),
            Self::Switch => f.pad("yes|no"),
            Self::Count => f.pad("count"),
            Self::Size => f.pad("size"),
            Self::Rate => f.pad("rate"),
            Self::Word(words) => f.pad(&words.join("|")),
            Self::Text(kind) => f.pad(kind),
        }
    }
}

/// The part of the system that uses an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The kernel or process that is traced; it gets the option with the programs.
    Kernel,
    /// The compiler of D.
    Compiler,
    /// The consumer, that is `dtrace`.
    Consumer,
    /// cpp(1), which `-C` runs.
    Preprocessor,
    /// None: libdtrace has the option, and it has no effect here.
    Unused,
}

impl User {
    /// Returns its name in help and documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Compiler => "compiler",
            Self::Consumer => "dtrace",
            Self::Preprocessor => "cpp",
            Self::Unused => "no effect",
        }
    }
}

/// The ways in which a user can set an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettableBy {
    /// By the command line only.
    CommandLine,
    /// By the command line and by a pragma.
    Pragma,
    /// By the command line, by a pragma, and by `setopt` while the program runs.
    Setopt,
}

/// The place in which [`Options::set`] stores an option.
#[derive(Clone, Copy, Debug)]
pub(super) enum Setter {
    /// Stored under the number of the kernel's option.
    Number(OptionId),
    /// In a flag.
    Flag(fn(&mut Options) -> &mut bool),
    /// By a function that parses the value.
    Value(fn(&mut Options, &str) -> Result<(), OptionError>),
    /// Not at all: the command line stores it, or it has no effect.
    None,
}

impl OptionInfo {
    /// Returns the option with a name.
    pub fn find(name: &str) -> Option<&'static Self> {
        ALL.binary_search_by_key(&name, |option| option.name).ok().map(|index| &ALL[index])
    }

    /// Returns its number, if it is one of those that the kernel's interface numbers.
    pub const fn id(&self) -> Option<OptionId> {
        match self.setter {
            Setter::Number(id) => Some(id),
            _ => None,
        }
    }

    /// Returns the numbers that it accepts; `None` if it accepts all, or takes no number.
    pub fn range(&self) -> Option<RangeInclusive<i64>> {
        let registers = |most: u8| Some(1..=most.into());
        match (self.name, self.id()) {
            ("iregs", _) => registers(limits::INTEGER_REGISTERS),
            ("tregs", _) => registers(limits::TUPLE_REGISTERS),
            // A smaller string has no room for a character besides its terminating zero.
            (_, Some(OptionId::Strsize)) => Some(2..=*OptionId::Strsize.values().end()),
            (_, id) => id.map(OptionId::values).filter(|all| *all.end() != i64::MAX),
        }
    }

    /// Returns the values that it takes, in words.
    pub fn values(&self) -> String {
        let range = self
            .range()
            .map_or(String::new(), |range| format!(" from {} to {}", range.start(), range.end()));
        match self.takes {
            Takes::Flag => "no value".into(),
            Takes::Switch => "yes or no".into(),
            Takes::Count => format!("a number{range}"),
            Takes::Size => format!("a number of bytes{range}; k, m, g and t are units"),
            Takes::Rate => "a time such as 100ms, with a unit ns, us, ms, s, m, h or d, or a \
                            frequency such as 10hz"
                .into(),
            Takes::Word([]) => String::new(),
            Takes::Word([words @ .., last]) => format!("{} or {last}", words.join(", ")),
            Takes::Text(kind) => format!("a value of the form {kind}"),
        }
    }
}

const FLAG: Takes = Takes::Flag;
const SWITCH: Takes = Takes::Switch;
const COUNT: Takes = Takes::Count;
const SIZE: Takes = Takes::Size;
const RATE: Takes = Takes::Rate;

/// An option that has a number in the kernel's interface, and that the kernel uses.
const fn kernel(
    id: OptionId,
    takes: Takes,
    default: &'static str,
    help: &'static str,
) -> OptionInfo {
    let (user, settable_by, setter) = (User::Kernel, SettableBy::Pragma, Setter::Number(id));
    OptionInfo { name: id.name(), takes, default, user, help, settable_by, setter }
}

/// An option that has a number in the kernel's interface, and that the consumer uses.
const fn consumer(
    id: OptionId,
    takes: Takes,
    default: &'static str,
    settable_by: SettableBy,
    help: &'static str,
) -> OptionInfo {
    OptionInfo { user: User::Consumer, settable_by, ..kernel(id, takes, default, help) }
}

/// A flag without a number.
const fn flag(
    name: &'static str,
    user: User,
    field: fn(&mut Options) -> &mut bool,
    help: &'static str,
) -> OptionInfo {
    let (settable_by, setter) = (SettableBy::Pragma, Setter::Flag(field));
    OptionInfo { name, takes: FLAG, default: "off", user, help, settable_by, setter }
}

/// An option without a number that takes a value.
const fn value(
    name: &'static str,
    takes: Takes,
    default: &'static str,
    user: User,
    set: fn(&mut Options, &str) -> Result<(), OptionError>,
    help: &'static str,
) -> OptionInfo {
    let (settable_by, setter) = (SettableBy::Pragma, Setter::Value(set));
    OptionInfo { name, takes, default, user, help, settable_by, setter }
}

/// An option of the command line only.
const fn command(
    name: &'static str,
    takes: Takes,
    default: &'static str,
    user: User,
    help: &'static str,
) -> OptionInfo {
    let (settable_by, setter) = (SettableBy::CommandLine, Setter::None);
    OptionInfo { name, takes, default, user, help, settable_by, setter }
}

/// An option of libdtrace that has no effect here.
const fn unused(name: &'static str, settable_by: SettableBy, help: &'static str) -> OptionInfo {
    let (takes, user, setter) = (Takes::Text("value"), User::Unused, Setter::None);
    OptionInfo { name, takes, default: "-", user, help, settable_by, setter }
}

/// All options, in the order of their names.
pub const ALL: &[OptionInfo] = {
    use OptionId::*;
    use SettableBy::{CommandLine, Pragma, Setopt};
    use User::{Compiler, Consumer, Preprocessor};
    &[
        consumer(Agghist, SWITCH, "no", Setopt, "Draw a bar for each value of an aggregation"),
        consumer(Aggpack, SWITCH, "no", Setopt, "Print each distribution on one line"),
        unused(
            "aggpercpu",
            Pragma,
            "Keep aggregations of each CPU; dtrace(1) prints the same with it",
        ),
        consumer(Aggrate, RATE, "1s", Setopt, "Time between two reads of the aggregation buffers"),
        kernel(Aggsize, SIZE, "4m", "Size of the aggregation buffer of each CPU"),
        consumer(Aggsortkey, SWITCH, "no", Setopt, "Sort aggregations by key, not by value"),
        consumer(Aggsortkeypos, COUNT, "0", Setopt, "Position of the key to sort by"),
        consumer(
            Aggsortpos,
            COUNT,
            "0",
            Setopt,
            "Position of the aggregation to sort by, if printa has several",
        ),
        consumer(Aggsortrev, SWITCH, "no", Setopt, "Sort in descending order"),
        consumer(
            Aggzoom,
            SWITCH,
            "no",
            Setopt,
            "Scale the bars of a distribution to its largest value",
        ),
        value(
            "amin",
            Takes::Text("stability"),
            "-",
            Compiler,
            minimum_stability,
            "Refuse programs that are less stable, such as Stable/Stable/Common",
        ),
        flag(
            "argref",
            Compiler,
            |options| &mut options.unused_arguments,
            "Allow macro arguments that the program does not use",
        ),
        value(
            "bufpolicy",
            Takes::Word(&["switch", "fill", "ring"]),
            "switch",
            User::Kernel,
            policy,
            "Action if a buffer is full: drop and continue, end the run, or overwrite the oldest \
             record",
        ),
        value(
            "bufresize",
            Takes::Word(&["auto", "manual"]),
            "auto",
            User::Kernel,
            resize,
            "Action if memory for a buffer is short: make the buffer smaller, or fail",
        ),
        kernel(Bufsize, SIZE, "4m", "Size of the record buffer of each CPU (-b)"),
        OptionInfo {
            user: User::Unused,
            ..kernel(
                Cleanrate,
                RATE,
                "-",
                "Rate of cleaning dynamic variables; each status request cleans them anyway",
            )
        },
        unused("core", CommandLine, "File that libdtrace reads symbols from"),
        flag("cpp", Consumer, |options| &mut options.preprocess, "Run cpp(1) on scripts (-C)"),
        command("cpphdrs", FLAG, "off", Preprocessor, "Print the names of included files (-H)"),
        command("cpppath", Takes::Text("path"), "cpp", Preprocessor, "Path of cpp(1)"),
        kernel(Cpu, COUNT, "all", "The only CPU to trace"),
        unused("ctypes", CommandLine, "File for libdtrace's C types"),
        unused("debug", Pragma, "Debug libdtrace"),
        flag(
            "defaultargs",
            Compiler,
            |options| &mut options.default_arguments,
            "Replace missing macro arguments with 0 or an empty string",
        ),
        command("define", Takes::Text("name[=value]"), "-", Preprocessor, "Define a macro (-D)"),
        kernel(Destructive, SWITCH, "no", "Permit destructive actions (-w)"),
        OptionInfo {
            settable_by: Setopt,
            ..flag(
                "droptags",
                Consumer,
                |options| &mut options.drop_tags,
                "Print the tag of each drop message",
            )
        },
        unused("dtypes", CommandLine, "File for libdtrace's D types"),
        kernel(
            Dynvarsize,
            SIZE,
            "the kernel's",
            "Memory for dynamic variables: self-> and associative arrays",
        ),
        flag("empty", Compiler, |options| &mut options.empty, "Allow a program without clauses"),
        OptionInfo {
            settable_by: Setopt,
            ..value(
                "encoding",
                Takes::Word(&["ascii", "utf8"]),
                "-",
                Consumer,
                encoding,
                "Characters of bars; if not set, aggpack and agghist use UTF-8 if the locale does",
            )
        },
        flag(
            "errtags",
            Consumer,
            |options| &mut options.error_tags,
            "Print the tag of each error of the compiler",
        ),
        unused("evaltime", Pragma, "When libdtrace evaluates a program of another process"),
        consumer(
            Flowindent,
            SWITCH,
            "no",
            Setopt,
            "Indent the output at entry and return probes (-F)",
        ),
        consumer(Grabanon, SWITCH, "no", Pragma, "Claim the anonymous enabling (-a)"),
        command("incdir", Takes::Text("path"), "-", Preprocessor, "Folder of included files (-I)"),
        value(
            "iregs",
            COUNT,
            "8",
            Compiler,
            integer_registers,
            "Integer registers that the compiler uses",
        ),
        kernel(Jstackframes, COUNT, "50", "Frames of jstack()"),
        kernel(Jstackstrsize, SIZE, "512", "Size of the names that jstack() records"),
        unused("kdefs", Pragma, "Symbols of -G"),
        unused("knodefs", Pragma, "Symbols of -G"),
        unused("late", Pragma, "When libdtrace resolves addresses"),
        unused("lazyload", Pragma, "When a program of -G is loaded"),
        unused("ldpath", CommandLine, "Linker of -G"),
        command("libdir", Takes::Text("path"), "-", Consumer, "Folder of D libraries (-L)"),
        unused("linkmode", Pragma, "How libdtrace links symbols"),
        unused("linktype", Pragma, "Output format of -G"),
        value("maxframes", COUNT, "-", Compiler, max_frames, "Most frames of any stack"),
        command("memory", SIZE, "1g", Consumer, "Most memory that one kernel can make dtrace use"),
        flag(
            "nolibs",
            Consumer,
            |options| &mut options.no_libraries,
            "Read no D libraries, and no declarations of modules",
        ),
        kernel(Nspec, COUNT, "1", "Number of speculations"),
        unused("objcopypath", CommandLine, "objcopy of -G"),
        value(
            "oformat",
            Takes::Word(&["text", "json", "xml"]),
            "text",
            Consumer,
            output_format,
            "Format of the output",
        ),
        unused("pgmax", Pragma, "Processes that libdtrace keeps open"),
        flag(
            "pspec",
            Compiler,
            |options| &mut options.prefer_probes,
            "Parse an ambiguous word outside of clauses as a probe, not as a type",
        ),
        consumer(Quiet, SWITCH, "no", Setopt, "Print only what the program prints (-q)"),
        consumer(Rawbytes, SWITCH, "no", Setopt, "Print all arrays of characters as bytes"),
        OptionInfo {
            settable_by: Setopt,
            ..flag(
                "rawnames",
                Consumer,
                |options| &mut options.raw_names,
                "Print symbols of Rust as they are in the file, not demangled",
            )
        },
        value(
            "scratchsize",
            SIZE,
            "-",
            Compiler,
            max_scratch,
            "Most memory that one alloca() with a constant size gets",
        ),
        unused("setenv", CommandLine, "Environment of -c"),
        kernel(Specsize, SIZE, "32k", "Size of the buffer of each speculation, for each CPU"),
        kernel(Stackframes, COUNT, "20", "Frames of stack()"),
        consumer(Stackindent, COUNT, "14", Setopt, "Columns before each frame of a stack"),
        consumer(
            Statusrate,
            RATE,
            "20ms",
            Pragma,
            "Longest time between two status requests, at most 20ms",
        ),
        command(
            "stdc",
            Takes::Word(&["a", "c", "s", "t"]),
            "a",
            Preprocessor,
            "Dialect of C for cpp(1) (-X)",
        ),
        flag(
            "strip",
            Compiler,
            |options| &mut options.strip,
            "Leave the compiler's own notes out of the program's DOF",
        ),
        kernel(Strsize, SIZE, "256", "Size of a string, with its terminating zero"),
        consumer(Switchrate, RATE, "1s", Setopt, "Time between two reads of the record buffers"),
        unused("syslibdir", CommandLine, "Folder of libdtrace's own libraries"),
        consumer(Temporal, SWITCH, "yes", Pragma, "Print the records of all CPUs in order of time"),
        unused("tree", Pragma, "Print libdtrace's parse trees"),
        value(
            "tregs",
            COUNT,
            "8",
            Compiler,
            tuple_registers,
            "Tuple registers that the compiler uses",
        ),
        unused("udefs", Pragma, "Symbols of -G"),
        command("undef", Takes::Text("name"), "-", Preprocessor, "Undefine a macro (-U)"),
        unused("undefs", Pragma, "Symbols of -G"),
        unused("unodefs", Pragma, "Symbols of -G"),
        unused("unsetenv", Pragma, "Environment of -c"),
        kernel(Ustackframes, COUNT, "20", "Frames of ustack()"),
        flag(
            "verbose",
            Compiler,
            |options| &mut options.list_difos,
            "Print the compiled instructions (-S)",
        ),
        value(
            "version",
            Takes::Text("x.y[.z]"),
            "1.13",
            Compiler,
            version,
            "Version of D that programs are written in",
        ),
        flag(
            "zdefs",
            Compiler,
            |options| &mut options.no_probes,
            "Allow probe descriptions that match no probe (-Z)",
        ),
    ]
};

/// Returns options in which every numbered option has its default value.
pub(super) fn defaults() -> Options {
    let mut options = Options::default();
    for option in ALL.iter().filter(|option| option.id().is_some()) {
        // If the default is not a valid value, the option stays unset, and the kernel chooses the value.
        let _ = options.set(option.name, Some(option.default));
    }
    options
}

fn minimum_stability(options: &mut Options, text: &str) -> Result<(), OptionError> {
    options.minimum_stability = Some(Attribute::parse(text).ok_or(OptionError::Value)?);
    Ok(())
}

fn policy(options: &mut Options, text: &str) -> Result<(), OptionError> {
    let policy = BufPolicy::from_name(text).ok_or(OptionError::Value)?;
    options.put(OptionId::Bufpolicy, policy.number().into());
    Ok(())
}

fn resize(options: &mut Options, text: &str) -> Result<(), OptionError> {
    let resize = BufResize::from_name(text).ok_or(OptionError::Value)?;
    options.put(OptionId::Bufresize, resize.number().into());
    Ok(())
}

fn encoding(options: &mut Options, text: &str) -> Result<(), OptionError> {
    options.encoding = Some(match text {
        "ascii" => Encoding::Ascii,
        "utf8" => Encoding::Utf8,
        _ => return Err(OptionError::Value),
    });
    Ok(())
}

fn output_format(options: &mut Options, text: &str) -> Result<(), OptionError> {
    options.output_format = match text {
        "text" => OutputFormat::Text,
        "json" => OutputFormat::Json,
        "xml" => OutputFormat::Xml,
        _ => return Err(OptionError::Value),
    };
    Ok(())
}

fn integer_registers(options: &mut Options, text: &str) -> Result<(), OptionError> {
    options.integer_registers = registers(text, limits::INTEGER_REGISTERS)?;
    Ok(())
}

fn tuple_registers(options: &mut Options, text: &str) -> Result<(), OptionError> {
    options.tuple_registers = registers(text, limits::TUPLE_REGISTERS)?;
    Ok(())
}

fn max_frames(options: &mut Options, text: &str) -> Result<(), OptionError> {
    let frames = u32::try_from(count(text)?).map_err(|_| OptionError::Value)?;
    options.max_frames = Some(frames);
    Ok(())
}

fn max_scratch(options: &mut Options, text: &str) -> Result<(), OptionError> {
    let bytes = u64::try_from(size(text)?).map_err(|_| OptionError::Value)?;
    options.max_scratch = Some(bytes);
    Ok(())
}

/// Lowers the version of D; a program cannot raise it again.
fn version(options: &mut Options, text: &str) -> Result<(), OptionError> {
    let version = Version::parse(text).ok_or(OptionError::Version)?;
    if !version.is_release() {
        return Err(OptionError::UnknownVersion);
    }
    if version > options.version {
        return Err(OptionError::VersionReduced);
    }
    options.version = version;
    Ok(())
}
