//! Reading the kernel's buffers.

use dtrace_protocol::{Reply, Request, SnapshotOf, packed};

use super::{Client, ClientError, Snapshot};
use crate::budget::{OverBudget, Use};

/// The maximum number of repetitions of the request for a piece that was damaged on the connection.
const TRIES: usize = 4;

impl Client {
    /// Reads and empties a CPU's buffer of records or aggregations.
    ///
    /// # Errors
    /// See [`open`](Self::open); [`ClientError::Damaged`] if the content is lost.
    pub fn snapshot(&mut self, cpu: u32, buffer: SnapshotOf) -> Result<Snapshot, ClientError> {
        let Piece { size, oldest, mut snapshot, mut packed } = self.piece(cpu, buffer, 0)?;
        // The share is charged before memory is allocated.
        let mut share = self.budget.share(Use::Buffers);
        share.add(size as u64)?;
        let over = OverBudget { what: Use::Buffers, limit: self.budget.limit() };
        let data = &mut snapshot.data;
        let strange = || ClientError::Strange("snapshot");
        // The last word is padded.
        let padded = size.next_multiple_of(packed::WORD);
        data.try_reserve_exact(padded).map_err(|_| over)?;
        data.resize(padded, 0);
        let mut length = 0;
        loop {
            let unpacked = packed::unpack(&packed, &mut data[length..]).map_err(|_| strange())?;
            length += unpacked;
            if length == padded {
                break;
            }
            if unpacked == 0 {
                return Err(strange());
            }
            let at = length as u32;
            // The buffer was switched, so its pieces can be requested again.
            let mut more = self.piece(cpu, buffer, at);
            for _ in 0..TRIES {
                if !matches!(more, Err(ClientError::Damaged)) {
                    break;
                }
                more = self.piece(cpu, buffer, at);
            }
            packed = more?.packed;
        }
        data.truncate(size);
        if oldest > size {
            return Err(strange());
        }
        data.rotate_left(oldest);
        Ok(snapshot)
    }

    /// Reads a piece of a CPU's buffer.
    fn piece(&mut self, cpu: u32, buffer: SnapshotOf, at: u32) -> Result<Piece, ClientError> {
        self.call("snapshot", Request::Snapshot { cpu, buffer, at }, |reply, _| match reply {
            Reply::Snapshot { size, oldest, drops, errors, timestamp, bytes } => Some(Piece {
                size: size as usize,
                oldest: oldest as usize,
                snapshot: Snapshot { data: Vec::new(), drops, errors, taken: timestamp },
                packed: bytes.to_vec(),
            }),
            _ => None,
        })
    }
}

/// A piece of a CPU's buffer.
struct Piece {
    /// The size of the whole buffer.
    size: usize,
    /// The offset of its oldest record.
    oldest: usize,
    /// The snapshot, without its data.
    snapshot: Snapshot,
    packed: Vec<u8>,
}
