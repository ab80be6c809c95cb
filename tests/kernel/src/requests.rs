//! Requests of the host, and the loop of the first CPU, which serves them.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use sdt_framework::{Rights, server};
use sdt_protocol::frame::FrameError;
use sdt_protocol::{Event, Message, Refusal, Reply, Request, Sites as SitesOf};
use stand_in_freebsd::errno::EINVAL;
use stand_in_illumos::marking::Marking;

use crate::arch::{self, cpu, power};
use crate::dtrace::DTRACE;
use crate::exec::{self, Batch, Worker};
#[cfg(target_arch = "x86_64")]
use crate::illumos::choose as become_illumos;
use crate::sites::Sites;
use crate::wire::Wire;
use crate::{
    clock, counted, counters, declared, freebsd, mailbox, process, reentry, smp, system, text,
    torture,
};

/// The maximum size in bytes of a frame of a consumer.
const FRAME: usize = 4096;
/// The maximum number of connected consumers. It is larger than the framework's, because a consumer that only lists probes does
/// not open a consumer there.
const CHANNELS: usize = 32;

/// The state of the loop that serves the host, which runs on the first CPU.
struct Server {
    wire: Wire,
    worker: Worker,
    /// The server for consumers.
    consumers: Box<server::Server<'static, FRAME, CHANNELS>>,
    /// Requests that are still being executed, oldest first.
    batches: Vec<Arc<Batch>>,
}

/// Serves the host, and never returns. Interrupts are on.
pub(crate) fn serve(wire: Wire) -> ! {
    let consumers = Box::new(server::Server::new(&DTRACE, &Sites, Rights::ALL));
    let mut server = Server { wire, worker: Worker::default(), consumers, batches: Vec::new() };
    loop {
        let mut busy = server.receive();
        busy |= server.worker.step();
        server.wire.send_console();
        busy |= server.serve_consumers();
        server.report_executed();
        if !busy && server.batches.is_empty() {
            // With interrupts off, data that arrive from here on end the sleep.
            cpu::interrupts_off();
            if server.receive_pending() {
                cpu::restore_interrupts(true);
            } else {
                cpu::wait_for_interrupt();
            }
        }
    }
}

impl Server {
    /// Receives messages and handles them; returns whether there were any.
    fn receive(&mut self) -> bool {
        let mut messages = Vec::new();
        let mut any = false;
        while self.wire.receive(&mut messages) {
            any = true;
            for message in messages.drain(..) {
                self.handle(message);
            }
        }
        any
    }

    fn receive_pending(&mut self) -> bool {
        self.wire.has_received()
    }

    fn handle(&mut self, message: Result<Message, FrameError>) {
        let message = match message {
            Ok(message) => message,
            Err(error) => {
                self.wire.send(&Event::BadFrame { reason: error.to_string() });
                return;
            }
        };
        let request = match message.request {
            Request::Mailed { length } => mailbox::take(length),
            request => Ok(request),
        };
        let result = match request {
            Err(error) => Err(refusal(EINVAL, error.to_string())),
            Ok(Request::Exec { execs }) => match exec::submit(message.seq, execs) {
                // `report_executed` sends the reply when all CPUs are done.
                Ok(batch) => return self.batches.push(batch),
                Err(exec::BadPath) => Err(refusal(EINVAL, "a path holds a NUL")),
            },
            Ok(request) => self.answer(request),
        };
        self.wire.send_console();
        self.wire.send(&Event::Reply { seq: message.seq, result });
    }

    fn answer(&mut self, request: Request) -> Result<Reply, Refusal> {
        let system = system::current();
        match request {
            Request::Hello { time } => {
                clock::set(time);
                let (version, cpus) = (sdt_protocol::VERSION, smp::online() as u32);
                Ok(Reply::Hello { version, cpus, arch: arch::NAME.to_string() })
            }
            Request::FreeBsd { version } => freebsd::set_version(version).map(|()| Reply::Done),
            Request::Illumos { sites } => become_illumos(match sites {
                SitesOf::Nops => Marking::Nops,
                SitesOf::LongNop => Marking::LongNop,
            })
            .map(|()| Reply::Done),
            Request::KldLoad { file, image } => {
                system.load(&file, &image)?;
                declared::keep(&file, &image);
                Ok(Reply::Done)
            }
            Request::KldUnload { file } => {
                system.unload(&file)?;
                declared::forget(&file);
                Ok(Reply::Done)
            }
            Request::KldStat => Ok(Reply::Modules(system.modules())),
            Request::Exec { .. } => unreachable!("has been taken care of"),
            Request::Mailed { .. } => Err(refusal(EINVAL, "the mailbox names the mailbox")),
            Request::Sysctl { name, value } => {
                let write = || system.write_sysctl(&name, &value);
                process::command("sysctl", write).map(|()| Reply::Done)
            }
            Request::Kstat { name } => {
                process::command("kstat", || system.read_kstat(&name)).map(Reply::Bytes)
            }
            Request::ReadText { file } => system::read_text(&file).map(Reply::Bytes),
            Request::Counters => Ok(Reply::Counters(counters::now())),
            Request::Torture { seed, transitions, program } => {
                let wire = &mut self.wire;
                let mut progress = |done| {
                    wire.send_console();
                    wire.send(&Event::Progress { done, total: transitions });
                };
                torture::run(seed, transitions, &program, &mut progress).map(Reply::Tortured)
            }
            Request::Reenter { rounds, jump } => reentry::run(rounds, jump).map(Reply::Reentered),
            Request::Call { rounds } => Ok(Reply::Called(counted::call_all(rounds))),
            Request::TortureFunctions { seed, transitions } => {
                let wire = &mut self.wire;
                let mut progress = |done| {
                    wire.send_console();
                    wire.send(&Event::Progress { done, total: transitions });
                };
                let result = counted::torture::run(seed, transitions, &mut progress);
                result.map(Reply::TorturedFunctions)
            }
            Request::HashText => Ok(Reply::Hash(text::hash())),
            Request::PowerOff => {
                self.wire.send_console();
                power::off(power::Exit::Success)
            }
        }
    }

    /// Handles the next request of a consumer; returns whether there was one.
    fn serve_consumers(&mut self) -> bool {
        // The line stays open while the machine runs.
        self.consumers.step(&mut self.wire).unwrap_or(false)
    }

    /// Answers the requests whose images are all executed.
    fn report_executed(&mut self) {
        while self.batches.first().is_some_and(|batch| batch.is_done()) {
            let batch = self.batches.remove(0);
            self.wire.send_console();
            let reply = Reply::Executed { per_cpu: batch.per_cpu() };
            self.wire.send(&Event::Reply { seq: batch.seq, result: Ok(reply) });
        }
    }
}

/// Refuses to select illumos.
///
/// # Errors
/// Always: illumos does not support this architecture.
#[cfg(not(target_arch = "x86_64"))]
fn become_illumos(_: Marking) -> Result<(), Refusal> {
    Err(refusal(EINVAL, "illumos is not there for this machine"))
}

fn refusal(errno: i32, message: impl Into<String>) -> Refusal {
    Refusal { errno, message: message.into() }
}
