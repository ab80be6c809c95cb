//! Commands that a kernel's user would type, and that the stand-in kernel can be asked to do: `dtrace -c COMMAND` of the
//! bench, which has no programs to run.

use std::str::FromStr;

use crate::session::{Session, SessionError};

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `sysctl NAME=VALUE`.
    Sysctl {
        /// What is written to.
        name: String,
        /// What is written.
        value: String,
    },
    /// `kstat -p MODULE:INSTANCE:NAME`.
    Kstat(String),
}

/// A command that the stand-in kernel does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to run {0}: the stand-in kernel runs no programs; it knows sysctl NAME=VALUE and kstat -p \
     MODULE:INSTANCE:NAME"
)]
pub struct UnknownCommand(String);

impl FromStr for Command {
    type Err = UnknownCommand;

    fn from_str(text: &str) -> Result<Self, UnknownCommand> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let command = match *words {
            ["sysctl", assignment] => assignment.split_once('=').map(|(name, value)| {
                Self::Sysctl { name: name.to_owned(), value: value.to_owned() }
            }),
            ["kstat", "-p", name] => Some(Self::Kstat(name.to_owned())),
            _ => None,
        };
        command.ok_or_else(|| UnknownCommand(text.to_owned()))
    }
}

impl Command {
    /// Has the kernel do it.
    ///
    /// # Errors
    /// The kernel has no such thing, or failed.
    pub fn run(&self, session: &mut Session) -> Result<(), SessionError> {
        match self {
            Self::Sysctl { name, value } => session.sysctl(name, value),
            Self::Kstat(name) => session.kstat(name).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_a_shell_reads_them() {
        let sysctl = Command::Sysctl { name: "hello.greet".into(), value: "a=b".into() };
        assert_eq!("sysctl  hello.greet=a=b".parse(), Ok(sysctl));
        assert_eq!("kstat -p hello:0:greet".parse(), Ok(Command::Kstat("hello:0:greet".into())));
        for text in ["", "ls", "sysctl hello.greet", "kstat hello:0:greet", "sysctl a=b c=d"] {
            let error = text.parse::<Command>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("failed to run {text}: ")), "{error}");
        }
    }
}
