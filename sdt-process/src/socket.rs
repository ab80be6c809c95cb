//! The socket at which a traced process listens: `$XDG_RUNTIME_DIR/sdt/PID` or `/tmp/sdt-UID/PID`.
//!
//! Only the owner can access the folder and the socket, and only peers of the owner or root are accepted. `dtrace -p` asks the system where
//! the process listens, and follows no symbolic link on the way, so the path contains none.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::descriptor::Descriptor;

/// The reason why the socket cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Other users own or can access the folder.
    #[error(
        "{folder} is not a folder that only this user can access (owner {owner}, mode {mode:o}); remove it, or set \
         XDG_RUNTIME_DIR"
    )]
    Shared {
        /// The folder.
        folder: PathBuf,
        /// The user number of its owner.
        owner: u32,
        /// Its mode.
        mode: u32,
    },
    /// Another process listens at the path.
    #[error(
        "the socket {0} is in use by another process with the same number, probably in another pid \
         namespace; set XDG_RUNTIME_DIR to different folders"
    )]
    Taken(PathBuf),
    /// A system call failed.
    #[error("cannot create the socket or its folder at {path}: {error}")]
    Io {
        /// The socket or the folder.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

/// A listening socket, and its path.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) listener: Descriptor<UnixListener>,
    pub(crate) path: PathBuf,
}

impl Socket {
    /// Listens at the path of this process.
    pub(crate) fn bind() -> Result<Self, SocketError> {
        Self::bind_in(&folder(), std::process::id())
    }

    /// Listens at the path of the process with this number in a folder.
    pub(crate) fn bind_in(folder: &Path, id: u32) -> Result<Self, SocketError> {
        let path = folder.join(id.to_string());
        let failed = |error| SocketError::Io { path: path.clone(), error };
        prepare_folder(folder)?;
        remove_stale_sockets(folder);
        match UnixStream::connect(&path) {
            Ok(_) => return Err(SocketError::Taken(path)),
            // The socket of an earlier process with this number, or of the program that this process ran before `exec`.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                fs::remove_file(&path).map_err(failed)?;
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(&path).map_err(failed)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = Descriptor::new(listener).map_err(failed)?;
        Ok(Self { listener, path })
    }

    /// Accepts the next connection. Closes it and returns `None` if the peer is neither this user nor root.
    pub(crate) fn accept(&self) -> io::Result<Option<Descriptor<UnixStream>>> {
        let (stream, _) = self.listener.get()?.accept()?;
        stream.set_nonblocking(true)?;
        let is_allowed = [0, effective_user()].contains(&user_of_peer(&stream)?);
        is_allowed.then(|| Descriptor::new(stream)).transpose()
    }

    /// Removes the socket from the file system.
    pub(crate) fn remove(&self) {
        // It may have been removed already.
        fs::remove_file(&self.path).ok();
    }
}

/// Returns the effective user of the connected process (`SO_PEERCRED`, unix(7)). Calls `getsockopt` itself, because rustix does
/// not accept the pid 0 of a process outside of this pid namespace.
fn user_of_peer(stream: &UnixStream) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: the kernel writes no more than `length` bytes to `peer`, any bytes of which are a `ucred`.
    let result = unsafe {
        let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        let to = (&raw mut peer).cast();
        libc::getsockopt(stream.as_raw_fd(), level, option, to, &raw mut length)
    };
    if result == 0 { Ok(peer.uid) } else { Err(io::Error::last_os_error()) }
}

fn effective_user() -> u32 {
    // SAFETY: returns a number and changes nothing.
    unsafe { libc::geteuid() }
}

/// Returns the folder of this user's sockets.
fn folder() -> PathBuf {
    // SAFETY: returns a number and changes nothing.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    // In a set-uid program, another user controls the environment.
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !is_privileged);
    let runtime = runtime.map(PathBuf::from).filter(|dir| dir.is_absolute());
    let runtime = runtime.and_then(|dir| dir.canonicalize().ok()).filter(|dir| {
        let here = fs::metadata(dir);
        here.is_ok_and(|of| of.is_dir() && of.uid() == effective_user())
    });
    match runtime {
        Some(runtime) => runtime.join("sdt"),
        None => PathBuf::from(format!("/tmp/sdt-{}", effective_user())),
    }
}

/// Creates the folder, or checks that only this user can access it.
fn prepare_folder(folder: &Path) -> Result<(), SocketError> {
    let failed = |error| SocketError::Io { path: folder.to_owned(), error };
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    // The metadata of the folder itself: a symbolic link is not followed.
    let found = fs::symlink_metadata(folder).map_err(failed)?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if found.is_dir() && owner == effective_user() && mode & 0o077 == 0 {
        return Ok(());
    }
    Err(SocketError::Shared { folder: folder.to_owned(), owner, mode })
}

