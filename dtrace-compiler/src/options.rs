//! Options: those of the compiler, and those that go to the kernel with the program (dt_options.c).

use dtrace_abi::option::{BufPolicy, BufResize, OptionId, UNSET};
use dtrace_abi::stability::Attribute;

use crate::version::Version;

/// All options. What is set here by `-x` or by `#pragma D option` is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    values: [i64; OptionId::ALL.len()],
    /// The least stability that is taken (`amin`).
    pub least: Option<Attribute>,
    /// Arguments that are not referred to are no error (`argref`).
    pub unused_arguments: bool,
    /// Arguments that are missing are 0 or empty (`defaultargs`).
    pub default_arguments: bool,
    /// A program may be empty (`empty`).
    pub empty: bool,
    /// Errors have their tags (`errtags`).
    pub error_tags: bool,
    /// No libraries (`nolibs`).
    pub no_libraries: bool,
    /// A word outside of clauses is a probe, whatever types are called (`pspec`).
    pub prefer_probes: bool,
    /// A description need not match anything (`zdefs`, `-Z`).
    pub no_probes: bool,
    /// Integer registers that the compiler uses (`iregs`).
    pub integer_registers: u8,
    /// Tuple registers that it uses (`tregs`).
    pub tuple_registers: u8,
    /// The most frames of any stack (`maxframes`).
    pub most_frames: Option<u32>,
    /// The most that `alloca` is asked for by a constant (`scratchsize`).
    pub scratch: Option<u64>,
    /// DIFOs are listed (`verbose`, `-S`).
    pub list: bool,
    /// Nothing about the compiler in what it makes (`strip`).
    pub strip: bool,
    /// Drops have their tags (`droptags`).
    pub drop_tags: bool,
    /// Run the preprocessor (`cpp`, `-C`).
    pub preprocess: bool,
    /// Aggregations are shown for each CPU (`aggpercpu`).
    pub per_cpu: bool,
    /// How histograms are drawn; what the terminal says if it is not given (`encoding`).
    pub encoding: Option<Encoding>,
    /// The version of D that programs are in (`version`).
    pub version: Version,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            values: [UNSET; OptionId::ALL.len()],
            least: None,
            unused_arguments: false,
            default_arguments: false,
            empty: false,
            error_tags: false,
            no_libraries: false,
            prefer_probes: false,
            no_probes: false,
            integer_registers: dtrace_abi::limits::INTEGER_REGISTERS,
            tuple_registers: dtrace_abi::limits::TUPLE_REGISTERS,
            most_frames: None,
            scratch: None,
            list: false,
            strip: false,
            drop_tags: false,
            preprocess: false,
            per_cpu: false,
            encoding: None,
            version: Version::LATEST,
        }
    }
}

/// Why an option was not set. Its text is what libdtrace says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// There is no such option.
    Name,
    /// It does not take this value.
    Value,
    /// The version is not one.
    Version,
    /// The version is one that never was.
    UnknownVersion,
    /// The version is later than one that was set before.
    VersionReduced,
    /// Too large.
    Overflow,
    /// It is for the command line alone.
    Context,
}

impl std::fmt::Display for OptionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Name => "Invalid option name",
            Self::Value => "Invalid value for specified option",
            Self::Version => "Version is not properly formatted or is too large",
            Self::UnknownVersion => "Requested version is not supported by compiler",
            Self::VersionReduced => "Requested version conflicts with earlier setting",
            Self::Overflow => "Value too large to be stored in data type",
            Self::Context => "Option cannot be used from within a D program",
        })
    }
}

impl std::error::Error for OptionError {}

/// How an option's value is written.
enum Form {
    /// An integer, or a word that says yes or no.
    Plain,
    /// Bytes, with `k`, `m`, `g` or `t`.
    Size,
    /// A time, or how often a second.
    Rate,
}

const fn form(id: OptionId) -> Form {
    use OptionId::*;
    match id {
        Aggsize | Bufsize | Dynvarsize | Jstackstrsize | Specsize | Strsize => Form::Size,
        Cleanrate | Statusrate | Aggrate | Switchrate => Form::Rate,
        _ => Form::Plain,
    }
}

/// How characters are written (`encoding`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// ASCII alone.
    Ascii,
    /// UTF-8.
    Utf8,
}

