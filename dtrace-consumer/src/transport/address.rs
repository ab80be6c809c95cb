//! Addresses of kernels (`--connect`).

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use dtrace_protocol::secure::Key;

use super::line::Line;
use super::patient::Patient;
use super::{ProcessError, Secure, SecureError, Stopped, Transport, child, process, serial};
use crate::system::reason;

/// Default speed of a serial line in bits per second.
const BAUD: u32 = 115_200;

/// Longest time until a machine in the network accepts a connection, and until a handshake ends.
const LIMIT: Duration = Duration::from_secs(10);

/// The protection of a connection against other users and machines.
#[derive(Clone, Debug)]
pub enum Protection {
    /// Encryption and authentication with the kernel's key.
    Key(Key),
    /// None, for addresses on this machine only.
    Machine,
    /// None, also for addresses on other machines: the user trusts the network, or uses a tunnel.
    Nothing,
}

/// The address of a kernel or a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
    /// A serial device, and its speed in bits per second.
    Serial(PathBuf, u32),
    /// A command for the shell, which speaks on its standard input and output.
    Exec(String),
    /// A process of this machine that hosts its probes, by its process ID.
    Process(u32),
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A kernel.
    Kernel,
    /// A process of this machine, by its process ID.
    Process(u32),
}

impl Peer {
    /// Returns how the peer is stopped, if it is a stopped process.
    pub fn stopped(self) -> Option<Stopped> {
        match self {
            Self::Kernel => None,
            Self::Process(id) => Stopped::of(id),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => f.write_str("the kernel"),
            Self::Process(id) => write!(f, "process {id}"),
        }
    }
}

/// Why a connection to a kernel fails.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The text is no address.
    #[error(
        "{0}: not an address; use unix:PATH, tcp:HOST:PORT, serial:DEVICE[,BAUD], exec:COMMAND or process:PID"
    )]
    Unknown(String),
    /// The speed of a serial device is no number.
    #[error("serial:{device},{baud}: the speed in bits per second is not a number")]
    Baud {
        /// The device.
        device: String,
        /// The text of the speed.
        baud: String,
    },
    /// The address is on another machine, and the connection is not protected.
    #[error(
        "{0} is another machine: every machine on the network could read and change the data, or \
         pretend to be the kernel; name the file of the kernel's key with --key FILE (dtrace \
         --make-key FILE creates one), or use --unencrypted"
    )]
    Unprotected(Address),
    /// The encrypted connection cannot be established.
    #[error("{address}: {error}")]
    Secure {
        /// The address.
        address: Address,
        /// The error.
        error: SecureError,
    },
    /// The process has no socket, or another process listens there.
    #[error("failed to connect to process:{id}: {error}")]
    Process {
        /// The process.
        id: u32,
        /// The error.
        error: ProcessError,
    },
    /// The stream cannot be opened.
    #[error("failed to connect to {address}: {}", reason(.error))]
    Connect {
        /// The address.
        address: Address,
        /// The error.
        error: io::Error,
    },
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let unknown = || AddressError::Unknown(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        match kind {
            _ if rest.is_empty() => Err(unknown()),
            "unix" => Ok(Self::Unix(rest.into())),
            "tcp" if rest.contains(':') => Ok(Self::Tcp(rest.to_owned())),
            "serial" => {
                let (device, baud) = rest.rsplit_once(',').unwrap_or((rest, ""));
                let number =
                    if baud.is_empty() && device == rest { Ok(BAUD) } else { baud.parse() };
                let bad = |_| AddressError::Baud { device: device.into(), baud: baud.into() };
                Ok(Self::Serial(device.into(), number.map_err(bad)?))
            }
            "exec" => Ok(Self::Exec(rest.to_owned())),
            "process" => rest.parse().map(Self::Process).map_err(|_| unknown()),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Serial(device, baud) => write!(f, "serial:{},{baud}", device.display()),
            Self::Exec(command) => write!(f, "exec:{command}"),
            Self::Process(id) => write!(f, "process:{id}"),
        }
    }
}

impl Address {
    /// Returns the peer at the address.
    pub const fn peer(&self) -> Peer {
        match self {
            Self::Process(id) => Peer::Process(*id),
            _ => Peer::Kernel,
        }
    }

