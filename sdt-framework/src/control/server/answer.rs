//! Answers requests.

use core::fmt;

use dtrace_abi::spec::{Field, Spec};
use dtrace_protocol::{
    Argument, Frame, Items, OTHERS, Probe, Reply, Request, Side, Site, Status, VERSION, Why,
};
use heapless::Vec;
use sdt_core::ops::{Attribute, ProbeId};

use super::refusal::Refusal;
use super::reply::Answer;
use super::sites::Sites;
use super::{functions, known, run};
use crate::base::rights::Rights;
use crate::control::error::ConsumerError;
use crate::control::tracer::Tracer;
use crate::registry::listing::{Detail, ProbeInfo};
use crate::run::consumer::ConsumerId;

/// A channel that has been greeted, and its consumer if it is open.
#[derive(Debug)]
struct Channel {
    number: u8,
    consumer: Option<ConsumerId>,
}

/// All channels of a line.
pub(super) struct Channels<'d, const CHANNELS: usize> {
    pub(super) tracer: &'d dyn Tracer,
    sites: &'d dyn Sites,
    /// The rights of the line, and so of all its consumers.
    rights: Rights,
    channels: Vec<Channel, CHANNELS>,
    /// The counters of the line; the other fields are filled in for an answer.
    pub(super) status: Status,
}

impl<const CHANNELS: usize> fmt::Debug for Channels<'_, CHANNELS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channels").field("channels", &self.channels).finish_non_exhaustive()
    }
}

impl<'d, const CHANNELS: usize> Channels<'d, CHANNELS> {
    pub(super) const fn new(tracer: &'d dyn Tracer, sites: &'d dyn Sites, rights: Rights) -> Self {
        let status = Status {
            cpus: 0,
            system: 0,
            late_timers: 0,
            unsampled_threads: 0,
            channels: 0,
            hits: 0,
            unclaimed: 0,
            reentered: 0,
            most_work: 0,
            longest_sync: 0,
            unknown: 0,
            stray: 0,
            frames: 0,
            damaged: 0,
            overlong: 0,
            refused: 0,
        };
        Self { tracer, sites, rights, channels: Vec::new(), status }
    }

    /// Closes all consumers.
    pub(super) fn close_all(&mut self) {
        for channel in core::mem::take(&mut self.channels) {
            self.close(channel);
        }
    }

    fn close(&self, channel: Channel) {
        if let Some(consumer) = channel.consumer {
            // It is open, because no other channel has its number.
            let _ = self.tracer.close(consumer);
        }
    }

    fn take(&mut self, number: u8) -> Option<Channel> {
        let at = self.channels.iter().position(|channel| channel.number == number)?;
        Some(self.channels.swap_remove(at))
    }

    fn at(&mut self, number: u8) -> Option<&mut Channel> {
        self.channels.iter_mut().find(|channel| channel.number == number)
    }

    /// Answers a frame: returns the length of the answer in `line`, or none for a frame that is no request.
    pub(super) fn answer(
        &mut self,
        frame: Frame<'_>,
        draft: &mut [u8],
        line: &mut [u8],
    ) -> Option<usize> {
        if frame.header.channel == OTHERS {
            return None;
        }
        let mut answer = Answer { header: frame.header, draft, line };
        let done = match frame.message() {
            Ok((Request::Functions { build_id }, items)) => {
                self.add_functions(build_id, items, &mut answer)
            }
            Ok((request, items)) if items.is_empty() => self.obey(request, &mut answer),
            _ => Err(Refusal::Plain(
                Why::NotUnderstood,
                "this version of the framework does not \
                 know the request",
            )),
        };
        done.map_or_else(
            |refusal| {
                self.status.refused += 1;
                answer.refused(&refusal)
            },
            Some,
        )
    }

