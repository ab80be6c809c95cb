//! The mailbox: memory into which the host of the machine writes a message that is too long for the serial line.

use sdt_protocol::frame::{self, FrameError};
use sdt_protocol::{MAILBOX, MAILBOX_ROOM, Message, Request};

use crate::arch::SYMBOLS;
use crate::paging;

/// Returns the request in the mailbox. `length` is the size of its frame in bytes, from the host's `Request::Mailed`.
///
/// # Errors
/// If the bytes are not the frame of a message.
pub(crate) fn take(length: u32) -> Result<Request, FrameError> {
    let length = length as usize;
    if length > MAILBOX_ROOM {
        return Err(FrameError::TooLong);
    }
    let from = paging::direct(SYMBOLS + MAILBOX) as *const u8;
    // SAFETY: the range is RAM in the direct map that only the mailbox uses: the heap ends before it. The host writes to it
    // before it sends `Request::Mailed`, and not again before it has received the reply.
    let frame = unsafe { core::slice::from_raw_parts(from, length) };
    let (frame, end) = frame.split_at(length.saturating_sub(1));
    if end != [0] {
        return Err(FrameError::Content);
    }
    frame::decode::<Message>(frame).map(|message| message.request)
}
