//! `setopt`: options that programs change while they run (`dtrace_setopt`, dt_options.c).

use dtrace_abi::option::OptionId;
use dtrace_compiler::options::{OptionError, Options};

/// Why an option was not set while a run lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetoptError {
    /// It is the kernel's, which has begun.
    #[error("Operation illegal when tracing is active")]
    Active,
    /// There is none, or not of this value.
    #[error(transparent)]
    Option(#[from] OptionError),
}

/// Sets an option of the consumer's or the compiler's; those of the kernel's are fixed.
pub(super) fn set(options: &mut Options, name: &str, value: &str) -> Result<(), SetoptError> {
    use OptionId::*;
    let own = |id| {
        matches!(
            id,
            Agghist
                | Aggpack
                | Aggrate
                | Aggsortkey
                | Aggsortkeypos
                | Aggsortpos
                | Aggsortrev
                | Aggzoom
                | Flowindent
                | Quiet
                | Rawbytes
                | Stackindent
                | Switchrate
        )
    };
    if OptionId::from_name(name).is_some_and(|id| id != Zone && !own(id)) {
        return Err(SetoptError::Active);
    }
    Ok(options.set(name, Some(value))?)
}
