//! All connections of consumers, and the wait for their requests and for timers.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read as _};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::ptr;
use std::time::{Duration, Instant};

use sdt_framework::{Dtrace, Host as _};

use crate::connection::{self, Connection, Turn};
use crate::descriptor::Descriptor;
use crate::slots::Slots;
use crate::socket::Socket;
use crate::{sampling, state};

/// The time in milliseconds between two turns while tracing ends, or while a program is enabled that no consumer has claimed.
const TICK: libc::c_int = 10;
/// A millisecond in nanoseconds.
const MILLISECOND: u64 = 1_000_000;
/// The time between two turns in which the framework cleans up after programs that no consumer has claimed (`clean_anonymous`).
const CLEANING: Duration = Duration::from_millis(TICK as u64);
/// The time in milliseconds for which no connection is accepted after `accept` failed, as when no file descriptor is left.
const PAUSE: libc::c_int = 200;

/// The socket and the connections. All file descriptors of serving are in here, so that the child of a `fork` can close them.
#[derive(Debug)]
pub(crate) struct Server {
    socket: Socket,
    connections: Vec<Connection>,
    /// The largest number of connections.
    room: usize,
    /// Connections of consumers that the server has refused with a reason. Each stays open until the consumer closes
    /// its end.
    refused: VecDeque<Descriptor<UnixStream>>,
    /// The end of a pipe to which other threads write to wake the worker thread.
    wake: Descriptor<PipeReader>,
    /// Whether `accept` failed.
    is_pausing: bool,
    /// Whether a program is enabled that no consumer has claimed, and the time of the last cleaning for it.
    is_anonymous: bool,
    cleaned: Instant,
}

/// The descriptors that were ready after a wait. Connections are not included: the server tries all of them in each
/// turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// The pipe that wakes the worker thread.
    wake: bool,
    /// The listening socket.
    listener: bool,
}

impl Ready {
    /// Both descriptors, for the first turn, before any wait.
    pub(crate) const ALL: Self = Self { wake: true, listener: true };
}

/// The descriptors and timers for which the worker thread waits until the next turn.
pub(crate) struct Wait {
    polled: Vec<libc::pollfd>,
    /// The numbers of the pipe and of the listening socket.
    wake: RawFd,
    listener: RawFd,
    /// The longest wait in milliseconds; negative for no limit.
    limit: libc::c_int,
    dtrace: &'static Dtrace<Slots>,
}

impl Wait {
    /// Waits, and fires the timers that become due meanwhile, until tracing has ended more than `ends` times. Only requests set timers, so
    /// looking at the timers after each turn is enough.
    pub(crate) fn wait(mut self, ends: u64) -> Ready {
        let slots = self.dtrace.host();
        let milliseconds = u64::try_from(self.limit).ok();
        let until = milliseconds.map(|limit| slots.timestamp().saturating_add(limit * MILLISECOND));
        loop {
            if state::ends() != ends {
                return Ready::ALL;
            }
            let due = slots.fire_timers(|| self.dtrace.tick(0, 0));
            let next = [due, until].into_iter().flatten().min();
            let left = next.map(|next| next.saturating_sub(slots.timestamp()));
            if self.poll(left) || until.is_some_and(|until| slots.timestamp() >= until) {
                let is_ready = |fd| self.polled.iter().any(|of| of.fd == fd && of.revents != 0);
                return Ready { wake: is_ready(self.wake), listener: is_ready(self.listener) };
            }
        }
    }

    /// Waits for the descriptors, for at most this many nanoseconds, or without a limit. Returns whether one is ready.
    fn poll(&mut self, nanoseconds: Option<u64>) -> bool {
        let limit = nanoseconds.map(|left| libc::timespec {
            tv_sec: (left / 1_000_000_000) as libc::time_t,
            tv_nsec: (left % 1_000_000_000) as _,
        });
        let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
        let count = self.polled.len() as libc::nfds_t;
        // SAFETY: the pointer and the count are those of the vector, and the signal mask is null. An error counts as an event, so the
        // next turn looks for work.
        unsafe { libc::ppoll(self.polled.as_mut_ptr(), count, limit, ptr::null()) != 0 }
    }
}