    /// Adds the functions of a [`Request::Functions`].
    fn add_functions(
        &mut self,
        build_id: &[u8],
        items: Items<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<usize, Refusal> {
        let (tracer, rights) = (self.tracer, self.rights);
        let channel = self.at(answer.header.channel).ok_or_else(not_greeted)?;
        let open = channel.consumer.ok_or_else(not_open)?;
        functions::add(tracer, rights, open, build_id, items, answer)
    }

    /// Executes a request, and encodes its answer. Returns the length of the answer.
    fn obey(&mut self, request: Request<'_>, answer: &mut Answer<'_>) -> Result<usize, Refusal> {
        let number = answer.header.channel;
        if let Request::Hello { version } = request {
            if let Some(old) = self.take(number) {
                self.close(old);
            }
            if version == VERSION {
                let channel = Channel { number, consumer: None };
                self.channels.push(channel).map_err(|_| Refusal::TooMany(CHANNELS))?;
            }
            let hello = Reply::Hello { version: VERSION, side: Side::Framework };
            return answer.plain(&hello);
        }
        let (tracer, rights) = (self.tracer, self.rights);
        if !rights.any() {
            return Err(ConsumerError::NotPermitted.into());
        }
        let greeted = self.channels.len();
        let channel = self.at(number);
        let Some(channel) = channel else {
            return Err(not_greeted());
        };
        let open = channel.consumer.ok_or_else(not_open);
        match request {
            Request::Hello { .. } => {}
            Request::Open if open.is_ok() => {
                return Err(Refusal::Plain(Why::Open, "the channel is open already"));
            }
            Request::Open => channel.consumer = Some(tracer.open(rights)?),
            Request::Close => {
                if let Some(channel) = self.take(number) {
                    self.close(channel);
                }
            }
            Request::Go => {
                let cpu = tracer.start(open?)? as u32;
                return answer.plain(&Reply::On { cpu });
            }
            Request::Stop => {
                let cpu = tracer.stop(open?)? as u32;
                return answer.plain(&Reply::On { cpu });
            }
            Request::Option { option, value } => tracer.set_option(open?, option, value)?,
            Request::Program { size, at, bytes } => {
                let sent = tracer.program_piece(open?, size as usize, at as usize, bytes)?;
                let reply = sent.map_or(Reply::Done, |probes| Reply::Matched { probes });
                return answer.plain(&reply);
            }
            Request::Claim if !rights.kernel() => {
                return Err(Refusal::NotPermitted("to claim the probes enabled at boot"));
            }
            Request::Claim => {
                let own = open?;
                let claimed = tracer.claim(rights);
                let claimed =
                    claimed.ok_or(Refusal::Plain(Why::NoSuch, "no probe was enabled at boot"))?;
                channel.consumer = Some(claimed);
                tracer.close(own)?;
            }
            Request::Symbol { .. } | Request::SymbolNamed { .. } if !rights.kernel() => {
                return Err(Refusal::NotPermitted("to read symbols"));
            }
            Request::SymbolNamed { module, name } => {
                return known::named(tracer, module, name, answer);
            }
            Request::Declared { index, at } => {
                return known::declared(tracer, rights, index, at, answer);
            }
            Request::Eprobe { .. }
            | Request::Aggregation { .. }
            | Request::Data { .. }
            | Request::Format { .. }
            | Request::Snapshot { .. }
            | Request::Run
            | Request::Options { .. }
            | Request::Symbol { .. } => {
                return run::answer(tracer, open?, request, answer);
            }
            Request::List { spec, after } => {
                return list(tracer, rights, &parse(spec)?, after, answer);
            }
            Request::Describe { probe } => {
                let detail = detail(tracer, rights, probe_id(probe)?)?;
                return describe(&detail, answer);
            }
            Request::Argument { probe, index } => {
                let id = probe_id(probe)?;
                detail(tracer, rights, id)?;
                return argument(tracer, rights, id, index, answer);
            }
            Request::Sites { probe, skip } => {
                if !rights.kernel() {
                    return Err(Refusal::NotPermitted("to see addresses of the kernel's text"));
                }
                return sites(self.sites, probe, skip, answer);
            }
            Request::FunctionText => return functions::text(tracer, rights, answer),
            Request::Status => {
                let counters = tracer.counters();
                let status = Status {
                    cpus: tracer.cpus() as u32,
                    system: tracer.system().number(),
                    late_timers: tracer.late_timers(),
                    unsampled_threads: tracer.unsampled_threads(),
                    channels: greeted as u32,
                    hits: counters.hits,
                    unclaimed: counters.unclaimed,
                    reentered: counters.reentered,
                    unknown: counters.unknown,
                    stray: counters.stray,
                    most_work: counters.most_work,
                    longest_sync: counters.longest_sync,
                    ..self.status
                };
                return answer.plain(&Reply::Status(status));
            }
            _ => {
                return Err(Refusal::Plain(
                    Why::NotUnderstood,
                    "this framework does not support \
                     the request",
                ));
            }
        }
        answer.plain(&Reply::Done)
    }
}

fn not_greeted() -> Refusal {
    Refusal::Plain(Why::NotGreeted, "the first request must be a hello")
}

fn not_open() -> Refusal {
    Refusal::Plain(Why::NotOpen, "the channel is not open")
}

fn parse(spec: &str) -> Result<Spec, Refusal> {
    Ok(Spec::parse(spec, Field::Name)?)
}

fn probe_id(probe: u32) -> Result<ProbeId, Refusal> {
    ProbeId::new(probe).ok_or_else(|| no_probe(probe))
}

fn no_probe(probe: u32) -> Refusal {
    Refusal::NoSuch(Why::NoProbe, "probe", probe)
}

fn wire(info: &ProbeInfo) -> Probe<'_> {
    Probe {
        id: info.id().get(),
        provider: info.provider().to_bytes(),
        module: info.module().to_bytes(),
        function: info.function().to_bytes(),
        name: info.name().to_bytes(),
    }
}

