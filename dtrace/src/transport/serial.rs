//! Serial devices: terminals in raw mode.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::termios::{self, OptionalActions, Termios};

/// How a terminal was before.
#[derive(Debug)]
pub(super) struct Settings(Termios);

impl Settings {
    /// Makes it so again.
    pub(super) fn restore(&self, terminal: BorrowedFd<'_>) {
        // It may be gone; nobody is left to be told.
        let _ = termios::tcsetattr(terminal, OptionalActions::Now, &self.0);
    }
}

/// Opens a terminal: raw, at a speed, for us alone.
pub(super) fn open_raw(device: &Path, baud: u32) -> io::Result<(OwnedFd, Settings)> {
    // Without NOCTTY it could become the terminal that our Ctrl-C comes from; without NONBLOCK opening waits for a
    // carrier.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let terminal = open(device, flags, Mode::empty())?;
    let before = termios::tcgetattr(&terminal)?;
    let mut raw = before.clone();
    raw.make_raw();
    raw.set_speed(baud)?;
    raw.control_modes |= termios::ControlModes::CLOCAL | termios::ControlModes::CREAD;
    // Not for two programs at once: each would miss what the other one takes.
    termios::ioctl_tiocexcl(&terminal)?;
    termios::tcsetattr(&terminal, OptionalActions::Flush, &raw)?;
    Ok((terminal, Settings(before)))
}