impl Server {
    /// Creates a server without connections, and the pipe end that wakes its thread.
    ///
    /// # Errors
    /// The system has no more pipes.
    pub(crate) fn new(socket: Socket, room: usize) -> io::Result<(Self, Descriptor<PipeWriter>)> {
        let (wake, waker) = io::pipe()?;
        rustix::io::ioctl_fionbio(&wake, true)?;
        let (wake, waker) = (Descriptor::new(wake)?, Descriptor::new(waker)?);
        let server = Self {
            socket,
            connections: Vec::new(),
            room,
            refused: VecDeque::new(),
            wake,
            is_pausing: false,
            is_anonymous: false,
            cleaned: Instant::now(),
        };
        Ok((server, waker))
    }

    pub(crate) const fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Returns whether the pipe that wakes the worker thread is still open.
    pub(crate) fn can_be_woken(&self) -> bool {
        self.wake.get().is_ok()
    }

    /// Closes everything that consumers have open, so that all sites are nops.
    pub(crate) fn close_all(&mut self) {
        self.connections.iter_mut().for_each(Connection::close);
    }

    /// Answers requests and accepts connections. Returns `None` if tracing ends: after `deadline`, or when no consumer has data to fetch.
    /// It ends also if the program has closed the descriptors of the socket or the pipe.
    pub(crate) fn turn(
        &mut self,
        dtrace: &'static Dtrace<Slots>,
        deadline: Option<Instant>,
        ready: Ready,
    ) -> Option<Wait> {
        let is_busy = self.answer();
        match deadline {
            Some(deadline) if dtrace.started_consumers() == Ok(0) || Instant::now() >= deadline => {
                return None;
            }
            None if ready.listener || self.is_pausing => self.accept(dtrace),
            Some(_) | None => {}
        }
        let is_woken = deadline.is_none() && ready.wake;
        if is_woken || self.cleaned.elapsed() >= CLEANING {
            let (mut wake, _) = (self.wake.get().ok()?, self.socket.listener.get().ok()?);
            if is_woken {
                // Empties the pipe, which is non-blocking. The result is not needed.
                let _ = wake.read(&mut [0; 64]);
            }
            self.is_anonymous = dtrace.clean_anonymous().unwrap_or(true);
            self.cleaned = Instant::now();
        }
        let polled = |fd: RawFd, events| libc::pollfd { fd, events, revents: 0 };
        let connections = self.connections.iter().map(|connection| {
            let events = if connection.is_full() { libc::POLLOUT } else { libc::POLLIN };
            polled(connection.stream().number(), events)
        });
        let (wake, listener) = (self.wake.number(), self.socket.listener.number());
        let polled_listener =
            (!self.is_pausing && deadline.is_none()).then(|| polled(listener, libc::POLLIN));
        let polled_wake = deadline.is_none().then(|| polled(wake, libc::POLLIN));
        let limit = match self.is_pausing {
            _ if is_busy => 0,
            _ if deadline.is_some() || self.is_anonymous => TICK,
            true => PAUSE,
            false => -1,
        };
        let limit = match sampling::scan_if_due() {
            Some(scan) => {
                let scan = libc::c_int::try_from(scan.as_millis()).unwrap_or(libc::c_int::MAX);
                // One millisecond more than the rounded time, so that the scan is due when the wait ends.
                if limit < 0 { scan.saturating_add(1) } else { limit.min(scan.saturating_add(1)) }
            }
            None => limit,
        };
        let polled = polled_wake.into_iter().chain(polled_listener).chain(connections).collect();
        Some(Wait { polled, wake, listener, limit, dtrace })
    }

