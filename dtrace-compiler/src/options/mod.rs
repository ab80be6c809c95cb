//! Options of D: the values, and the [table](ALL) of all options with their values and users.

mod error;
mod hint;
mod table;
mod value;

use std::sync::LazyLock;

use dtrace_abi::option::{OptionId, UNSET};
use dtrace_abi::stability::Attribute;

pub use error::OptionError;
pub use table::{ALL, OptionInfo, SettableBy, Takes, User};
pub use value::size;

use crate::version::Version;
use table::Setter;

/// The values of all options. `-x` and `#pragma D option` set the same ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    values: [i64; OptionId::ALL.len()],
    /// The least stability that programs must have (`amin`).
    pub minimum_stability: Option<Attribute>,
    /// Macro arguments that the program does not use are allowed (`argref`).
    pub unused_arguments: bool,
    /// Missing macro arguments are 0 or empty (`defaultargs`).
    pub default_arguments: bool,
    /// A program without clauses is allowed (`empty`).
    pub empty: bool,
    /// Errors are printed with their tags (`errtags`).
    pub error_tags: bool,
    /// Libraries are not read (`nolibs`).
    pub no_libraries: bool,
    /// An ambiguous word outside of clauses is a probe, not a type (`pspec`).
    pub prefer_probes: bool,
    /// A description that matches no probe is allowed (`zdefs`, `-Z`).
    pub no_probes: bool,
    /// Integer registers that the compiler uses (`iregs`).
    pub integer_registers: u8,
    /// Tuple registers that the compiler uses (`tregs`).
    pub tuple_registers: u8,
    /// The greatest number of frames of any stack (`maxframes`).
    pub max_frames: Option<u32>,
    /// The greatest size in bytes that one `alloca` with a constant size may request (`scratchsize`).
    pub max_scratch: Option<u64>,
    /// DIFOs are listed (`verbose`, `-S`).
    pub list_difos: bool,
    /// The compiler's own notes are left out of the DOF (`strip`).
    pub strip: bool,
    /// Drop messages are printed with their tags (`droptags`).
    pub drop_tags: bool,
    /// Scripts are preprocessed (`cpp`, `-C`).
    pub preprocess: bool,
    /// Symbols of Rust are printed as they are in the file (`rawnames`).
    pub raw_names: bool,
    /// Characters of bars; `None` leaves the choice to the locale (`encoding`).
    pub encoding: Option<Encoding>,
    /// Format of the output (`oformat`).
    pub output_format: OutputFormat,
    /// The version of D that programs are written in (`version`).
    pub version: Version,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            values: [UNSET; OptionId::ALL.len()],
            minimum_stability: None,
            unused_arguments: false,
            default_arguments: false,
            empty: false,
            error_tags: false,
            no_libraries: false,
            prefer_probes: false,
            no_probes: false,
            integer_registers: dtrace_abi::limits::INTEGER_REGISTERS,
            tuple_registers: dtrace_abi::limits::TUPLE_REGISTERS,
            max_frames: None,
            max_scratch: None,
            list_difos: false,
            strip: false,
            drop_tags: false,
            preprocess: false,
            raw_names: false,
            encoding: None,
            output_format: OutputFormat::Text,
            version: Version::LATEST,
        }
    }
}

/// The characters that bars of distributions are drawn with (`encoding`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// ASCII only.
    Ascii,
    /// UTF-8.
    Utf8,
}

/// The format of the output (`oformat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// dtrace(1)'s text.
    #[default]
    Text,
    /// JSON in FreeBSD's schema.
    Json,
    /// XML in FreeBSD's schema.
    Xml,
}

impl Options {
    /// Returns the value of a numbered option; [`UNSET`] if it was not set.
    pub const fn get(&self, id: OptionId) -> i64 {
        self.values[id.number() as usize]
    }

    /// Returns whether a numbered option was set.
    pub const fn is_set(&self, id: OptionId) -> bool {
        self.get(id) != UNSET
    }

    /// Returns the value of a numbered option: the one that was set, otherwise the default in the [table](ALL). `None`
    /// if there is no default: the option is off, or the kernel decides.
    pub fn number(&self, id: OptionId) -> Option<i64> {
        static DEFAULTS: LazyLock<Options> = LazyLock::new(table::defaults);
        let values = if self.is_set(id) { self } else { &*DEFAULTS };
        Some(values.get(id)).filter(|&value| value != UNSET)
    }

    /// Sets a numbered option.
    pub const fn put(&mut self, id: OptionId, value: i64) {
        self.values[id.number() as usize] = value;
    }

