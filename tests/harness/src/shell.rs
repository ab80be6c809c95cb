//! The commands that `dtrace -c COMMAND` accepts with the stand-in kernel, which runs no programs: the kernel does what the
//! command would do.

use std::str::FromStr;
use std::time::Duration;

use crate::session::{Session, SessionError};

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `sysctl NAME=VALUE...`: names and values.
    Sysctl(Vec<(String, String)>),
    /// `kstat -p MODULE:INSTANCE:NAME`.
    Kstat(String),
    /// `sleep SECONDS`, to trace events that the command does not cause.
    Sleep(Duration),
}

/// A command that the stand-in kernel does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to run {0}: the stand-in kernel runs no programs; it knows sysctl NAME=VALUE, kstat -p \
     MODULE:INSTANCE:NAME and sleep SECONDS"
)]
pub struct UnknownCommand(String);

impl FromStr for Command {
    type Err = UnknownCommand;

    fn from_str(text: &str) -> Result<Self, UnknownCommand> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let command = match *words {
            ["sysctl", ref assignments @ ..] if !assignments.is_empty() => assignments
                .iter()
                .map(|assignment| {
                    let (name, value) = assignment.split_once('=')?;
                    Some((name.to_owned(), value.to_owned()))
                })
                .collect::<Option<_>>()
                .map(Self::Sysctl),
            ["kstat", "-p", name] => Some(Self::Kstat(name.to_owned())),
            ["sleep", seconds] => seconds
                .parse()
                .ok()
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                .map(Self::Sleep),
            _ => None,
        };
        command.ok_or_else(|| UnknownCommand(text.to_owned()))
    }
}

impl Command {
    /// Lets the kernel execute the command. `sleep` returns at once; the caller sleeps.
    ///
    /// # Errors
    /// The sysctl or the kstat does not exist, or the kernel failed.
    pub fn run(&self, session: &mut Session) -> Result<(), SessionError> {
        match self {
            Self::Sysctl(assignments) => {
                assignments.iter().try_for_each(|(name, value)| session.sysctl(name, value))
            }
            Self::Kstat(name) => session.kstat(name).map(drop),
            Self::Sleep(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_a_shell_reads_them() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let sysctl = Command::Sysctl(vec![pair("hello.greet", "a=b"), pair("hello.greet", "")]);
        assert_eq!("sysctl  hello.greet=a=b hello.greet=".parse(), Ok(sysctl));
        assert_eq!("sleep 1.5".parse(), Ok(Command::Sleep(Duration::from_millis(1500))));
        assert_eq!("kstat -p hello:0:greet".parse(), Ok(Command::Kstat("hello:0:greet".into())));
        for text in [
            "",
            "ls",
            "sysctl",
            "sysctl hello.greet",
            "kstat hello:0:greet",
            "sysctl a=b c",
            "sleep -1",
        ] {
            let error = text.parse::<Command>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("failed to run {text}: ")), "{error}");
        }
    }
}