/// Options for what a consumer has read or begun by the time that it reads a program.
const COMMAND_LINE: [&str; 14] = [
    "core",
    "cpphdrs",
    "cpppath",
    "ctypes",
    "define",
    "dtypes",
    "incdir",
    "ldpath",
    "libdir",
    "objcopypath",
    "setenv",
    "stdc",
    "syslibdir",
    "undef",
];

/// Options for linking programs of C's, for symbol tables and for debugging libdtrace itself. They make no difference where
/// there is nothing of the kind.
const NO_DIFFERENCE: [&str; 15] = [
    "debug", "evaltime", "kdefs", "knodefs", "late", "lazyload", "linkmode", "linktype", "oformat",
    "pgmax", "tree", "udefs", "undefs", "unodefs", "unsetenv",
];

impl Options {
    /// The value of an option of the kernel's; [`UNSET`] if it was not set.
    pub const fn get(&self, id: OptionId) -> i64 {
        self.values[id.number() as usize]
    }

    /// Sets one.
    pub const fn put(&mut self, id: OptionId, value: i64) {
        self.values[id.number() as usize] = value;
    }

    /// Those of the kernel's that were set.
    pub fn values(&self) -> impl Iterator<Item = (OptionId, i64)> + '_ {
        OptionId::ALL.iter().map(|&id| (id, self.get(id))).filter(|&(_, value)| value != UNSET)
    }

    /// Room for a string, its end included: what a string's type is.
    pub(crate) fn strsize(&self) -> u32 {
        u32::try_from(self.get(OptionId::Strsize)).unwrap_or(256)
    }

    /// Sets an option from text, as `-x name=value` does.
    ///
    /// # Errors
    ///
    /// There is no such option, or it does not take the value.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), OptionError> {
        let flag = match name {
            "aggpercpu" => Some(&mut self.per_cpu),
            "argref" => Some(&mut self.unused_arguments),
            "cpp" => Some(&mut self.preprocess),
            "defaultargs" => Some(&mut self.default_arguments),
            "droptags" => Some(&mut self.drop_tags),
            "empty" => Some(&mut self.empty),
            "errtags" => Some(&mut self.error_tags),
            "nolibs" => Some(&mut self.no_libraries),
            "pspec" => Some(&mut self.prefer_probes),
            "strip" => Some(&mut self.strip),
            "verbose" => Some(&mut self.list),
            "zdefs" => Some(&mut self.no_probes),
            _ => None,
        };
        if let Some(flag) = flag {
            if value.is_some() {
                return Err(OptionError::Value);
            }
            *flag = true;
            return Ok(());
        }
        match name {
            "amin" => {
                self.least = Some(value.and_then(Attribute::parse).ok_or(OptionError::Value)?);
            }
            "version" => {
                let version = value.ok_or(OptionError::Value)?;
                let version = Version::parse(version).ok_or(OptionError::Version)?;
                if !version.is_release() {
                    return Err(OptionError::UnknownVersion);
                }
                if version > self.version {
                    return Err(OptionError::VersionReduced);
                }
                self.version = version;
            }
            "encoding" => {
                self.encoding = Some(match value {
                    Some("ascii") => Encoding::Ascii,
                    Some("utf8") => Encoding::Utf8,
                    _ => return Err(OptionError::Value),
                });
            }
            "maxframes" => {
                let frames = plain(value.ok_or(OptionError::Value)?)?;
                self.most_frames = Some(u32::try_from(frames).map_err(|_| OptionError::Value)?);
            }
            "scratchsize" => {
                let bytes = size(value.ok_or(OptionError::Value)?)?;
                self.scratch = Some(u64::try_from(bytes).map_err(|_| OptionError::Value)?);
            }
            "iregs" => {
                let limit = dtrace_abi::limits::INTEGER_REGISTERS;
                self.integer_registers = registers(value, limit)?;
            }
            "tregs" => {
                let limit = dtrace_abi::limits::TUPLE_REGISTERS;
                self.tuple_registers = registers(value, limit)?;
            }
            "bufpolicy" => {
                let policy = value.and_then(BufPolicy::from_name).ok_or(OptionError::Value)?;
                self.put(OptionId::Bufpolicy, policy.number().into());
            }
            "bufresize" => {
                let resize = value.and_then(BufResize::from_name).ok_or(OptionError::Value)?;
                self.put(OptionId::Bufresize, resize.number().into());
            }
            _ if COMMAND_LINE.contains(&name) => return Err(OptionError::Context),
            _ if NO_DIFFERENCE.contains(&name) => {}
            // Not an option of libdtrace's, but of a kernel with zones.
            "zone" => return Err(OptionError::Name),
            _ => {
                let id = OptionId::from_name(name).ok_or(OptionError::Name)?;
                let value = match (form(id), value) {
                    (_, None) => 0,
                    (Form::Plain, Some(value)) => plain(value)?,
                    (Form::Size, Some(value)) => size(value)?,
                    (Form::Rate, Some(value)) => rate(value)?,
                };
                if id == OptionId::Strsize && u32::try_from(value).is_err() {
                    return Err(OptionError::Overflow);
                }
                self.put(id, value);
            }
        }
        Ok(())
    }
}