fn list(
    tracer: &dyn Tracer,
    rights: Rights,
    spec: &Spec,
    after: u32,
    answer: &mut Answer<'_>,
) -> Result<usize, Refusal> {
    answer.with_items(&Reply::Probes, |writer| {
        let mut after = after;
        while let Some(info) = tracer.next_probe(spec, after, rights) {
            if writer.push(&wire(&info)).is_err() {
                break;
            }
            after = info.id().get();
        }
        Ok(())
    })
}

/// The description of a probe, if a consumer with these rights may use it.
fn detail(tracer: &dyn Tracer, rights: Rights, id: ProbeId) -> Result<Detail, Refusal> {
    let detail = tracer.describe(id).filter(|detail| rights.may_use(detail.privileges));
    detail.ok_or_else(|| no_probe(id.get()))
}

fn describe(detail: &Detail, answer: &mut Answer<'_>) -> Result<usize, Refusal> {
    let triple =
        |attribute: Attribute| [attribute.name as u8, attribute.data as u8, attribute.class as u8];
    let of = detail.provider;
    answer.plain(&Reply::Detail(dtrace_protocol::Detail {
        probe: wire(&detail.info),
        stability: triple(detail.probe),
        args: triple(detail.args),
        provider: [of.provider, of.module, of.function, of.name, of.args].map(triple),
        privileges: detail.privileges.bits(),
    }))
}

fn argument(
    tracer: &dyn Tracer,
    rights: Rights,
    id: ProbeId,
    index: u8,
    answer: &mut Answer<'_>,
) -> Result<usize, Refusal> {
    let desc = tracer.arg_desc(id, index.into(), rights);
    let argument = desc
        .as_ref()
        .map(|desc| Argument { native: desc.native.to_bytes(), translated: desc.xlate.to_bytes() });
    answer.plain(&Reply::Argument(argument))
}

fn sites(
    sites: &dyn Sites,
    probe: u32,
    skip: u32,
    answer: &mut Answer<'_>,
) -> Result<usize, Refusal> {
    let id = probe_id(probe)?;
    answer.with_items(&Reply::Sites, |writer| {
        let mut first = true;
        sites.each(id, skip as usize, &mut |site| {
            // If the symbol is too long for a frame, sends the first site without it. Otherwise the list would end
            // here.
            let nameless = Site { function: None, ..*site };
            let done = writer
                .push(site)
                .or_else(|error| if first { writer.push(&nameless) } else { Err(error) });
            first = false;
            done.is_ok()
        });
        Ok(())
    })
}
