//! Programs of D: handed over, and what is to be known of them.

use dtrace_protocol::{Reply, Request, Run};

use super::answer::{data, text};
use super::error::there;
use super::{Aggregation, Client, ClientError, Eprobe, Symbol};

/// Bytes of a program that are sent at a time: they fit the shortest frame that a framework takes.
const PIECE: usize = 384;

impl Client {
    /// Sets an option of the run, by its number, before the channel goes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn option(&mut self, option: u32, value: i64) -> Result<(), ClientError> {
        self.done("option", Request::Option { option, value })
    }

    /// Hands over a program in DOF and enables its clauses; says how many probes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
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

    /// Takes over what was enabled before any consumer was there.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn claim(&mut self) -> Result<(), ClientError> {
        self.done("claim", Request::Claim)
    }

    /// What an enabled probe of this channel's records, if there is one of this number.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn eprobe(&mut self, epid: u32) -> Result<Option<Eprobe>, ClientError> {
        let found = self.call("eprobe", Request::Eprobe { epid }, |reply, items| {
            let Reply::Eprobe { probe, size } = reply else { return None };
            Some(Eprobe { probe, size, data: data(items)? })
        });
        there(found)
    }

    /// What an aggregation of this channel's holds, if there is one of this number.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn aggregation(&mut self, id: u32) -> Result<Option<Aggregation>, ClientError> {
        let found = self.call("aggregation", Request::Aggregation { id }, |reply, items| {
            let Reply::Aggregation { variable, epid, size } = reply else { return None };
            Some(Aggregation { variable, epid, size, data: data(items)? })
        });
        there(found)
    }

    /// A format of this channel's programs, if there is one of this number.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn format(&mut self, number: u16) -> Result<Option<Vec<u8>>, ClientError> {
        let mut all = Vec::new();
        loop {
            let request = Request::Format { number, at: all.len() as u32 };
            let more = self.call("format", request, |reply, _| match reply {
                Reply::Bytes { bytes } => Some(bytes.to_vec()),
                _ => None,
            });
            match there(more)? {
                Some(more) if more.is_empty() => return Ok(Some(all)),
                Some(more) => all.extend(more),
                None => return Ok(None),
            }
        }
    }

    /// Starts recording. Returns the CPU on which `dtrace:::BEGIN` fired.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn go(&mut self) -> Result<u32, ClientError> {
        self.call("go", Request::Go, |reply, _| on(reply))
    }

    /// Stops recording; what was recorded can still be read. Returns the CPU on which `dtrace:::END` fired.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn stop(&mut self) -> Result<u32, ClientError> {
        self.call("stop", Request::Stop, |reply, _| on(reply))
    }

    /// How this channel's programs are; the sign that their consumer lives.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn run(&mut self) -> Result<Run, ClientError> {
        self.call("run", Request::Run, |reply, _| match reply {
            Reply::Run(run) => Some(run),
            _ => None,
        })
    }

    /// What stands at an address of the kernel's, if that is known.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn symbol(&mut self, address: u64) -> Result<Option<Symbol>, ClientError> {
        self.call("symbol", Request::Symbol { address }, |reply, _| {
            let Reply::Symbol(symbol) = reply else { return None };
            Some(symbol.map(|of| Symbol {
                module: text(of.module),
                name: text(of.name),
                address: of.address,
                size: of.size,
            }))
        })
    }
}

fn on(reply: Reply<'_>) -> Option<u32> {
    match reply {
        Reply::On { cpu } => Some(cpu),
        _ => None,
    }
}
