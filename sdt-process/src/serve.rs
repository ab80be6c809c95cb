//! Consumers at the socket, and the thread that answers them.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dtrace_protocol::frame::encoded_len;
use dtrace_protocol::{Header, Reply, Writer};
use sdt_framework::server::{Lost, Server, Stream};
use sdt_framework::{Dtrace, Host as _, Rights};

use crate::breakpoint::RAISED;
use crate::cpus::Slots;
use crate::ours::Ours;
use crate::process::{self, Attached, WANTED};
use crate::sites::Sites;
use crate::socket::Socket;
use crate::text;

/// Bytes of the longest frame: a few hundred records.
const FRAME: usize = 16 << 10;
/// Who waits for records is answered that many milliseconds after the first of them, at most.
const TICK: libc::c_int = 10;
/// In nanoseconds.
const MILLISECOND: u64 = 1_000_000;
/// How often it is cleaned for those who have not come yet: a tick's time or more.
const CLEANING: Duration = Duration::from_millis(TICK as u64);
/// How long nobody is let in when nobody can be, in milliseconds: the process has no file descriptor left.
const PAUSE: libc::c_int = 200;
/// The channel of a consumer that has a line for itself.
const CHANNEL: u8 = 1;
/// Bytes of the longest reason for which a consumer is not served, and of what is around it in its frame, at most.
const REASON: usize = 1024;
const ROOM: usize = 32;
/// What a connection may have done before it is the next one's turn.
const STEPS: usize = 64;

/// The socket, and who is connected. All file descriptors are in here, so that the child of a `fork` can close them.
#[derive(Debug)]
pub(crate) struct Serving {
    socket: Socket,
    lines: Vec<Line>,
    /// Most of them.
    room: usize,
    /// Consumers that were told why they are not served, until they close their ends.
    turned_away: VecDeque<Ours<UnixStream>>,
    /// Written to when the thread is to look at what there is to do, or that there is nothing more.
    wake: Ours<PipeReader>,
    /// Nobody can be let in at the moment.
    is_pausing: bool,
    /// Programs were enabled for somebody who has not come yet, and when it was last cleaned for them.
    is_anonymous: bool,
    cleaned: Instant,
}

/// A connection.
#[derive(Debug)]
struct Line {
    ends: Ends,
    server: Box<Server<'static, FRAME>>,
}

#[derive(Debug)]
struct Ends {
    stream: Ours<UnixStream>,
    /// It takes nothing at the moment.
    is_full: bool,
}

/// What has become of a connection's turn.
enum Answered {
    /// There is nothing more to do.
    All,
    /// There is more to do, in the next turn.
    Some,
    /// The other end is closed.
    Lost,
    /// Text could not be changed for it, for this reason. All that it had is closed.
    Refused(String),
}

impl Line {
    /// Answers what has arrived, as much as one turn is for.
    fn answer(&mut self) -> Answered {
        text::take_refusal();
        for _ in 0..STEPS {
            let step = self.server.step(&mut self.ends);
            if let Some(reason) = text::take_refusal() {
                self.server.reset();
                return Answered::Refused(reason);
            }
            match step {
                Ok(true) => {}
                Ok(false) => return Answered::All,
                Err(Lost) => return Answered::Lost,
            }
        }
        Answered::Some
    }
}

impl Stream for Ends {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        match self.stream.get().map_err(|_| Lost)?.read(buffer) {
            Ok(0) => Err(Lost),
            done => later(done),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        let done = later(self.stream.get().map_err(|_| Lost)?.write(bytes))?;
        self.is_full = done == 0;
        Ok(done)
    }
}

/// Nothing is done if it would have to be waited for.
fn later(done: io::Result<usize>) -> Result<usize, Lost> {
    match done {
        Ok(count) => Ok(count),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(0)
        }
        Err(_) => Err(Lost),
    }
}

/// What is waited for, and for how many milliseconds; -1 for ever.
struct Wait {
    polled: Vec<libc::pollfd>,
    limit: libc::c_int,
    dtrace: &'static Dtrace<Slots>,
}

impl Wait {
    /// Waits, and fires what is due of the timers meanwhile. They are set and put away by who is answered, so nobody has to
    /// say so: it is looked at here after each turn.
    fn wait(mut self) {
        let slots = self.dtrace.host();
        let milliseconds = u64::try_from(self.limit).ok();
        let until = milliseconds.map(|limit| slots.timestamp().saturating_add(limit * MILLISECOND));
        loop {
            let due = slots.ticking(|| self.dtrace.tick(0, 0));
            let next = [due, until].into_iter().flatten().min();
            let left = next.map(|next| next.saturating_sub(slots.timestamp()));
            if self.poll(left) || until.is_some_and(|until| slots.timestamp() >= until) {
                return;
            }
        }
    }