    /// Returns the numbered options that were set.
    pub fn values(&self) -> impl Iterator<Item = (OptionId, i64)> + '_ {
        OptionId::ALL.iter().map(|&id| (id, self.get(id))).filter(|&(_, value)| value != UNSET)
    }

    /// Returns the size of a string in bytes, with its terminating zero.
    pub(crate) fn strsize(&self) -> u32 {
        let size = self.number(OptionId::Strsize);
        size.and_then(|size| u32::try_from(size).ok()).unwrap_or_default()
    }

    /// Sets an option from its name and its value as text, as `#pragma D option name=value` does.
    ///
    /// # Errors
    /// If no option has this name, if it does not accept the value, or if it can only be set on the command line.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), OptionError> {
        let option = OptionInfo::find(name).ok_or(OptionError::Name)?;
        if option.settable_by == SettableBy::CommandLine {
            return Err(OptionError::Context);
        }
        match option.setter {
            Setter::Flag(field) => {
                if value.is_some() {
                    return Err(OptionError::Value);
                }
                *field(self) = true;
            }
            Setter::Value(set) => set(self, value.ok_or(OptionError::Value)?)?,
            Setter::Number(id) => {
                let given = value.is_some();
                let value = match (option.takes, value) {
                    (_, None) => 0,
                    (Takes::Size, Some(text)) => value::size(text)?,
                    (Takes::Rate, Some(text)) => value::rate(text)?,
                    (_, Some(text)) => value::count(text)?,
                };
                if id == OptionId::Strsize && u32::try_from(value).is_err() {
                    return Err(OptionError::Overflow);
                }
                // Without a value, the option is 0, as in libdtrace.
                let range = option.range().filter(|_| given && value != UNSET);
                if range.is_some_and(|range| !range.contains(&value)) {
                    return Err(OptionError::Value);
                }
                self.put(id, value);
            }
            Setter::None => {}
        }
        Ok(())
    }
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

    #[test]
    fn values_have_ranges() {
        assert_eq!(set("strsize", Some("2")), Ok(2));
        assert_eq!(set("strsize", Some("16k")), Ok(16384));
        // Like libdtrace.
        assert_eq!(set("strsize", None), Ok(0));
        assert_eq!(set("stackframes", Some("no")), Ok(UNSET));
        assert_eq!(set("stackframes", Some("0")), Ok(0));
        for (name, value) in [
            ("strsize", "0"),
            ("strsize", "1"),
            ("strsize", "16385"),
            ("stackframes", "1025"),
            ("jstackstrsize", "17k"),
            ("iregs", "0"),
            ("iregs", "9"),
        ] {
            assert_eq!(set(name, Some(value)), Err(OptionError::Value), "{name}={value}");
        }
        assert_eq!(set("strsize", Some("4g")), Err(OptionError::Overflow));
    }

    #[test]
    fn errors_have_hints() {
        let hint = |name: &str, value: Option<&str>| {
            Options::default().set(name, value).unwrap_err().hint(name)
        };
        for (name, value, expected) in [
            ("strszie", Some("1"), "did you mean strsize?"),
            ("bufpolicy", Some("foo"), "bufpolicy takes switch, fill or ring"),
            ("bufpolicy", None, "bufpolicy takes switch, fill or ring"),
            ("bufresize", Some("foo"), "bufresize takes auto or manual"),
            ("encoding", Some("latin1"), "encoding takes ascii or utf8"),
            ("quiet", Some("maybe"), "quiet takes yes or no"),
            ("zdefs", Some("1"), "zdefs takes no value"),
            ("stackframes", Some("x"), "stackframes takes a number from 0 to 1024"),
            ("nspec", Some("x"), "nspec takes a number"),
            ("iregs", Some("9"), "iregs takes a number from 1 to 8"),
            (
                "strsize",
                Some("1"),
                "strsize takes a number of bytes from 2 to 16384; k, m, g and t are units",
            ),
            ("bufsize", Some("4x"), "bufsize takes a number of bytes; k, m, g and t are units"),
            (
                "switchrate",
                Some("1y"),
                "switchrate takes a time such as 100ms, with a unit ns, us, ms, s, m, h or d, or a \
                 frequency such as 10hz",
            ),
            ("version", Some("1.x"), "version takes a value of the form x.y[.z]"),
            ("libdir", Some("/x"), "-x libdir sets the option on the command line"),
        ] {
            assert_eq!(hint(name, value).as_deref(), Some(expected), "{name}={value:?}");
        }
        assert_eq!(hint("nothinglikeit", None), None);
        // No form is wrong here.
        assert_eq!(hint("version", Some("99.9")), None);
    }

    #[test]
    fn the_table_is_sorted_and_complete() {
        assert!(ALL.is_sorted_by_key(|option| option.name));
        for id in OptionId::ALL {
            // The option exists in kernels with zones, not in libdtrace.
            if *id == OptionId::Zone {
                continue;
            }
            let option = OptionInfo::find(id.name()).unwrap_or_else(|| panic!("{}", id.name()));
            let mut options = Options::default();
            let value = match option.takes {
                Takes::Word(words) => words[0],
                _ => "2",
            };
            options.set(option.name, Some(value)).unwrap();
            assert!(options.is_set(*id), "{}", option.name);
        }
        assert!(OptionInfo::find("zone").is_none());
    }

    /// A default in the table is a value of the option, and setting it changes nothing.
    #[test]
    fn defaults_are_values() {
        for option in ALL.iter().filter(|option| option.settable_by != SettableBy::CommandLine) {
            let mut options = Options::default();
            let is_text = ["-", "off", "all", "the kernel's"].contains(&option.default);
            if is_text {
                continue;
            }
            options.set(option.name, Some(option.default)).unwrap();
            if option.id().is_none() && !matches!(option.takes, Takes::Word(_)) {
                assert_eq!(options, Options::default(), "{}", option.name);
            }
            if let Takes::Word(words) = option.takes {
                assert!(words.contains(&option.default), "{}", option.name);
                for word in words {
                    options.set(option.name, Some(word)).unwrap();
                }
                assert_eq!(options.set(option.name, Some("nosuch")), Err(OptionError::Value));
            }
        }
    }

    #[test]
    fn some_are_for_the_command_line() {
        for name in ["libdir", "memory", "define", "setenv"] {
            let mut options = Options::default();
            assert_eq!(options.set(name, Some("x")), Err(OptionError::Context), "{name}");
        }
    }
}
