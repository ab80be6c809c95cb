//! The line to the consumers.

use core::fmt;

/// A byte stream: a serial line, a virtio console, a socket of the kernel. The server detects lost and damaged bytes,
/// and continues.
pub trait Stream {
    /// Reads received bytes, as many as fit. Returns their number; 0 if there are none now.
    ///
    /// # Errors
    /// If the line is closed permanently.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost>;

    /// Sends some of the bytes. Returns their number; 0 if it accepts none now.
    ///
    /// # Errors
    /// If the line is closed permanently.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost>;
}

/// A device that is polled as a [`Stream`], with two functions of its driver that transfer bytes without waiting.
///
/// ```
/// use sdt_framework::server::Polled;
/// # struct Uart;
/// # impl Uart {
/// #     fn receive_bytes(&mut self, _: &mut [u8]) -> usize { 0 }
/// #     fn send_bytes(&mut self, _: &[u8]) -> usize { 0 }
/// #     fn received(&mut self) -> Option<u8> { None }
/// #     fn has_room(&self) -> bool { false }
/// #     fn send(&mut self, _: u8) {}
/// # }
/// # fn uart() -> Uart { Uart }
///
/// // One that takes and gives as much as there is,
/// let line = Polled::new(uart(), Uart::receive_bytes, Uart::send_bytes);
/// // and one of single bytes.
/// let line = Polled::bytes(uart(), Uart::received, |uart, byte| {
///     let has_room = uart.has_room();
///     if has_room {
///         uart.send(byte);
///     }
///     has_room
/// });
/// ```
#[derive(Clone, Copy)]
pub struct Polled<D, R, W> {
    device: D,
    receive: R,
    send: W,
}

impl<D, R, W> Polled<D, R, W>
where
    R: FnMut(&mut D, &mut [u8]) -> usize,
    W: FnMut(&mut D, &[u8]) -> usize,
{
    /// Creates a stream. `receive` fills a buffer with received bytes and returns their number; `send` returns the number of
    /// accepted bytes. Both return 0 if they can do nothing now.
    pub const fn new(device: D, receive: R, send: W) -> Self {
        Self { device, receive, send }
    }
}

impl<D> Polled<D, (), ()> {
    /// Creates a stream from functions for single bytes. `receive` returns the next received byte, if there is one;
    /// `send` returns whether the device has accepted the byte.
    pub fn bytes(
        device: D,
        mut receive: impl FnMut(&mut D) -> Option<u8>,
        mut send: impl FnMut(&mut D, u8) -> bool,
    ) -> impl Stream {
        Polled::new(
            device,
            move |device: &mut D, buffer: &mut [u8]| {
                let received = core::iter::from_fn(|| receive(device));
                // Takes room from the buffer before it takes a byte from the device, because a received byte cannot be
                // put back.
                buffer.iter_mut().zip(received).map(|(room, byte)| *room = byte).count()
            },
            move |device: &mut D, bytes: &[u8]| {
                bytes.iter().take_while(|&&byte| send(device, byte)).count()
            },
        )
    }
}

impl<D, R, W> Stream for Polled<D, R, W>
where
    R: FnMut(&mut D, &mut [u8]) -> usize,
    W: FnMut(&mut D, &[u8]) -> usize,
{
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        Ok((self.receive)(&mut self.device, buffer))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        Ok((self.send)(&mut self.device, bytes))
    }
}

impl<D: fmt::Debug, R, W> fmt::Debug for Polled<D, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Polled").field("device", &self.device).finish_non_exhaustive()
    }
}

/// The line is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the line to the consumers is closed")
    }
}

impl core::error::Error for Lost {}