fn registers(value: Option<&str>, limit: u8) -> Result<u8, OptionError> {
    let count: u8 = value.and_then(|value| value.parse().ok()).ok_or(OptionError::Value)?;
    if (1..=limit).contains(&count) { Ok(count) } else { Err(OptionError::Value) }
}

/// A number in C's bases, and what is behind it.
fn number(text: &str) -> Option<(i64, &str)> {
    let (base, begin) = match text.as_bytes() {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (16, 2),
        [b'0', ..] => (8, 0),
        _ => (10, 0),
    };
    let end = text[begin..].find(|c: char| !c.is_digit(base)).map_or(text.len(), |at| begin + at);
    let value = if begin == end { 0 } else { u64::from_str_radix(&text[begin..end], base).ok()? };
    Some((i64::try_from(value).ok()?, &text[end..]))
}

fn plain(text: &str) -> Result<i64, OptionError> {
    let is = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    if is(&["yes", "enable", "enabled", "true", "on", "set"]) {
        return Ok(1);
    }
    if text.is_empty() || is(&["no", "disable", "disabled", "false", "off", "unset"]) {
        return Ok(UNSET);
    }
    match number(text) {
        Some((value, "")) => Ok(value),
        _ => Err(OptionError::Value),
    }
}

/// Reads a number of bytes, with `k`, `m`, `g` or `t` behind it.
///
/// # Errors
/// It is none, or too large.
pub fn size(text: &str) -> Result<i64, OptionError> {
    let (value, unit) = number(text).ok_or(OptionError::Value)?;
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return Err(OptionError::Value),
    };
    value.checked_mul(1 << shift).ok_or(OptionError::Value)
}

/// In nanoseconds.
fn rate(text: &str) -> Result<i64, OptionError> {
    const SECOND: i64 = 1_000_000_000;
    let (value, unit) = number(text).ok_or(OptionError::Value)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" | "ns" | "nsec" => 1,
        "us" | "usec" => 1000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => SECOND,
        "m" | "min" => 60 * SECOND,
        "h" | "hour" => 3600 * SECOND,
        "d" | "day" => 24 * 3600 * SECOND,
        "hz" => return Ok(SECOND.checked_div(value).unwrap_or(0)),
        _ => return Err(OptionError::Value),
    };
    value.checked_mul(unit).ok_or(OptionError::Value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: Option<&str>) -> Result<i64, OptionError> {
        let mut options = Options::default();
        options.set(name, value)?;
        Ok(OptionId::from_name(name).map_or(0, |id| options.get(id)))
    }

    #[test]
    fn values_have_units() {
        assert_eq!(set("bufsize", Some("64k")), Ok(65536));
        assert_eq!(set("bufsize", Some("abc")), Err(OptionError::Value));
        assert_eq!(set("bufsize", Some("99999999t")), Err(OptionError::Value));
        assert_eq!(set("switchrate", Some("5hz")), Ok(200_000_000));
        assert_eq!(set("aggrate", Some("0.5hz")), Err(OptionError::Value));
        assert_eq!(set("aggrate", Some("1min")), Ok(60_000_000_000));
        assert_eq!(set("quiet", None), Ok(0));
        assert_eq!(set("quiet", Some("no")), Ok(UNSET));
        assert_eq!(set("stackframes", Some("0x10")), Ok(16));
        assert_eq!(set("bufpolicy", Some("ring")), Ok(0));
        assert_eq!(set("nosuch", None), Err(OptionError::Name));
        assert_eq!(set("version", Some("99.9")), Err(OptionError::UnknownVersion));
        assert_eq!(set("version", Some("1.x")), Err(OptionError::Version));
        assert_eq!(set("encoding", Some("latin1")), Err(OptionError::Value));
        assert_eq!(set("zdefs", Some("1")), Err(OptionError::Value));
    }
}
