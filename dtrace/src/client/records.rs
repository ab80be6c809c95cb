//! What has been recorded.

use std::time::{Duration, Instant};

use dtrace_protocol::{Items, Record, Reply, Request, SnapshotOf};

use super::{Client, ClientError, Snapshot};
use crate::budget::{OverBudget, Use};

/// Most repetitions of the request for a piece that was damaged on the connection.
const TRIES: usize = 4;
/// A line on which nothing has come for so long is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(10);

/// The records of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// The CPU.
    pub cpu: u32,
    /// Records lost since it was last read, because its buffer was full.
    pub drops: u64,
    /// Answers that did not come, but something damaged did. What was recorded in them is lost.
    pub damaged: u64,
    /// Oldest first.
    pub records: Vec<Record>,
}

impl Records {
    /// Bytes that they take.
    pub(super) const fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.records.len() * size_of::<Record>()) as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.drops == 0 && self.damaged == 0 && self.records.is_empty()
    }
}

impl Client {
    /// Reads and empties a CPU's buffer of records or aggregations.
    ///
    /// # Errors
    /// See [`open`](Self::open); [`ClientError::Damaged`] if the content is lost.
    pub fn snapshot(&mut self, cpu: u32, buffer: SnapshotOf) -> Result<Snapshot, ClientError> {
        let (size, oldest, mut snapshot) = self.piece(cpu, buffer, 0)?;
        // Before any more of it is taken.
        let mut share = self.budget.share(Use::Buffers);
        share.add(size as u64)?;
        let left = size.saturating_sub(snapshot.data.len());
        let over = OverBudget { what: Use::Buffers, limit: self.budget.limit() };
        snapshot.data.try_reserve_exact(left).map_err(|_| over)?;
        while snapshot.data.len() < size {
            let at = snapshot.data.len() as u32;
            // The buffer has been switched: what comes of it can be asked for again.
            let mut more = self.piece(cpu, buffer, at);
            for _ in 0..TRIES {
                if !matches!(more, Err(ClientError::Damaged)) {
                    break;
                }
                more = self.piece(cpu, buffer, at);
            }
            let (_, _, more) = more?;
            if more.data.is_empty() {
                return Err(ClientError::Strange("snapshot"));
            }
            snapshot.data.extend(more.data);
        }
        if oldest > size || snapshot.data.len() > size {
            return Err(ClientError::Strange("snapshot"));
        }
        snapshot.data.rotate_left(oldest);
        Ok(snapshot)
    }

    /// Reads a piece of a CPU's buffer. Returns the buffer's size and the offset of its oldest record.
    fn piece(
        &mut self,
        cpu: u32,
        buffer: SnapshotOf,
        at: u32,
    ) -> Result<(usize, usize, Snapshot), ClientError> {
        self.call("snapshot", Request::Snapshot { cpu, buffer, at }, |reply, _| match reply {
            Reply::Snapshot { size, oldest, drops, errors, timestamp, bytes } => {
                let data = bytes.to_vec();
                let snapshot = Snapshot { data, drops, errors, taken: timestamp };
                Some((size as usize, oldest as usize, snapshot))
            }
            _ => None,
        })
    }

    /// Reads the records of one CPU; `None` if no CPU has any. Returns before the end of `wait` if a signal arrives.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn read(&mut self, wait: Duration) -> Result<Option<Records>, ClientError> {
        match self.read_undamaged(wait) {
            Err(ClientError::Damaged) => {
                self.reading = None;
                Ok(Some(Records { damaged: 1, ..Records::default() }))
            }
            read => read,
        }
    }

    fn read_undamaged(&mut self, wait: Duration) -> Result<Option<Records>, ClientError> {
        if let Some(early) = self.take_early() {
            return Ok(Some(early));
        }
        if wait.is_zero() {
            let records = self.call("read", Request::Read { wait: false }, records)?;
            // What was on its way already comes first.
            return Ok(match self.take_early() {
                Some(first) => {
                    if !records.is_empty() {
                        self.early_share.add(records.bytes())?;
                        self.early.push_back(records);
                    }
                    Some(first)
                }
                None => Some(records).filter(|records| !records.is_empty()),
            });
        }
        let asked = match self.reading {
            Some(seq) => seq,
            None => {
                let seq = self.send("read", &Request::Read { wait: true })?;
                self.reading = Some(seq);
                seq
            }
        };
        let answer = self.receive(asked, Instant::now() + wait, true, records)?;
        if let Some(answer) = answer {
            self.reading = None;
            return answer.ok_or(ClientError::Strange("read")).map(Some);
        }
        if self.heard.elapsed() > SILENCE {
            self.status()?;
        }
        Ok(self.take_early())
    }

    /// The first of the records that came while something else was waited for.
    fn take_early(&mut self) -> Option<Records> {
        let first = self.early.pop_front()?;
        self.early_share.release(first.bytes());
        Some(first)
    }
}

pub(super) fn records(reply: Reply<'_>, items: Items<'_>) -> Option<Records> {
    let Reply::Records { cpu, drops } = reply else { return None };
    let records = items.iter().collect::<Result<_, _>>().ok()?;
    Some(Records { cpu, drops, damaged: 0, records })
}
