//! Verifies that the process at the other end of a socket is the named one.
//!
//! A traced process chooses the path of its socket and can put anything there. So dtrace does not trust the path: it asks
//! the operating system which process listens (`SO_PEERCRED`, `SO_PEERPIDFD`), in numbers of dtrace's own pid namespace. A
//! process in a child namespace has such a number and is traced by it; dtrace refuses a process without one.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};

use super::process::ProcessError;

/// Refuses a connection unless the process of this number listens at its other end, and is alive.
pub(super) fn verify(line: &UnixStream, id: u32) -> Result<(), ProcessError> {
    let peer = getsockopt(line, sockopt::PeerCredentials).map_err(std::io::Error::from)?;
    match u32::try_from(peer.pid()) {
        Ok(found) if found == id => {}
        Ok(0) | Err(_) => return Err(ProcessError::Elsewhere),
        Ok(found) => return Err(ProcessError::Other { found }),
    }
    is_alive(line, id)?;
    // A process may have changed its user after `listen`. Root can become any user.
    let users = users(id)?;
    match peer.uid() {
        0 => Ok(()),
        user if users.contains(&user) => Ok(()),
        found => Err(ProcessError::User { found }),
    }
}

/// Refuses a listener that has ended: its number may belong to another process by now. The number of a living process is
/// unique.
fn is_alive(line: &UnixStream, id: u32) -> Result<(), ProcessError> {
    let process = match getsockopt(line, sockopt::PeerPidfd) {
        Ok(process) => process,
        // Linux before 6.5 has no such option; number and user have been compared.
        Err(Errno::ENOPROTOOPT) => return Ok(()),
        // Linux returns one of these for a process that has ended.
        Err(Errno::ESRCH | Errno::EINVAL | Errno::ENODATA) => return Err(ProcessError::Ended),
        Err(error) => return Err(std::io::Error::from(error).into()),
    };
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", process.as_raw_fd()))?;
    match info.lines().find_map(|line| line.strip_prefix("Pid:")).map(str::trim) {
        Some(found) if found.parse() == Ok(id) => Ok(()),
        _ => Err(ProcessError::Ended),
    }
}

/// Returns the users of a process: real, effective, saved and of the file system.
fn users(id: u32) -> Result<Vec<u32>, ProcessError> {
    let status = fs::read_to_string(format!("/proc/{id}/status"))?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    Ok(users.split_ascii_whitespace().filter_map(|user| user.parse().ok()).collect())
}
