//! A process of this machine that hosts its probes itself (`sdt-process`).
//!
//! `/proc` shows the socket at which the process listens. So the result depends neither on the environment of the
//! process nor on files of other users, and processes in containers are found as well. This needs the same rights as
//! tracing: those of the process's user, or root.
//!
//! dtrace does not trust the process: it follows no link at the path, and verifies that the process itself answers
//! ([`peer`]). Otherwise a process could make root trace another one, with the effects that `-w` allows.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead as _, BufReader, ErrorKind};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Component, Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::peer;
use crate::escape;

/// `__SO_ACCEPTCON`, the flag of listening sockets in `/proc/net/unix` (Linux, `include/uapi/linux/net.h`).
const LISTENS: u32 = 1 << 16;

/// Longest wait for a socket whose queue of connections is full.
const FULL: Duration = Duration::from_secs(5);

/// Why dtrace cannot connect to a process.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is no process with this number.
    #[error("No such process")]
    None,
    /// The process belongs to another user.
    #[error("dtrace may not trace the process: run dtrace as the user of the process, or as root")]
    Forbidden,
    /// The process has not started `sdt_process`, or has ended it.
    #[error(
        "the process hosts no probes: it has not called sdt_process::start, or has dropped the result"
    )]
    NoProbes,
    /// The path of the socket has a symbolic link or `..`.
    #[error(
        "the path of its socket, {}, contains a symbolic link or `..`, and dtrace follows neither: \
         set XDG_RUNTIME_DIR of the process to a path without them", shown(.0)
    )]
    Link(PathBuf),
    /// The path of the socket is another kind of file.
    #[error("{} is not a socket", shown(.0))]
    NoSocket(PathBuf),
    /// The process does not accept the connections in the queue of its socket.
    #[error("the process does not answer: the queue of connections at its socket is full")]
    Full,
    /// Another process listens there.
    #[error("process {found} answers at its socket; dtrace traces only the process that -p names")]
    Other {
        /// The number of that process.
        found: u32,
    },
    /// The listener has no number in this pid namespace.
    #[error(
        "the process at its socket is outside of this pid namespace: run dtrace in the namespace of the process"
    )]
    Elsewhere,
    /// The listener has ended.
    #[error("the process that created the socket has ended")]
    Ended,
    /// Another user listens there.
    #[error(
        "a process of user {found} answers at its socket, but the process that -p names belongs to \
         another user"
    )]
    User {
        /// The number of that user.
        found: u32,
    },
    /// A system call failed.
    #[error("{}", crate::system::reason(.0))]
    Io(#[from] io::Error),
}

impl ProcessError {
    /// Returns whether the error may disappear when the process starts to host probes.
    pub const fn is_early(&self) -> bool {
        matches!(self, Self::NoProbes | Self::None | Self::Forbidden | Self::Io(_))
    }
}

/// Connects to the socket of a process's probes, and verifies that the process itself answers.
pub(super) fn connect(id: u32) -> Result<UnixStream, ProcessError> {
    let process = PathBuf::from(format!("/proc/{id}"));
    let own = sockets(&process).map_err(|error| match error.kind() {
        ErrorKind::NotFound => ProcessError::None,
        ErrorKind::PermissionDenied => ProcessError::Forbidden,
        _ => error.into(),
    })?;
    let table = BufReader::new(fs::File::open(process.join("net/unix"))?);
    let (until, mut first) = (Instant::now() + FULL, None);
    // The kernel prints paths unescaped, so a path with a newline looks like another line. Therefore a line that cannot
    // be used does not end the search.
    for line in table.split(b'\n') {
        let line = line?;
        let Some((socket, path)) = listening(&line) else { continue };
        if own.contains(&socket) && is_of_probes(path) {
            match connect_to(&process.join("root"), path, id, until) {
                Ok(line) => return Ok(line),
                Err(error) => _ = first.get_or_insert(error),
            }
        }
    }
    Err(first.unwrap_or(ProcessError::NoProbes))
}

/// Connects to the socket at a path below a root, and verifies that the process answers.
fn connect_to(
    root: &Path,
    path: &Path,
    id: u32,
    until: Instant,
) -> Result<UnixStream, ProcessError> {
    let socket = find(root, path)?;
    // Through the open file, because its path may now lead to another file.
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", socket.as_raw_fd()))
        .map_err(io::Error::from)?;
    // Without NONBLOCK, `connect` would wait for ever if the process accepts no connection.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let line = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let line = UnixStream::from(line.map_err(io::Error::from)?);
    while let Err(error) = rustix::net::connect(&line, &address) {
        let full = error == rustix::io::Errno::AGAIN;
        if !full || Instant::now() >= until {
            return Err(if full { ProcessError::Full } else { io::Error::from(error).into() });
        }
        thread::sleep(Duration::from_millis(10));
    }
    line.set_nonblocking(false)?;
    peer::verify(&line, id)?;
    Ok(line)
}

/// Returns the path of a peer in the form for messages: escaped.
fn shown(path: &Path) -> String {
    escape::name(path.as_os_str().as_bytes())
}

/// Opens the socket at a path below a root without following links.
fn find(root: &Path, path: &Path) -> Result<OwnedFd, ProcessError> {
    let open = |at: BorrowedFd<'_>, name: &OsStr| -> io::Result<(OwnedFd, FileType)> {
        let file =
            openat(at, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
        Ok((file, kind))
    };
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut found = (
        openat(CWD, root, directory, Mode::empty()).map_err(io::Error::from)?,
        FileType::Directory,
    );
    for component in path.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(name) => found = open(found.0.as_fd(), name)?,
            _ => return Err(ProcessError::Link(path.into())),
        }
        if found.1 == FileType::Symlink {
            return Err(ProcessError::Link(path.into()));
        }
    }
    match found {
        (socket, FileType::Socket) => Ok(socket),
        _ => Err(ProcessError::NoSocket(path.into())),
    }
}

