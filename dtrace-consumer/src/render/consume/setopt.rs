//! `setopt`: options that programs change while they run (`dtrace_setopt`, dt_options.c).

use dtrace_compiler::options::{OptionError, OptionInfo, Options, SettableBy, User};

/// Why a running program cannot set an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetoptError {
    /// The option has no effect any more once tracing has started.
    #[error("Operation illegal when tracing is active")]
    Active,
    /// The option does not exist, or does not take the value.
    #[error(transparent)]
    Option(#[from] OptionError),
}

/// Sets an option for a running program.
pub(in crate::render) fn set(
    options: &mut Options,
    name: &str,
    value: &str,
) -> Result<(), SetoptError> {
    let option = OptionInfo::find(name).ok_or(OptionError::Name)?;
    match (option.settable_by, option.user) {
        // libdtrace accepts options of the compiler here, without effect.
        (SettableBy::Setopt | SettableBy::CommandLine, _)
        | (SettableBy::Pragma, User::Compiler) => {}
        (SettableBy::Pragma, User::Unused) if option.id().is_none() => {}
        (SettableBy::Pragma, _) => return Err(SetoptError::Active),
    }
    Ok(options.set(name, Some(value))?)
}

#[cfg(test)]
mod tests {
    use dtrace_compiler::options::ALL;

    use super::*;

    #[test]
    fn options_of_the_kernel_are_fixed() {
        let mut options = Options::default();
        for name in ["bufsize", "bufpolicy", "strsize", "cleanrate", "temporal", "oformat"] {
            assert_eq!(set(&mut options, name, "1"), Err(SetoptError::Active), "{name}");
        }
        assert_eq!(options, Options::default());
        for name in ["aggrate", "quiet", "switchrate", "stackindent", "aggsortrev"] {
            set(&mut options, name, "1").unwrap();
        }
        assert_eq!(set(&mut options, "zone", "1"), Err(OptionError::Name.into()));
        assert_eq!(set(&mut options, "libdir", "/x"), Err(OptionError::Context.into()));
        assert_eq!(set(&mut options, "evaltime", "exec"), Ok(()));
    }

    #[test]
    fn all_options_of_the_kernel_are_in_programs() {
        let kernel = ALL.iter().filter(|option| option.user == User::Kernel);
        assert!(kernel.clone().count() > 10);
        assert!(kernel.into_iter().all(|option| option.settable_by == SettableBy::Pragma));
    }
}