    /// Gives each connection a turn and removes those that are closed. Returns whether requests are left.
    fn answer(&mut self) -> bool {
        self.refused.retain(|stream| !connection::has_closed(stream));
        let mut is_busy = false;
        let mut index = 0;
        while let Some(connection) = self.connections.get_mut(index) {
            match connection.answer() {
                Turn::Idle => index += 1,
                Turn::Busy => {
                    is_busy = true;
                    index += 1;
                }
                Turn::Lost => drop(self.connections.remove(index)),
                Turn::Refused(reason) => {
                    let stream = self.connections.remove(index).into_stream();
                    self.refuse(stream, &reason);
                }
            }
        }
        is_busy
    }

    /// Sends a consumer the reason for which it is not served, and keeps the connection open until the consumer closes it, or until too
    /// many others were refused.
    fn refuse(&mut self, stream: Descriptor<UnixStream>, reason: &str) {
        connection::send_reason(&stream, reason);
        self.refused.push_back(stream);
        if self.refused.len() > self.room {
            self.refused.pop_front();
        }
    }

    /// Accepts the connections that wait, at most one more than there is room for: peers that connect again and again must not keep this
    /// thread from its other work.
    fn accept(&mut self, dtrace: &'static Dtrace<Slots>) {
        self.is_pausing = false;
        for _ in 0..=self.room {
            match self.socket.accept() {
                Ok(None) => {}
                Ok(Some(stream)) => {
                    if self.connections.len() >= self.room {
                        // Consumers that have closed their connections make room.
                        self.answer();
                    }
                    if self.connections.len() >= self.room {
                        self.connections.retain(|connection| !connection.is_silent());
                    }
                    if self.connections.len() >= self.room {
                        let reason = format!(
                            "{} consumers trace this process, which is the limit; stop one of them",
                            self.room
                        );
                        self.refuse(stream, &reason);
                    } else {
                        self.connections.push(Connection::new(dtrace, stream));
                    }
                }
                Err(error) => {
                    self.is_pausing = error.kind() != ErrorKind::WouldBlock;
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    /// A flood of peers is accepted a few at a time, and takes few descriptors.
    #[test]
    fn a_flood_of_peers_takes_few_steps_and_descriptors() {
        const ROOM: usize = 2;
        const PEERS: usize = 20;
        static DTRACE: OnceLock<Dtrace<Slots>> = OnceLock::new();
        let folder = tempfile::tempdir().unwrap();
        let socket = Socket::bind_in(&folder.path().join("sdt"), 7).unwrap();
        let path = socket.path.clone();
        let (mut server, _waker) = Server::new(socket, ROOM).unwrap();
        let dtrace = DTRACE.get_or_init(|| Dtrace::new(Slots::new(1).unwrap()));
        let mut peers: Vec<_> = (0..PEERS)
            .map(|_| {
                let peer = UnixStream::connect(&path).unwrap();
                peer.set_nonblocking(true).unwrap();
                peer
            })
            .collect();
        server.accept(dtrace);
        // One more than there is room for, which gets the reason.
        assert_eq!((server.connections.len(), server.refused.len()), (ROOM, 1));
        assert!(!server.is_pausing);
        let mut turns = 1;
        // Until the last peer has been answered, or its connection closed.
        while peers.last_mut().unwrap().read(&mut [0; 16]).is_err() {
            server.accept(dtrace);
            turns += 1;
            assert!(server.refused.len() <= ROOM);
            assert!(turns <= PEERS, "the last peer is never accepted");
        }
        assert!(turns >= PEERS / (ROOM + 1), "{turns}");
        assert_eq!(server.connections.len(), ROOM, "the first peers stay connected");
        // None of them has sent a request. After a time they make room.
        std::thread::sleep(Duration::from_millis(1100));
        let mut late = UnixStream::connect(&path).unwrap();
        late.set_nonblocking(true).unwrap();
        server.accept(dtrace);
        assert_eq!(server.connections.len(), 1);
        assert_eq!(late.read(&mut [0; 16]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}
