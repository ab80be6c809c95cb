//! What `-x` is given: libdtrace's options (`lib/libdtrace/common/dt_options.c`; FreeBSD has `cpu`, `objcopypath`,
//! `oformat` beside illumos's).

/// An option that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XOption {
    /// `quiet`, on or off.
    Quiet(bool),
    /// `zdefs`, which is `-Z`.
    ZDefs,
}

/// Why an option cannot be set, in libdtrace's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XOptionError {
    /// `EDT_BADOPTNAME`: libdtrace has none of this name.
    #[error("Invalid option name")]
    Name,
    /// `EDT_BADOPTVAL`: it cannot have this value.
    #[error("Invalid value for specified option")]
    Value,
    /// libdtrace has it.
    #[error("this option is not there yet")]
    NotYet,
}

/// Options of libdtrace that are not there, sorted.
const NOT_YET: &str = "\
    agghist aggpack aggpercpu aggrate aggsize aggsortkey aggsortkeypos aggsortpos aggsortrev aggzoom amin \
    argref bufpolicy bufresize bufsize cleanrate core cpp cpphdrs cpppath cpu ctypes debug defaultargs define \
    destructive droptags dtypes dynvarsize empty encoding errtags evaltime flowindent grabanon incdir iregs \
    jstackframes jstackstrsize kdefs knodefs late lazyload ldpath libdir linkmode linktype nolibs nspec \
    objcopypath oformat pgmax pspec rawbytes setenv specsize stackframes stackindent statusrate stdc strip \
    strsize switchrate syslibdir temporal tree tregs udefs undef unodefs unsetenv ustackframes verbose version";

/// Sets an option. `value` is what follows the `=`, if there is one.
///
/// # Errors
/// There is no such option, or it cannot have this value.
pub fn parse(name: &str, value: Option<&str>) -> Result<XOption, XOptionError> {
    match (name, value) {
        ("quiet", value) => Ok(XOption::Quiet(is_on(value)?)),
        ("zdefs", None) => Ok(XOption::ZDefs),
        ("zdefs", Some(_)) => Err(XOptionError::Value),
        _ if NOT_YET.split_ascii_whitespace().any(|known| known == name) => {
            Err(XOptionError::NotYet)
        }
        _ => Err(XOptionError::Name),
    }
}

/// `dt_opt_runtime`: a word, or a number, of which each is on.
fn is_on(value: Option<&str>) -> Result<bool, XOptionError> {
    let Some(value) = value.map(str::to_ascii_lowercase) else { return Ok(true) };
    match &*value {
        "yes" | "enable" | "enabled" | "true" | "on" | "set" => Ok(true),
        "" | "no" | "disable" | "disabled" | "false" | "off" | "unset" => Ok(false),
        number => number.parse::<u32>().map(|_| true).map_err(|_| XOptionError::Value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_libdtraces() {
        assert_eq!(parse("quiet", None), Ok(XOption::Quiet(true)));
        assert_eq!(parse("quiet", Some("OFF")), Ok(XOption::Quiet(false)));
        assert_eq!(parse("quiet", Some("1")), Ok(XOption::Quiet(true)));
        assert_eq!(parse("quiet", Some("-1")), Err(XOptionError::Value));
        assert_eq!(parse("zdefs", Some("")), Err(XOptionError::Value));
        assert_eq!(parse("bufsize", Some("1m")), Err(XOptionError::NotYet));
        assert_eq!(parse("buf", None), Err(XOptionError::Name));
        assert_eq!(parse("", None), Err(XOptionError::Name));
        assert!(NOT_YET.split_ascii_whitespace().is_sorted());
    }
}
