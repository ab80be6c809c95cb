//! A program that closes all file descriptors that it does not know.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use sdt_core::{sdt_probe, sdt_provider};

/// Long enough for the worker thread to wake up.
const PAUSE: Duration = Duration::from_millis(100);

sdt_provider! {
    closer {
        fn done();
    }
}

/// The files that it opens next get the numbers of this crate's descriptors. They stay open, and tracing can be started again.
#[test]
fn files_of_the_program_are_not_closed() {
    sdt_probe!(closer::done);
    for _ in 0..3 {
        let traced = sdt_process::start().unwrap();
        let path = traced.socket().to_owned();
        let consumer = UnixStream::connect(&path).unwrap();
        std::mem::forget(consumer);
        // The worker thread accepts the connection, and waits again.
        std::thread::sleep(PAUSE);
        // SAFETY: only this crate uses the closed numbers again, and it must not.
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