    /// Opens the stream, and encrypts it if there is a key. Calls `waiting` once if no data arrive for some seconds.
    ///
    /// # Errors
    /// See [`AddressError`].
    pub fn open(
        &self,
        protection: &Protection,
        waiting: impl FnOnce() + Send + 'static,
    ) -> Result<Box<dyn Transport>, AddressError> {
        let line = Patient::new(self.connect(protection)?, waiting);
        let Protection::Key(key) = protection else { return Ok(Box::new(line)) };
        let secure = Secure::connect(line, key, LIMIT);
        let failed = |error| AddressError::Secure { address: self.clone(), error };
        Ok(Box::new(secure.map_err(failed)?))
    }

    /// Opens the stream without encryption.
    fn connect(&self, protection: &Protection) -> Result<Line, AddressError> {
        let connected = match self {
            Self::Unix(path) => {
                UnixStream::connect(path).and_then(|line| Line::new(line.into(), None))
            }
            Self::Tcp(name) => match name.to_socket_addrs() {
                Ok(all) => {
                    let all: Vec<_> = all.collect();
                    let leaves = all.iter().any(|address| !address.ip().is_loopback());
                    if leaves && matches!(protection, Protection::Machine) {
                        return Err(AddressError::Unprotected(self.clone()));
                    }
                    tcp(&all)
                }
                Err(error) => Err(error),
            },
            Self::Serial(device, baud) => {
                serial::open_raw(device, *baud).and_then(|(line, before)| {
                    let mut line = Line::new(line, None)?;
                    line.settings = Some(before);
                    Ok(line)
                })
            }
            Self::Exec(command) => child::spawn(command).and_then(|(child, output, input)| {
                let mut line = Line::new(output, Some(input))?;
                line.child = Some(child);
                Ok(line)
            }),
            Self::Process(id) => {
                let line = process::connect(*id);
                let failed = |error| AddressError::Process { id: *id, error };
                Line::new(line.map_err(failed)?.into(), None)
            }
        };
        connected.map_err(|error| AddressError::Connect { address: self.clone(), error })
    }
}

/// Connects to the first of these addresses that accepts a connection.
fn tcp(addresses: &[SocketAddr]) -> io::Result<Line> {
    let mut failed = io::ErrorKind::NotFound.into();
    for address in addresses {
        match TcpStream::connect_timeout(address, LIMIT) {
            Ok(line) => {
                // A request is one small write, and dtrace waits for its answer, so the system must send it at once.
                line.set_nodelay(true)?;
                return Line::new(line.into(), None);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let cases = [
            ("unix:/run/x.sock", Address::Unix("/run/x.sock".into())),
            ("tcp:[::1]:4242", Address::Tcp("[::1]:4242".into())),
            ("serial:/dev/ttyS0", Address::Serial("/dev/ttyS0".into(), BAUD)),
            ("serial:/dev/ttyS0,9600", Address::Serial("/dev/ttyS0".into(), 9600)),
            ("exec:ssh board cat", Address::Exec("ssh board cat".into())),
            ("process:77", Address::Process(77)),
        ];
        for (text, address) in cases {
            let read: Address = text.parse().unwrap();
            assert_eq!(read, address);
            assert_eq!(read.to_string().parse::<Address>().unwrap(), address);
        }
        for text in ["", "unix", "unix:", "tcp:host", "http://x", "/run/x.sock", "process:x"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{text}: not an address; use unix:PATH")),
                "{error}"
            );
        }
        let error = "serial:/dev/ttyS0,fast".parse::<Address>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "serial:/dev/ttyS0,fast: the speed in bits per second is not a number"
        );
    }

    #[test]
    fn what_leaves_the_machine_is_protected() {
        // 192.0.2.0/24 is reserved for documentation (RFC 5737): nothing may be sent there.
        for address in ["tcp:192.0.2.1:9", "tcp:[2001:db8::1]:9", "tcp:0.0.0.0:9"] {
            let address: Address = address.parse().unwrap();
            let error = address.connect(&Protection::Machine).unwrap_err();
            assert!(matches!(error, AddressError::Unprotected(_)), "{error}");
            assert!(error.to_string().contains("--key FILE"), "{error}");
        }
    }

    #[test]
    fn a_socket_that_is_not_there_is_named() {
        let error =
            Address::Unix("/nowhere/x.sock".into()).connect(&Protection::Machine).unwrap_err();
        let text = "failed to connect to unix:/nowhere/x.sock: No such file or directory";
        assert_eq!(error.to_string(), text);
    }
}
