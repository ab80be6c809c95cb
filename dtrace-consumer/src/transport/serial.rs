//! Serial devices: terminals in raw mode.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::termios::{self, OptionalActions, Termios};

/// The settings of a terminal before it was opened.
#[derive(Debug)]
pub(super) struct Settings(Termios);

impl Settings {
    /// Restores the settings.
    pub(super) fn restore(&self, terminal: BorrowedFd<'_>) {
        // An error is ignored: the device may be removed.
        let _ = termios::tcsetattr(terminal, OptionalActions::Now, &self.0);
    }
}

/// Opens a terminal in raw mode at a speed, exclusively.
pub(super) fn open_raw(device: &Path, baud: u32) -> io::Result<(OwnedFd, Settings)> {
    // Without NOCTTY the device could become dtrace's controlling terminal; without NONBLOCK `open` waits for a carrier.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let terminal = open(device, flags, Mode::empty())?;
    let before = termios::tcgetattr(&terminal)?;
    let mut raw = before.clone();
    raw.make_raw();
    raw.set_speed(baud)?;
    raw.control_modes |= termios::ControlModes::CLOCAL | termios::ControlModes::CREAD;
    // Two programs that read from one device would each miss data.
    termios::ioctl_tiocexcl(&terminal)?;
    termios::tcsetattr(&terminal, OptionalActions::Flush, &raw)?;
    Ok((terminal, Settings(before)))
}
