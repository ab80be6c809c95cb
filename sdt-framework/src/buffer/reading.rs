//! What consumers read.

use core::sync::atomic::Ordering;

use crate::buffer::consumer::{Buffer, Buffers};
use crate::buffer::{ConsumerError, ConsumerId};
use crate::dtrace::Dtrace;
use crate::host::Host;
use crate::sync::widen;

/// # A consumer reads arguments
///
/// What [`enable`](Self::enable) has had recorded.
impl<H: Host> Dtrace<H> {
    /// Moves records of one CPU out of the consumer's buffer, oldest first and as many whole ones as fit, and
    /// returns how many bytes they have; [`Records`](crate::Records) finds them there. They are in the order in
    /// which they were written; order between CPUs can be had from their timestamps.
    ///
    /// Works whether the consumer is going or not. The consumer's reader lock is held meanwhile, and no function of
    /// anyone's is called: what is then done with the records may fire probes.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`], [`ConsumerError::NoCpu`]; [`ConsumerError::ShortRead`] when not even one record
    /// fits: it stays where it is. [`LONGEST`](crate::LONGEST) bytes are always enough.
    pub fn read(
        &self,
        id: ConsumerId,
        cpu: usize,
        into: &mut [u8],
    ) -> Result<usize, ConsumerError> {
        self.with_buffer(id, cpu, |buffer| {
            let Some(buffer) = buffer else { return Ok(0) };
            // SAFETY: holding the lock makes this the ring's reader.
            unsafe { buffer.ring.read(into) }.map_err(|error| ConsumerError::ShortRead {
                bytes: into.len(),
                needed: error.needed,
            })
        })?
    }

    /// How many records of the consumer were dropped on one CPU, because its buffer was full, since this
    /// function was last asked: every drop is reported once.
    ///
    /// # Errors
    /// [`ConsumerError::NotOpen`], [`ConsumerError::NoCpu`].
    pub fn drops(&self, id: ConsumerId, cpu: usize) -> Result<u64, ConsumerError> {
        self.with_buffer(id, cpu, |buffer| {
            let Some(buffer) = buffer else { return 0 };
            let dropped = buffer.ring.dropped();
            let reported = buffer.reported.swap(dropped, Ordering::Relaxed);
            widen(dropped.wrapping_sub(reported))
        })
    }

    /// Calls `f` with a CPU's buffer, if the consumer has buffers yet, as its only reader.
    fn with_buffer<R>(
        &self,
        id: ConsumerId,
        cpu: usize,
        f: impl FnOnce(Option<&Buffer>) -> R,
    ) -> Result<R, ConsumerError> {
        self.need_thread()?;
        let shared = self.shared()?;
        let (_, consumer) = shared.consumer(id)?;
        if cpu >= shared.cpus.len() {
            return Err(ConsumerError::NoCpu(cpu));
        }
        let buffers = consumer.reader.lock();
        // It may have been closed, and opened for another one, before the lock was ours.
        if !consumer.is(id) {
            return Err(ConsumerError::NotOpen(id));
        }
        Ok(f(buffers.as_ref().and_then(|buffers: &Buffers| buffers.get(cpu))))
    }
}
