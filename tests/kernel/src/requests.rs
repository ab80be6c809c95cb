//! What the host asks, and the loop of the first CPU that does it.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::CStr;

use sdt_core::ops::{ARG_TYPE_LEN, ArgDesc, Attribute, Name, ProbeId};
use sdt_framework::{ConsumerError, ConsumerId, Field, LONGEST, Records, Spec};
use sdt_protocol::frame::FrameError;
use sdt_protocol::{
    ArgType, Counters, Detail, Event, Message, Module, Probe, Record, Refusal, Reply, Request,
};
use stand_in_kernel::freebsd::Release;
use stand_in_kernel::freebsd::errno::{EBUSY, EINVAL, ENOENT, ENOSPC};
use stand_in_kernel::kld;
use stand_in_kernel::loader::{Protection, Segment};

use crate::arch::{self, cpu, power};
use crate::dtrace::{DTRACE, RECORDS};
use crate::exec::{self, Batch, Worker};
use crate::modules::LINKER;
use crate::wire::Wire;
use crate::{counters, krtld, reentry, sdt, sites, smp, sysctl, torture};

/// Records in one event.
const RECORDS_PER_EVENT: usize = 64;

/// What the first CPU has to remember.
struct Server {
    wire: Wire,
    worker: Worker,
    /// Consumers whose records are to be sent.
    going: Vec<ConsumerId>,
    /// Requests that are still being executed, oldest first.
    batches: Vec<Arc<Batch>>,
}

