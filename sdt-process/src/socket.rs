//! The socket that a process listens at: `sdt/PID` in `$XDG_RUNTIME_DIR`, or `sdt-UID/PID` in `/tmp`.
//!
//! The folder belongs to the owner alone before anything is in it, and so does the socket. A peer has to be the owner or
//! root as well. `dtrace -p` does not guess the path: it asks the system where the process listens, and follows no symbolic
//! link on the way there, so the path has none.

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

use crate::ours::Ours;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The folder is, or may become, another's.
    #[error(
        "{folder} is not this user's alone (owner {owner}, mode {mode:o}): remove it, or set XDG_RUNTIME_DIR"
    )]
    Shared {
        /// The folder.
        folder: PathBuf,
        /// Its owner's number.
        owner: u32,
        /// Its mode.
        mode: u32,
    },
    /// Something listens there that is not us.
    #[error(
        "{0} is in use by another process; is this one started twice, or in two pid namespaces?"
    )]
    Taken(PathBuf),
    /// The system refuses.
    #[error("{path}: {error}")]
    Io {
        /// What could not be made.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// A listening socket, and its place.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) listener: Ours<UnixListener>,
    pub(crate) path: PathBuf,
}

impl Socket {
    /// Listens at this process's place.
    pub(crate) fn bind() -> Result<Self, SocketError> {
        Self::bind_in(&folder(), std::process::id())
    }

    pub(crate) fn bind_in(folder: &Path, id: u32) -> Result<Self, SocketError> {
        let path = folder.join(id.to_string());
        let failed = |error| SocketError::Io { path: path.clone(), error };
        owned(folder)?;
        clean(folder);
        match UnixStream::connect(&path) {
            Ok(_) => return Err(SocketError::Taken(path)),
            // Of a process with our number that is gone, or of the program that this process executed before.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                fs::remove_file(&path).map_err(failed)?;
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(&path).map_err(failed)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = Ours::new(listener).map_err(failed)?;
        Ok(Self { listener, path })
    }

    /// Takes the next connection. `None` if its other end is neither this user's nor root's: it is closed, and learns
    /// nothing.
    pub(crate) fn accept(&self) -> io::Result<Option<Ours<UnixStream>>> {
        let (stream, _) = self.listener.get()?.accept()?;
        stream.set_nonblocking(true)?;
        let may = [0, effective_user()].contains(&user_of_peer(&stream)?);
        may.then(|| Ours::new(stream)).transpose()
    }

    /// Removes it from the file system.
    pub(crate) fn remove(&self) {
        // Whoever has removed it before has done what is to be done.
        fs::remove_file(&self.path).ok();
    }
}

/// The effective user of the process that has connected (`SO_PEERCRED`, unix(7)). Its pid is not read: it is 0 for a process
/// outside of this pid namespace, and rustix takes that for impossible.
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
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() }
}

/// Where this user's sockets are.
fn folder() -> PathBuf {
    // SAFETY: asks for a number.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    // The environment of a set-uid program is not its owner's.
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

/// Makes the folder, or sees that it is this user's alone.
fn owned(folder: &Path) -> Result<(), SocketError> {
    let failed = |error| SocketError::Io { path: folder.to_owned(), error };
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    // Not what a link leads to.
    let found = fs::symlink_metadata(folder).map_err(failed)?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if found.is_dir() && owner == effective_user() && mode & 0o077 == 0 {
        return Ok(());
    }
    Err(SocketError::Shared { folder: folder.to_owned(), owner, mode })
}

/// Removes sockets of processes that ended without a word: nobody listens, and there is no process of that number. (One
/// of another namespace has none here, and listens.)
fn clean(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_socket = entry.file_type().is_ok_and(|of| of.is_socket());
        let refused = || {
            UnixStream::connect(&path)
                .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        };
        if is_socket && number(&entry.file_name()).is_some_and(is_gone) && refused() {
            // Somebody else cleans, too.
            fs::remove_file(&path).ok();
        }
    }
}

fn number(name: &OsStr) -> Option<i32> {
    std::str::from_utf8(name.as_bytes()).ok()?.parse().ok()
}

fn is_gone(id: i32) -> bool {
    // SAFETY: sends nothing.
    let there = unsafe { libc::kill(id, 0) } == 0;
    !there && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of the test's own, gone at its end.
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

    /// Even where others get as far as the socket.
    #[test]
    fn others_are_closed_out() {
        use std::io::Read as _;
        if effective_user() != 0 {
            eprintln!("only root can be another user: not tried");
            return;
        }
        let test = Folder::new("others");
        let folder = test.0.join("sdt");
        let socket = Socket::bind_in(&folder, 7).unwrap();
        for (path, mode) in [(&test.0, 0o755), (&folder, 0o755), (&socket.path, 0o666)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        let nobody = |id: libc::c_long| {
            // SAFETY: changes the user of this thread alone, which the system call does and the C library's function does
            // not.
            unsafe { libc::syscall(libc::SYS_setresuid, -1_i64, id, -1_i64) }
        };
        let path = socket.path.clone();
        let client = std::thread::spawn(move || {
            assert_eq!(nobody(65534), 0);
            let client = UnixStream::connect(path);
            assert_eq!(nobody(0), 0);
            client.unwrap()
        });
        let mut client = client.join().unwrap();
        assert!(socket.accept().unwrap().is_none(), "it is another");
        assert_eq!(client.read(&mut [0; 16]).unwrap(), 0, "it learns nothing");
        let ours = UnixStream::connect(&socket.path).unwrap();
        assert!(socket.accept().unwrap().is_some(), "it is we");
        drop(ours);
    }

    #[test]
    fn socket_and_folder_are_the_owners() {
        let test = Folder::new("owners");
        let folder = test.0.join("sdt");
        let socket = Socket::bind_in(&folder, 7).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&socket.path)), (0o700, 0o600));
        let taken = Socket::bind_in(&folder, 7).unwrap_err();
        assert!(matches!(taken, SocketError::Taken(_)), "{taken}");
        let client = UnixStream::connect(&socket.path).unwrap();
        // Who found the place taken has connected, too.
        for _ in 0..2 {
            assert!(socket.accept().unwrap().is_some(), "it is we");
        }
        assert_eq!(socket.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(client);
        socket.remove();
        assert!(!socket.path.exists());
    }

    #[test]
    fn a_folder_of_others_is_not_taken() {
        let test = Folder::new("shared");
        let folder = test.0.join("sdt");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o770)).unwrap();
        let error = Socket::bind_in(&folder, 7).unwrap_err().to_string();
        assert!(error.contains("is not this user's alone") && error.contains("770"), "{error}");
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
    fn what_the_dead_left_goes() {
        let test = Folder::new("dead");
        // Numbers of processes end at 2^22.
        let gone = Socket::bind_in(&test.0.join("sdt"), 0x7fff_fff0).unwrap();
        let alive = Socket::bind_in(&test.0.join("sdt"), 0x7fff_fff1).unwrap();
        let own = Socket::bind_in(&test.0.join("sdt"), std::process::id()).unwrap();
        let paths = [&gone, &alive, &own].map(|socket| socket.path.clone());
        drop((gone, own));
        let _next = Socket::bind_in(&test.0.join("sdt"), 7).unwrap();
        assert_eq!(paths.each_ref().map(|path| path.exists()), [false, true, true]);
        // One's own of before is taken over.
        Socket::bind_in(&test.0.join("sdt"), std::process::id()).unwrap();
    }
}
