//! Reading the kernel's buffers.

use dtrace_protocol::{Reply, Request, SnapshotOf};

use super::{Client, ClientError, Snapshot};
use crate::budget::{OverBudget, Use};

/// Most repetitions of the request for a piece that was damaged on the connection.
const TRIES: usize = 4;

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
            // The buffer was switched, so its pieces can be requested again.
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
}
