//! Requests about programs of D: enabling them, and descriptions of their records.

use std::cmp::Ordering;

use dtrace_abi::option::OptionId;
use dtrace_protocol::{DataOf, Datum, Reply, Request, Run, Why};

use super::answer::{data, options};
use super::error::there;
use super::{Aggregation, Client, ClientError, Eprobe};
use crate::budget::Use;

/// Size of the pieces in which a program is sent, in bytes: they fit the shortest frame that a framework accepts.
const PIECE: usize = 384;
/// Limit for the numbers of options.
const OPTIONS: u32 = 256;
/// Size of the longest format in bytes: no program in DOF is longer.
const FORMAT: usize = 4 << 20;

impl Client {
    /// Sets an option, before tracing starts.
    ///
    /// # Errors
    /// [`ClientError::Option`] for a value that the kernel does not accept; and those of [`open`](Self::open).
    pub fn option(&mut self, option: OptionId, value: i64) -> Result<(), ClientError> {
        let done = self.done("option", Request::Option { option: option.number(), value });
        let Err(ClientError::Refused { why: Why::Option, .. }) = done else { return done };
        let values = match option {
            OptionId::Cpu => self.status().ok().map(|status| 0..=i64::from(status.cpus) - 1),
            _ => Some(option.values()),
        };
        let values = values.filter(|values| *values.end() != i64::MAX);
        Err(ClientError::Option { name: option.name(), value, values })
    }