/// Removes the sockets of killed processes: those at which no process listens, and whose name is the number of no process. The
/// number alone is not enough, because a process in another pid namespace may have no number here.
fn remove_stale_sockets(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_socket = entry.file_type().is_ok_and(|of| of.is_socket());
        let refused = || {
            UnixStream::connect(&path)
                .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        };
        if is_socket && process_number(&entry.file_name()).is_some_and(has_ended) && refused() {
            // Another process may remove it at the same time.
            fs::remove_file(&path).ok();
        }
    }
}

/// Parses a file name as a process number.
fn process_number(name: &OsStr) -> Option<i32> {
    std::str::from_utf8(name.as_bytes()).ok()?.parse().ok()
}

/// Returns whether no process has this number.
fn has_ended(id: i32) -> bool {
    // SAFETY: signal 0 checks for the process and sends nothing.
    let exists = unsafe { libc::kill(id, 0) } == 0;
    !exists && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary folder of a test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("sdt-socket-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    /// Peers are refused by their user, even if the modes of the folder and the socket let other users connect.
    #[test]
    fn peers_of_other_users_are_refused() {
        use std::io::Read as _;
        if effective_user() != 0 {
            eprintln!("not tested: only root can become another user");
            return;
        }
        let test = Folder::new("others");
        let folder = test.0.join("sdt");
        let socket = Socket::bind_in(&folder, 7).unwrap();
        for (path, mode) in [(&test.0, 0o755), (&folder, 0o755), (&socket.path, 0o666)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        let set_user = |id: libc::c_long| {
            // SAFETY: the bare system call changes the user of this thread only.
            unsafe { libc::syscall(libc::SYS_setresuid, -1_i64, id, -1_i64) }
        };
        let path = socket.path.clone();
        let client = std::thread::spawn(move || {
            assert_eq!(set_user(65534), 0);
            let client = UnixStream::connect(path);
            assert_eq!(set_user(0), 0);
            client.unwrap()
        });
        let mut client = client.join().unwrap();
        assert!(socket.accept().unwrap().is_none(), "the peer is another user");
        assert_eq!(client.read(&mut [0; 16]).unwrap(), 0, "the connection is closed without data");
        let own = UnixStream::connect(&socket.path).unwrap();
        assert!(socket.accept().unwrap().is_some(), "the peer is root");
        drop(own);
    }

    #[test]
    fn only_the_owner_can_access_socket_and_folder() {
        let test = Folder::new("owners");
        let folder = test.0.join("sdt");
        let socket = Socket::bind_in(&folder, 7).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&socket.path)), (0o700, 0o600));
        let taken = Socket::bind_in(&folder, 7).unwrap_err();
        assert!(matches!(taken, SocketError::Taken(_)), "{taken}");
        let client = UnixStream::connect(&socket.path).unwrap();
        // `bind_in` connected, too, to find out whether a process listens.
        for _ in 0..2 {
            assert!(socket.accept().unwrap().is_some(), "the peer is this user");
        }
        assert_eq!(socket.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(client);
        socket.remove();
        assert!(!socket.path.exists());
    }

    #[test]
    fn a_folder_that_others_can_access_is_refused() {
        let test = Folder::new("shared");
        let folder = test.0.join("sdt");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o770)).unwrap();
        let error = Socket::bind_in(&folder, 7).unwrap_err().to_string();
        assert!(error.contains("only this user can access") && error.contains("770"), "{error}");
        let link = test.0.join("link");
        std::os::unix::fs::symlink(&test.0, &link).unwrap();
        assert!(matches!(Socket::bind_in(&link, 7).unwrap_err(), SocketError::Shared { .. }));
        let file = test.0.join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(Socket::bind_in(&file, 7).unwrap_err(), SocketError::Shared { .. }));
        let nowhere = test.0.join("no/where");
        assert!(matches!(Socket::bind_in(&nowhere, 7).unwrap_err(), SocketError::Io { .. }));
    }

    #[test]
    fn sockets_of_ended_processes_are_removed() {
        let test = Folder::new("dead");
        // Process numbers end at 2^22.
        let ended = Socket::bind_in(&test.0.join("sdt"), 0x7fff_fff0).unwrap();
        let alive = Socket::bind_in(&test.0.join("sdt"), 0x7fff_fff1).unwrap();
        let own = Socket::bind_in(&test.0.join("sdt"), std::process::id()).unwrap();
        let paths = [&ended, &alive, &own].map(|socket| socket.path.clone());
        drop((ended, own));
        let _next = Socket::bind_in(&test.0.join("sdt"), 7).unwrap();
        assert_eq!(paths.each_ref().map(|path| path.exists()), [false, true, true]);
        // The process takes over its earlier path.
        Socket::bind_in(&test.0.join("sdt"), std::process::id()).unwrap();
    }
}
