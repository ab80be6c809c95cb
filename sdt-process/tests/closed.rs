//! A program that closes all file descriptors that it does not know.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sdt_core::{sdt_probe, sdt_provider};

/// Long enough for the worker thread to wake up.
const PAUSE: Duration = Duration::from_millis(100);

sdt_provider! {
    closer {
        fn done();
    }
}

/// A process is traced once at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Files that the program opens next get the numbers of this crate's descriptors. They stay open, and tracing can be started
/// again.
#[test]
fn files_of_the_program_are_not_closed() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    sdt_probe!(closer::done);
    for _ in 0..3 {
        let traced = sdt_process::start().unwrap();
        let path = traced.socket().to_owned();
        let consumer = UnixStream::connect(&path).unwrap();
        std::mem::forget(consumer);
        // The worker thread accepts the connection, and waits again.
        std::thread::sleep(PAUSE);
        // SAFETY: the closed numbers belong to this crate, which detects that they are closed. No other code uses them.
        assert_eq!(unsafe { libc::close_range(3, libc::c_uint::MAX, 0) }, 0);
        // The thread notices it. If the program used the numbers again before, the thread would wait for the program's files.
        std::thread::sleep(PAUSE);
        let folder = tempfile::tempdir().unwrap();
        let listening = (0..8).map(|number| {
            let path = folder.path().join(number.to_string());
            let listener = UnixListener::bind(&path).unwrap();
            listener.set_nonblocking(true).unwrap();
            (listener, path)
        });
        for (listener, path) in listening.collect::<Vec<_>>() {
            for _ in 0..20 {
                let mut caller = UnixStream::connect(&path).unwrap();
                let (mut called, _) = listener.accept().unwrap();
                caller.write_all(b"x").unwrap();
                let mut byte = [0];
                called.read_exact(&mut byte).unwrap();
                assert_eq!(&byte, b"x");
            }
        }
        drop(traced);
        assert!(!path.exists());
    }
}

/// The numbers of the open files.
fn numbers() -> BTreeSet<RawFd> {
    // SAFETY: the call only asks for flags.
    (0..1024).filter(|number| unsafe { libc::fcntl(*number, libc::F_GETFD) } != -1).collect()
}

/// The worker thread waits for other files, which never become ready. So the thread that drops `Process` ends tracing.
#[test]
fn numbers_that_are_used_again_at_once_do_not_delay_the_end() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..3 {
        let before = numbers();
        let traced = sdt_process::start().unwrap();
        let path = traced.socket().to_owned();
        let own: Vec<_> = numbers().difference(&before).copied().collect();
        let (never_ready, _other_end) = std::io::pipe().unwrap();
        for number in own {
            // SAFETY: only `sdt_process` uses the number, and it must notice that the file is another one.
            assert_eq!(unsafe { libc::dup2(never_ready.as_raw_fd(), number) }, number);
        }
        drop(traced);
        assert!(!path.exists(), "the socket is removed");
    }
    drop(sdt_process::start().unwrap());
}