    /// Sends a program as DOF and enables its clauses. Returns the number of matched probes.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn program(&mut self, dof: &[u8]) -> Result<u32, ClientError> {
        let size = dof.len() as u32;
        let mut at = 0;
        loop {
            let bytes = &dof[at..dof.len().min(at + PIECE)];
            let last = at + bytes.len() == dof.len();
            let request = Request::Program { size, at: at as u32, bytes };
            let done = self.call("program", request, |reply, _| match (reply, last) {
                (Reply::Done, false) => Some(None),
                (Reply::Matched { probes }, true) => Some(Some(probes)),
                _ => None,
            })?;
            match done {
                Some(probes) => return Ok(probes),
                None => at += bytes.len(),
            }
        }
    }

    /// Claims the anonymous enabling.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn claim(&mut self) -> Result<(), ClientError> {
        self.done("claim", Request::Claim)
    }

    /// Returns the options that are set, by number, with their values; none if the kernel does not support the request.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn options(&mut self) -> Result<Vec<(u32, i64)>, ClientError> {
        let mut all: Vec<(u32, i64)> = Vec::new();
        loop {
            let from = all.last().map_or(0, |(last, _)| last + 1);
            let more = self.call("options", Request::Options { from }, |reply, items| {
                if reply == Reply::Options { options(items) } else { None }
            });
            let more = match more {
                Err(ClientError::Refused {
                    why: Why::NotUnderstood | Why::NotPermitted, ..
                }) => Vec::new(),
                more => more?,
            };
            // A kernel whose numbers do not increase would never end the list.
            let strange = more.first().is_some_and(|(first, _)| *first < from)
                || !more.is_sorted_by(|(one, _), (next, _)| one < next)
                || more.last().is_some_and(|(last, _)| *last >= OPTIONS);
            match more.is_empty() {
                true => return Ok(all),
                false if strange => return Err(ClientError::Strange("options")),
                false => all.extend(more),
            }
        }
    }

    /// Returns the description of the records of an enabled probe by its number.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn eprobe(&mut self, epid: u32) -> Result<Option<Eprobe>, ClientError> {
        let found = self.call("eprobe", Request::Eprobe { epid }, |reply, items| {
            let Reply::Eprobe { probe, size } = reply else { return None };
            Some(Eprobe { probe, size, data: data(items)? })
        });
        if is_too_long(&found) {
            let found = self.parts("eprobe", DataOf::Eprobe(epid))?;
            return Ok(found.map(|Parts { number: probe, size, data, .. }| Eprobe {
                probe,
                size,
                data,
            }));
        }
        there(found)
    }

    /// Returns the description of an aggregation by its number.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn aggregation(&mut self, id: u32) -> Result<Option<Aggregation>, ClientError> {
        let found = self.call("aggregation", Request::Aggregation { id }, |reply, items| {
            let Reply::Aggregation { variable, epid, size } = reply else { return None };
            Some(Aggregation { variable, epid, size, data: data(items)? })
        });
        if is_too_long(&found) {
            let found = self.parts("aggregation", DataOf::Aggregation(id))?;
            return Ok(found.map(|Parts { number: variable, epid, size, data }| Aggregation {
                variable,
                epid,
                size,
                data,
            }));
        }
        there(found)
    }

    /// Requests descriptions of data that do not fit one frame.
    fn parts(&mut self, name: &'static str, of: DataOf) -> Result<Option<Parts>, ClientError> {
        let mut all: Option<Parts> = None;
        let mut share = self.budget.share(Use::Descriptions);
        loop {
            let skip = all.as_ref().map_or(0, |all| all.data.len() as u32);
            let more = self.call(name, Request::Data { of, skip }, |reply, items| {
                let Reply::Data { count, number, epid, size } = reply else { return None };
                Some((count, Parts { number, epid, size, data: data(items)? }))
            });
            let Some((count, more)) = there(more)? else { return Ok(None) };
            let nothing = more.data.is_empty();
            share.add(size_of_val(&more.data[..]) as u64)?;
            let all = match &mut all {
                Some(all) => {
                    all.data.extend(more.data);
                    all
                }
                none => none.insert(more),
            };
            match all.data.len().cmp(&(count as usize)) {
                Ordering::Equal => return Ok(Some(std::mem::take(all))),
                Ordering::Less if !nothing => {}
                _ => return Err(ClientError::Strange(name)),
            }
        }
    }

    /// Returns a format by its number.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn format(&mut self, number: u16) -> Result<Option<Vec<u8>>, ClientError> {
        let mut all = Vec::new();
        let mut share = self.budget.share(Use::Descriptions);
        loop {
            let request = Request::Format { number, at: all.len() as u32 };
            let more = self.call("format", request, |reply, _| match reply {
                Reply::Bytes { bytes } => Some(bytes.to_vec()),
                _ => None,
            });
            match there(more)? {
                Some(more) if more.is_empty() => return Ok(Some(all)),
                Some(more) if all.len() + more.len() > FORMAT => {
                    return Err(ClientError::Strange("format"));
                }
                Some(more) => {
                    share.add(more.len() as u64)?;
                    all.extend(more);
                }
                None => return Ok(None),
            }
        }
    }

    /// Starts recording. Returns the CPU on which `dtrace:::BEGIN` fired.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn go(&mut self) -> Result<u32, ClientError> {
        self.call("go", Request::Go, |reply, _| on(reply))
    }

    /// Stops recording; the existing records can still be read. Returns the CPU on which `dtrace:::END` fired.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn stop(&mut self) -> Result<u32, ClientError> {
        self.call("stop", Request::Stop, |reply, _| on(reply))
    }

    /// Requests the status of this channel's programs, which also tells the kernel that this consumer is alive.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn run(&mut self) -> Result<Run, ClientError> {
        self.call("run", Request::Run, |reply, _| match reply {
            Reply::Run(run) => Some(run),
            _ => None,
        })
    }
}

/// Parts of a description that come in several answers.
#[derive(Default)]
struct Parts {
    number: u32,
    epid: u32,
    size: u32,
    data: Vec<Datum>,
}

fn is_too_long<T>(found: &Result<T, ClientError>) -> bool {
    matches!(found, Err(ClientError::Refused { why: Why::TooLong, .. }))
}

fn on(reply: Reply<'_>) -> Option<u32> {
    match reply {
        Reply::On { cpu } => Some(cpu),
        _ => None,
    }
}
