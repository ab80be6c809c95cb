//! Errors of options.

/// The reason why an option was not set, in libdtrace's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No option has this name.
    #[error("Invalid option name")]
    Name,
    /// The option does not accept this value.
    #[error("Invalid value for specified option")]
    Value,
    /// The text is not a version.
    #[error("Version is not properly formatted or is too large")]
    Version,
    /// No release of D has this version.
    #[error("Requested version is not supported by compiler")]
    UnknownVersion,
    /// The version is later than one that was set before.
    #[error("Requested version conflicts with earlier setting")]
    VersionReduced,
    /// The value is too large.
    #[error("Value too large to be stored in data type")]
    Overflow,
    /// The option can be set on the command line only.
    #[error("Option cannot be used from within a D program")]
    Context,
}
