//! Refusals of requests, and their messages.

use core::fmt::{self, Write as _};

use dtrace_abi::spec::SpecError;
use dtrace_protocol::{TooLong, Why};
use heapless::String;

use crate::control::error::ConsumerError;
use crate::control::functions::FunctionError;

/// The size of the longest message in bytes. All messages are shorter, and a frame has room for it.
const LONGEST: usize = 320;

/// The reason for a refusal.
#[derive(Debug)]
pub(super) enum Refusal {
    Consumer(ConsumerError),
    Spec(SpecError),
    TooLong(TooLong),
    /// There is no object of this kind with this number.
    NoSuch(Why, &'static str, u32),
    /// The line's rights do not suffice for this.
    NotPermitted(&'static str),
    /// Functions cannot be traced.
    Function(FunctionError),
    /// This number of consumers is the limit.
    TooMany(usize),
    /// This number of descriptions does not fit a frame.
    TooManyData(u32),
    /// A reason without details.
    Plain(Why, &'static str),
}

impl Refusal {
    pub(super) const fn why(&self) -> Why {
        match self {
            Self::Consumer(error) => match error {
                ConsumerError::NotOpen(_) => Why::NotOpen,
                ConsumerError::TooManyConsumers { .. } => Why::TooMany,
                ConsumerError::TooManyEnablings { .. }
                | ConsumerError::NoMemory { .. }
                | ConsumerError::SmallBuffer { .. } => Why::NoRoom,
                ConsumerError::NoCpu(_) => Why::NoSuch,
                ConsumerError::BadOption { .. } => Why::Option,
                ConsumerError::Program(_) => Why::Program,
                ConsumerError::NotPermitted => Why::NotPermitted,
                ConsumerError::NotReady
                | ConsumerError::ProbeContext
                | ConsumerError::Started(_) => Why::Other,
            },
            Self::Spec(_) => Why::Spec,
            Self::TooLong(_) => Why::Other,
            Self::TooManyData(_) => Why::TooLong,
            Self::NotPermitted(_) | Self::Function(FunctionError::NotPermitted) => {
                Why::NotPermitted
            }
            Self::Function(_) => Why::Other,
            Self::TooMany(_) => Why::TooMany,
            Self::NoSuch(why, ..) | Self::Plain(why, _) => *why,
        }
    }

    /// Returns the message in one line. A message that is too long ends with dots.
    pub(super) fn text(&self) -> String<LONGEST> {
        let mut text = Cut(String::new());
        if write!(text, "{self}").is_err() {
            for _ in 0..3 {
                text.0.pop();
            }
            let _ = text.0.push_str("...");
        }
        text.0
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Consumer(error) => write!(f, "{error}"),
            Self::Spec(error) => write!(f, "{error}"),
            Self::TooLong(error) => write!(f, "{error}"),
            Self::NoSuch(_, what, number) => write!(f, "there is no {what} {number}"),
            Self::NotPermitted(what) => {
                write!(
                    f,
                    "this line lacks the privilege KERNEL {what}; the kernel grants it when \
                           it opens the line"
                )
            }
            Self::TooMany(count) => {
                write!(f, "{count} consumers exist, which is the limit; close one")
            }
            Self::TooManyData(count) => {
                write!(
                    f,
                    "{count} data descriptions do not fit into a frame of this line; use \
                           longer frames"
                )
            }
            Self::Function(error) => write!(f, "{error}"),
            Self::Plain(_, text) => f.write_str(text),
        }
    }
}

impl From<ConsumerError> for Refusal {
    fn from(error: ConsumerError) -> Self {
        Self::Consumer(error)
    }
}

impl From<SpecError> for Refusal {
    fn from(error: SpecError) -> Self {
        Self::Spec(error)
    }
}

impl From<TooLong> for Refusal {
    fn from(error: TooLong) -> Self {
        Self::TooLong(error)
    }
}

/// A writer that cuts the text at the end of its buffer.
struct Cut<const N: usize>(String<N>);

impl<const N: usize> fmt::Write for Cut<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| self.0.push(c).map_err(|_| fmt::Error))
    }
}

#[cfg(test)]
mod tests {
    use dtrace_abi::action::Action;

    use super::*;
    use crate::control::refused::{Malformed, ProgramError};

    /// No message is cut on a machine with 64 bits.
    #[test]
    fn nothing_is_cut() {
        let most = usize::MAX;
        for error in [
            ConsumerError::NoMemory { needed: most, left: most },
            ConsumerError::SmallBuffer { bytes: most, least: most },
            ConsumerError::BadOption { option: u32::MAX, value: i64::MIN },
            ConsumerError::TooManyConsumers { max: most },
            ConsumerError::TooManyEnablings { needed: most, left: most },
            ConsumerError::NotPermitted,
            ConsumerError::Program(ProgramError::Malformed(
                most,
                most,
                Malformed::Destructive(Action::Llquantize),
            )),
        ] {
            assert_eq!(Refusal::from(error).text(), error.to_string().as_str());
        }
        static LONG: [u8; LONGEST + 1] = [b'x'; LONGEST + 1];
        let long = Refusal::Plain(Why::Other, std::str::from_utf8(&LONG).unwrap()).text();
        assert!(long.len() == LONGEST && long.ends_with("x..."));
    }

    /// The longest message fits into the smallest allowed frame.
    #[test]
    fn frames_have_room() {
        use dtrace_protocol::frame::decoded_len;
        use dtrace_protocol::{Header, Reply, Writer};

        let message = "\0".repeat(LONGEST);
        let reply = Reply::Refused { why: Why::Other, message: &message };
        let header = Header { channel: u8::MAX, seq: u32::MAX };
        let (mut draft, mut line) = ([0; decoded_len(super::super::MIN_FRAME)], [0; 512]);
        let writer = Writer::new(&mut draft, header, &reply).unwrap();
        assert!(writer.seal(&mut line).is_ok());
    }
}