    /// Waits for so many nanoseconds, if not for ever; says whether anything has happened.
    fn poll(&mut self, nanoseconds: Option<u64>) -> bool {
        let limit = nanoseconds.map(|left| libc::timespec {
            tv_sec: (left / 1_000_000_000) as libc::time_t,
            tv_nsec: (left % 1_000_000_000) as _,
        });
        let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
        // The descriptors stay open while this thread is here.
        let count = self.polled.len() as libc::nfds_t;
        // SAFETY: so many are in the vector; signals are left as they are. An error is as good as an event: what there is to
        // do is looked at.
        unsafe { libc::ppoll(self.polled.as_mut_ptr(), count, limit, ptr::null()) != 0 }
    }
}

impl Serving {
    /// Nobody is connected. A byte into the pipe wakes the thread.
    pub(crate) fn new(socket: Socket, room: usize) -> io::Result<(Self, Ours<PipeWriter>)> {
        let (wake, waker) = io::pipe()?;
        rustix::io::ioctl_fionbio(&wake, true)?;
        let (wake, waker) = (Ours::new(wake)?, Ours::new(waker)?);
        let (lines, turned_away) = (Vec::new(), VecDeque::new());
        let (is_pausing, is_anonymous, cleaned) = (false, false, Instant::now());
        let this =
            Self { socket, lines, room, turned_away, wake, is_pausing, is_anonymous, cleaned };
        Ok((this, waker))
    }

    pub(crate) const fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Closes what consumers have open, so that the sites are nops again.
    pub(crate) fn close_all(&mut self) {
        for line in &mut self.lines {
            line.server.reset();
        }
    }

    /// Answers what can be answered, and lets in who is there; `None` at the end: nobody has anything to take any more, or
    /// it has taken longer than until then.
    fn turn(&mut self, attached: &Attached, until: Option<Instant>) -> Option<Wait> {
        let is_busy = self.answer();
        match until {
            Some(until) => {
                if attached.dtrace.started_consumers() == Ok(0) || Instant::now() >= until {
                    return None;
                }
            }
            None => self.let_in(attached.dtrace),
        }
        // Nobody can connect, or end this, if the program has closed them.
        let (listener, wake) = (self.socket.listener.get().ok()?, self.wake.get().ok()?);
        let mut wakes = wake;
        let waked = until.is_none() && wakes.read(&mut [0; 64]).is_ok_and(|count| count != 0);
        if waked || self.cleaned.elapsed() >= CLEANING {
            self.is_anonymous = attached.dtrace.clean_anonymous().unwrap_or(true);
            self.cleaned = Instant::now();
        }
        let polled = |fd: RawFd, events| libc::pollfd { fd, events, revents: 0 };
        let lines = self.lines.iter().filter_map(|Line { ends, .. }| {
            let events = if ends.is_full { libc::POLLOUT } else { libc::POLLIN };
            Some(polled(ends.stream.get().ok()?.as_raw_fd(), events))
        });
        let listener = polled(listener.as_raw_fd(), libc::POLLIN);
        let listener = (!self.is_pausing && until.is_none()).then_some(listener);
        let wake = until.is_none().then(|| polled(wake.as_raw_fd(), libc::POLLIN));
        let limit = match (is_busy, self.lines.is_empty(), self.is_pausing) {
            (true, ..) => 0,
            _ if until.is_some() => TICK,
            (_, false, _) => TICK,
            _ if self.is_anonymous => TICK,
            (_, _, true) => PAUSE,
            _ => -1,
        };
        let polled = wake.into_iter().chain(listener).chain(lines).collect();
        Some(Wait { polled, limit, dtrace: attached.dtrace })
    }

    /// Answers what can be answered, in turns, and forgets who has gone. Says whether there is more.
    fn answer(&mut self) -> bool {
        let mut is_busy = false;
        // Until they close their end.
        self.turned_away.retain(|stream| {
            match stream.get().and_then(|mut it| it.read(&mut [0; 64])) {
                Ok(length) => length != 0,
                Err(error) => later(Err(error)).is_ok(),
            }
        });
        let mut at = 0;
        while let Some(line) = self.lines.get_mut(at) {
            match line.answer() {
                Answered::All => at += 1,
                Answered::Some => {
                    is_busy = true;
                    at += 1;
                }
                Answered::Lost => drop(self.lines.remove(at)),
                Answered::Refused(reason) => {
                    let Line { ends, .. } = self.lines.remove(at);
                    self.part(ends.stream, &reason);
                }
            }
        }
        is_busy
    }