/// Returns the inode numbers of the sockets that a process has open.
fn sockets(process: &Path) -> io::Result<Vec<u64>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(process.join("fd"))? {
        // A descriptor that was closed meanwhile is skipped.
        let Ok(target) = fs::read_link(entry?.path()) else { continue };
        let number = target.to_str().and_then(|to| to.strip_prefix("socket:[")?.strip_suffix(']'));
        all.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    Ok(all)
}

/// Returns inode number and path from a line of `/proc/net/unix`; `None` unless the socket listens.
fn listening(line: &[u8]) -> Option<(u64, &Path)> {
    // Num RefCount Protocol Flags Type St Inode Path
    let mut rest = line;
    let mut fields = [""; 7];
    for field in &mut fields {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let (text, behind) = rest.split_at(end);
        (*field, rest) = (str::from_utf8(text).ok()?, behind);
    }
    let [_, _, _, flags, _, _, number] = fields;
    let listens = u32::from_str_radix(flags, 16).ok()? & LISTENS != 0;
    let path = Path::new(OsStr::from_bytes(rest.strip_prefix(b" ")?));
    Some((number.parse().ok()?, path)).filter(|_| listens)
}

/// Returns whether a path is one that `sdt-process` uses for its socket: `sdt/PID`, or `sdt-UID/PID`.
fn is_of_probes(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name).map(OsStr::as_bytes);
    folder.is_some_and(|name| name == b"sdt" || name.starts_with(b"sdt-"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn lines_of_the_table_are_read() {
        let line = |text: &'static str| {
            listening(text.as_bytes()).map(|(number, path)| (number, path.to_str().unwrap()))
        };
        let listens = "00000000af7f7406: 00000002 00000000 00010000 0001 01 95392 /run/a b/sdt/7";
        assert_eq!(line(listens), Some((95392, "/run/a b/sdt/7")));
        let aligned = "00000000af7f7406: 00000002 00000000 00010000 0001 01    77 @x";
        assert_eq!(line(aligned), Some((77, "@x")));
        for other in [
            "00000000f60c6764: 00000003 00000000 00000000 0001 03 95089 /run/sdt/7",
            "00000000f60c6764: 00000003 00000000 00010000 0001 03 95089",
            "Num       RefCount Protocol Flags    Type St Inode Path",
            "",
        ] {
            assert_eq!(line(other), None, "{other}");
        }
    }

    #[test]
    fn only_sockets_of_probes_are_taken() {
        for (path, expected) in [
            ("/run/user/7/sdt/9", true),
            ("/tmp/sdt-7/9", true),
            ("/run/sdt", false),
            ("/run/other/9", false),
            ("9", false),
        ] {
            assert_eq!(is_of_probes(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn a_process_without_probes_is_an_error() {
        let error = |id| connect(id).unwrap_err().to_string();
        assert!(error(std::process::id()).starts_with("the process hosts no probes"));
        assert_eq!(error(u32::MAX), "No such process");
    }

    /// Each part of the path to the test's own socket is replaced by a link in turn.
    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("sdt")).unwrap();
        let _listens = UnixListener::bind(root.join("sdt/1")).unwrap();
        symlink("1", root.join("sdt/2")).unwrap();
        symlink("sdt", root.join("sdt-7")).unwrap();
        fs::write(root.join("sdt/3"), "").unwrap();
        find(&root, "/sdt/1".as_ref()).unwrap();
        for path in ["/sdt/2", "/sdt-7/1", "/sdt/../sdt/1"] {
            let error = find(&root, path.as_ref()).unwrap_err();
            assert!(matches!(error, ProcessError::Link(_)), "{path}: {error}");
        }
        let error = find(&root, "/sdt/3".as_ref()).unwrap_err();
        assert!(matches!(error, ProcessError::NoSocket(_)), "{error}");
    }

    /// A process that accepts no connection does not block dtrace.
    #[test]
    fn a_full_queue_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let listens =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let listens = listens.unwrap();
        rustix::net::bind(&listens, &SocketAddrUnix::new(root.join("1")).unwrap()).unwrap();
        rustix::net::listen(&listens, 0).unwrap();
        let connect = || connect_to(&root, "/1".as_ref(), std::process::id(), Instant::now());
        let _waits = connect().unwrap();
        let error = connect().unwrap_err();
        assert!(matches!(error, ProcessError::Full), "{error}");
    }

    /// Any user may have chosen the path.
    #[test]
    fn paths_in_messages_are_escaped() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("\u{1b}[31m"), "").unwrap();
        let error = find(folder.path(), "/\u{1b}[31m".as_ref()).unwrap_err().to_string();
        assert_eq!(error, "/\\u{1b}[31m is not a socket");
    }

    /// This process listens at the socket, and the test connects with the numbers of other processes.
    #[test]
    fn only_the_process_that_was_named_is_traced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listens = UnixListener::bind(&path).unwrap();
        let line = UnixStream::connect(&path).unwrap();
        let own = std::process::id();
        peer::verify(&line, own).unwrap();
        for other in [1, std::os::unix::process::parent_id()] {
            let error = peer::verify(&line, other).unwrap_err();
            assert!(matches!(error, ProcessError::Other { found } if found == own), "{error}");
        }
    }
}