/// Serves the host for good. Interrupts are on.
pub(crate) fn serve(wire: Wire) -> ! {
    let mut server =
        Server { wire, worker: Worker::default(), going: Vec::new(), batches: Vec::new() };
    loop {
        let mut busy = server.receive();
        busy |= server.worker.step();
        server.wire.send_console();
        busy |= server.drain();
        server.report_executed();
        if !busy && server.batches.is_empty() {
            // Whatever arrives from here on ends the sleep.
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
    /// Takes what has arrived and does what it asks.
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
        let result = match message.request {
            Request::Exec { execs } => match exec::submit(message.seq, execs) {
                // The reply comes when all CPUs are done.
                Ok(batch) => return self.batches.push(batch),
                Err(exec::BadPath) => Err(refusal(EINVAL, "a path holds a NUL")),
            },
            request => self.answer(request),
        };
        self.wire.send_console();
        self.wire.send(&Event::Reply { seq: message.seq, result });
    }

    fn answer(&mut self, request: Request) -> Result<Reply, Refusal> {
        if let Some(answer) = krtld::answer(&request) {
            return answer;
        }
        match request {
            Request::Hello => Ok(Reply::Hello {
                version: sdt_protocol::VERSION,
                cpus: smp::online() as u32,
                arch: arch::NAME.to_string(),
            }),
            Request::FreeBsd { version } => {
                let release = Release::new(version).ok_or_else(|| {
                    refusal(EINVAL, alloc::format!("there is no FreeBSD {version} here"))
                })?;
                LINKER.set_release(release).map_err(|error| kld_refusal(&error))?;
                sdt::set_generation(release.generation());
                Ok(Reply::Done)
            }
            Request::Illumos { .. } => unreachable!("has been taken care of"),
            Request::KldLoad { file, image } => {
                LINKER.load(&file, &image).map_err(|error| kld_refusal(&error))?;
                Ok(Reply::Done)
            }
            Request::KldUnload { file } => {
                LINKER.unload(&file).map_err(|error| kld_refusal(&error))?;
                Ok(Reply::Done)
            }
            Request::KldStat => Ok(Reply::Modules(
                LINKER
                    .files()
                    .into_iter()
                    .map(|file| Module {
                        id: file.id,
                        file: file.name,
                        address: file.base,
                        size: file.size as u64,
                    })
                    .collect(),
            )),
            Request::Open => {
                let consumer = DTRACE.open().map_err(|error| consumer_refusal(&error))?;
                Ok(Reply::Consumer { consumer: consumer.get() })
            }
            Request::Close { consumer } => {
                let consumer = self.consumer(consumer)?;
                self.going.retain(|&going| going != consumer);
                DTRACE.close(consumer).map_err(|error| consumer_refusal(&error))?;
                Ok(Reply::Done)
            }
            Request::List { spec } => {
                let mut probes = Vec::new();
                DTRACE.for_each_probe(&parse(&spec)?, |probe| {
                    let text = |text: &CStr| text.to_string_lossy().into_owned();
                    probes.push(Probe {
                        id: probe.id().get(),
                        provider: text(probe.provider()),
                        module: text(probe.module()),
                        function: text(probe.function()),
                        name: text(probe.name()),
                    });
                });
                Ok(Reply::Probes(probes))
            }
            Request::Describe { probe } => describe(probe),
            Request::Enable { consumer, spec } => {
                let probes = DTRACE
                    .enable(self.consumer(consumer)?, &parse(&spec)?)
                    .map_err(|error| consumer_refusal(&error))?;
                Ok(Reply::Matched { probes })
            }
            Request::Disable { consumer, spec } => {
                let probes = DTRACE
                    .disable(self.consumer(consumer)?, &parse(&spec)?)
                    .map_err(|error| consumer_refusal(&error))?;
                Ok(Reply::Matched { probes })
            }
            Request::Go { consumer } => {
                let consumer = self.consumer(consumer)?;
                DTRACE.go(consumer).map_err(|error| consumer_refusal(&error))?;
                if !self.going.contains(&consumer) {
                    self.going.push(consumer);
                }
                Ok(Reply::Done)
            }
            Request::Stop { consumer } => {
                let consumer = self.consumer(consumer)?;
                DTRACE.stop(consumer).map_err(|error| consumer_refusal(&error))?;
                self.going.retain(|&going| going != consumer);
                self.drain_consumer(consumer);
                Ok(Reply::Done)
            }
            Request::Exec { .. } => unreachable!("has been taken care of"),
            Request::Sysctl { name, value } => sysctl::write(&name, &value),
            Request::Kstat { name } => {
                Err(refusal(EINVAL, alloc::format!("{name}: FreeBSD has no kstats")))
            }
            Request::ReadText { file } => {
                let (base, segments) = LINKER
                    .segments(&file)
                    .ok_or_else(|| refusal(ENOENT, alloc::format!("can't find file {file}")))?;
                Ok(read_text(base, &segments))
            }
            Request::Counters => {
                let framework = DTRACE.counters();
                Ok(Reply::Counters(Counters {
                    breakpoints: counters::breakpoints(),
                    hits: framework.hits,
                    reentered: framework.reentered,
                    ticks: counters::ticks(),
                }))
            }
            Request::Sites { probe } => Ok(Reply::Sites(sites::of(probe))),
            Request::Torture { seed, transitions } => {
                let wire = &mut self.wire;
                let mut progress = |done| {
                    wire.send_console();
                    wire.send(&Event::Progress { done, total: transitions });
                };
                torture::run(seed, transitions, &mut progress).map(Reply::Tortured)
            }
            Request::Reenter { rounds, jump } => reentry::run(rounds, jump).map(Reply::Reentered),
            Request::PowerOff => {
                self.wire.send_console();
                power::off(power::Exit::Success)
            }
        }
    }

    fn consumer(&self, number: u32) -> Result<ConsumerId, Refusal> {
        ConsumerId::new(number).ok_or_else(|| refusal(EINVAL, "there is no consumer 0"))
    }

    /// Sends what has been recorded; says whether there was anything.
    fn drain(&mut self) -> bool {
        let going = self.going.clone();
        going.into_iter().fold(false, |any, consumer| self.drain_consumer(consumer) | any)
    }

    fn drain_consumer(&mut self, consumer: ConsumerId) -> bool {
        let mut any = false;
        for cpu in 0..smp::online() {
            let mut bytes = [0; RECORDS_PER_EVENT * LONGEST];
            // As many as there are when this begins, about: others go on writing.
            for _ in 0..RECORDS / RECORDS_PER_EVENT {
                // A consumer that is going is open, and the CPU exists.
                let count = DTRACE.read(consumer, cpu, &mut bytes).unwrap_or(0);
                let firings = Records::new(&bytes[..count]).filter_map(|record| record.firing());
                let records: Vec<_> = firings
                    .map(|firing| Record {
                        probe: firing.probe.get(),
                        timestamp: firing.timestamp,
                        args: firing.args,
                    })
                    .collect();
                if records.is_empty() {
                    break;
                }
                any = true;
                self.wire.send(&Event::Records {
                    consumer: consumer.get(),
                    cpu: cpu as u32,
                    records,
                });
            }
            let count = DTRACE.drops(consumer, cpu).unwrap_or(0);
            if count != 0 {
                self.wire.send(&Event::Drops { consumer: consumer.get(), cpu: cpu as u32, count });
            }
            any |= count != 0;
        }
        any
    }

    /// Answers the requests whose images are all executed, after the records that came of them.
    fn report_executed(&mut self) {
        while self.batches.first().is_some_and(|batch| batch.is_done()) {
            let batch = self.batches.remove(0);
            self.drain();
            self.wire.send_console();
            let reply = Reply::Executed { per_cpu: batch.per_cpu() };
            self.wire.send(&Event::Reply { seq: batch.seq, result: Ok(reply) });
        }
    }
}

fn refusal(errno: i32, message: impl Into<String>) -> Refusal {
    Refusal { errno, message: message.into() }
}

fn kld_refusal(error: &kld::Refusal) -> Refusal {
    refusal(error.errno(), error.to_string())
}

fn consumer_refusal(error: &ConsumerError) -> Refusal {
    let errno = match error {
        ConsumerError::TooManyConsumers { .. } => EBUSY,
        ConsumerError::TooManyEnablings { .. } | ConsumerError::NoMemory { .. } => ENOSPC,
        _ => EINVAL,
    };
    refusal(errno, error.to_string())
}

fn parse(spec: &sdt_protocol::Spec) -> Result<Spec, Refusal> {
    let last = match spec.last {
        sdt_protocol::Field::Provider => Field::Provider,
        sdt_protocol::Field::Module => Field::Module,
        sdt_protocol::Field::Function => Field::Function,
        sdt_protocol::Field::Name => Field::Name,
    };
    Spec::parse(&spec.text, last).map_err(|error| refusal(EINVAL, error.to_string()))
}

fn describe(probe: u32) -> Result<Reply, Refusal> {
    let id = ProbeId::new(probe);
    let found = id.and_then(|id| DTRACE.describe(id).map(|detail| (id, detail)));
    let (id, detail) =
        found.ok_or_else(|| refusal(ENOENT, alloc::format!("there is no probe {probe}")))?;
    let triple =
        |attribute: Attribute| [attribute.name as u8, attribute.data as u8, attribute.class as u8];
    let of = detail.provider;
    Ok(Reply::Detail(Detail {
        probe: triple(detail.probe),
        args: triple(detail.args),
        provider: [of.provider, of.module, of.function, of.name, of.args].map(triple),
        privileges: detail.privileges.bits(),
        types: DTRACE.arg_descs(id).map(|desc| arg_type(&desc)).collect(),
    }))
}

fn arg_type(desc: &ArgDesc) -> ArgType {
    let text = |name: &Name<ARG_TYPE_LEN>| String::from_utf8_lossy(name.to_bytes()).into_owned();
    let translated = text(&desc.xlate);
    ArgType {
        native: text(&desc.native),
        translated: (!translated.is_empty()).then_some(translated),
    }
}

/// What a module that is mapped has for text.
pub(crate) fn read_text(base: u64, segments: &[Segment]) -> Reply {
    let mut bytes = Vec::new();
    for segment in segments.iter().filter(|segment| segment.protection == Protection::Execute) {
        let start = (base + segment.offset as u64) as *const u8;
        // SAFETY: the file is mapped, and only this CPU, which is here, unloads files. Its text may be
        // patched meanwhile, a byte at a time or with all other CPUs stopped.
        bytes.extend((0..segment.size).map(|at| unsafe { start.add(at).read_volatile() }));
    }
    Reply::Bytes(bytes)
}