    /// Tells a consumer why it is not served, or not any longer, and forgets it once it has closed its end: of a connection
    /// that is closed at once it would learn that only.
    fn part(&mut self, stream: Ours<UnixStream>, reason: &str) {
        let mut draft = [0; REASON];
        let mut line = [0; encoded_len(REASON)];
        let header = Header { channel: CHANNEL, seq: 0 };
        // What is too long ends with dots.
        let length = reason.floor_char_boundary(REASON - ROOM);
        let (reason, rest) = reason.split_at(length);
        let reason = &[reason, if rest.is_empty() { "" } else { "..." }].concat();
        let frame = Writer::new(&mut draft, header, &Reply::Gone { reason });
        if let Ok(length) = frame.and_then(|frame| frame.seal(&mut line)) {
            // Behind a zero, as whatever comes first on a line.
            let bytes = [&[0], &line[..length]].concat();
            stream.get().and_then(|mut stream| stream.write_all(&bytes)).ok();
        }
        self.turned_away.push_back(stream);
        if self.turned_away.len() > self.room {
            self.turned_away.pop_front();
        }
    }

    fn let_in(&mut self, dtrace: &'static Dtrace<Slots>) {
        self.is_pausing = false;
        // No more at a time: peers that connect again and again must not keep this thread from its other work.
        for _ in 0..=self.room {
            match self.socket.accept() {
                Ok(None) => {}
                Ok(Some(stream)) => {
                    if self.lines.len() >= self.room {
                        // Who went before this one came makes room.
                        self.answer();
                    }
                    if self.lines.len() >= self.room {
                        let reason = format!(
                            "{} consumers trace this process, and no more can; end one of them",
                            self.room
                        );
                        self.part(stream, &reason);
                    } else {
                        let server = Box::new(Server::new(dtrace, &Sites, Rights::ALL));
                        self.lines.push(Line { ends: Ends { stream, is_full: false }, server });
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

/// Starts the thread. It takes no signal but those that an instruction raises, so the program's threads get what is sent
/// to the process; and should a function that it calls have a site, the breakpoint there is one of them.
pub(crate) fn spawn() -> io::Result<JoinHandle<()>> {
    // SAFETY: sets are filled before they are used, and this thread's mask is put back.
    unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut blocked);
        for signal in RAISED {
            libc::sigdelset(&mut blocked, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &blocked, &mut before);
        let thread = thread::Builder::new().name("sdt-process".to_owned()).spawn(run);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        thread
    }
}

/// Answers until there is nothing more to serve.
fn run() {
    loop {
        // Who forks or ends this goes first.
        while WANTED.load(Ordering::Acquire) != 0 {
            thread::yield_now();
        }
        let wait = {
            let mut state = process::lock();
            let state = &mut *state;
            let is_ending = state.heed_end();
            let (Some(attached), Some(serving)) = (&state.attached, &mut state.serving) else {
                return;
            };
            let turn = serving.turn(attached, state.until);
            let Some(wait) = turn else {
                state.end();
                return;
            };
            // Whoever ends it may have waited for the lock in vain meanwhile, and wakes nobody then.
            if !is_ending && state.heed_end() {
                continue;
            }
            wait
        };
        wait.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    /// Peers that connect, however many, are let in a few at a time, and few of them keep a descriptor.
    #[test]
    fn a_flood_of_peers_takes_few_steps_and_descriptors() {
        const ROOM: usize = 2;
        const PEERS: usize = 20;
        static DTRACE: OnceLock<Dtrace<Slots>> = OnceLock::new();
        let folder = tempfile::tempdir().unwrap();
        let socket = Socket::bind_in(&folder.path().join("sdt"), 7).unwrap();
        let path = socket.path.clone();
        let (mut serving, _waker) = Serving::new(socket, ROOM).unwrap();
        let dtrace = DTRACE.get_or_init(|| Dtrace::new(Slots::new(1).unwrap()));
        let mut peers: Vec<_> = (0..PEERS)
            .map(|_| {
                let peer = UnixStream::connect(&path).unwrap();
                peer.set_nonblocking(true).unwrap();
                peer
            })
            .collect();
        serving.let_in(dtrace);
        // One more than there is room for, which is told why.
        assert_eq!((serving.lines.len(), serving.turned_away.len()), (ROOM, 1));
        assert!(!serving.is_pausing);
        let mut turns = 1;
        // The last of them has been answered, or closed.
        while peers.last_mut().unwrap().read(&mut [0; 16]).is_err() {
            serving.let_in(dtrace);
            turns += 1;
            assert!(serving.turned_away.len() <= ROOM);
            assert!(turns <= PEERS, "the last one waits for ever");
        }
        assert!(turns >= PEERS / (ROOM + 1), "{turns}");
        assert_eq!(serving.lines.len(), ROOM, "who came first stays");
    }
}
