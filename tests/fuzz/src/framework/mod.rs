//! Compares the framework with a model: creates and removes providers, probes and consumers, and fires probes. Every hit that
//! the model expects is in the buffers, or counted as dropped.

mod consumers;
mod firing;
mod host;
mod providers;
mod steps;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use arbitrary::{Arbitrary, Unstructured};
use sdt_core::ops::{FrameworkError, ProviderId};
use sdt_framework::{Config, ConsumerError, ConsumerId, Counters, Dtrace, Record, Spec};

use crate::handed::Handed;
use host::{Call, Machine, Session};
use steps::{Name, Step};

// Little room, so that it runs out.
const CPUS: usize = 2;
const RECORDS: usize = 4;
const CONSUMERS: usize = 2;
const PROBES: usize = 6;
const ECBS: usize = 8;
const PROVIDERS: usize = 3;

type Small = Dtrace<Machine>;

const CONFIG: Config = Config {
    providers: PROVIDERS,
    probes: PROBES,
    ecbs: ECBS,
    consumers: CONSUMERS,
    buffer: RECORDS * Record::SIZE,
};

/// The number of enablings that there is room for, in addition to the consumers.
const ENABLINGS: usize = 8;

/// Runs the target.
///
/// # Panics
/// When the framework does something else than the model.
pub fn run(input: &[u8]) {
    let Ok(steps) = Vec::<Step>::arbitrary_take_rest(Unstructured::new(input)) else { return };
    let memory = Handed::new(CONFIG.memory::<Machine>(CPUS, CONSUMERS + ENABLINGS));
    let session = Session::default();
    let dtrace = session.dtrace.get_or_init(|| Box::new(Dtrace::new(Machine::default())));
    // SAFETY: only the framework uses the memory, which outlives the session that owns the framework.
    dtrace.init(unsafe { memory.over() }, &CONFIG).expect("it is enough");
    let mut model = Model::new(&session, dtrace);
    for step in steps {
        model.step(step);
        model.check();
    }
}

/// The expected state.
struct Model<'a> {
    session: &'a Session,
    dtrace: &'a Small,
    providers: Vec<Provider>,
    probes: BTreeMap<u32, Probe>,
    consumers: Vec<Consumer>,
    /// The enablings, the oldest first.
    retained: Vec<(ConsumerId, Spec)>,
    counters: Counters,
    /// Calls of ops in this step.
    calls: Vec<Call>,
}

struct Provider {
    id: ProviderId,
    name: Name,
    defunct: bool,
}

struct Probe {
    provider: ProviderId,
    module: Name,
    name: Name,
    /// The consumers and the numbers of the enablings, the oldest first.
    enabled: Vec<(ConsumerId, u32)>,
}

struct Consumer {
    id: ConsumerId,
    going: bool,
    /// The number of the probe that it has enabled last.
    last_epid: u32,
    buffers: [Vec<Record>; CPUS],
    drops: [u64; CPUS],
}

impl<'a> Model<'a> {
    fn new(session: &'a Session, dtrace: &'a Small) -> Self {
        Self {
            session,
            dtrace,
            providers: Vec::new(),
            probes: BTreeMap::new(),
            consumers: Vec::new(),
            retained: Vec::new(),
            counters: Counters::default(),
            calls: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Register { name } => self.register(name),
            Step::Unregister { provider } => self.unregister(self.provider(provider)),
            Step::Invalidate { provider } => {
                let id = self.provider(provider);
                self.dtrace.invalidate(id).unwrap();
                let found = self.providers.iter_mut().find(|provider| provider.id == id);
                found.into_iter().for_each(|provider| provider.defunct = true);
            }
            Step::Condense { provider } => {
                let id = self.provider(provider);
                let expected = match self.known(id) {
                    Some(_) => Ok(self.destroy(|p| p.provider == id && p.enabled.is_empty())),
                    None => Err(FrameworkError::NotFound),
                };
                assert_eq!(self.dtrace.condense(id), expected);
            }
            Step::Create { provider, module, name } => {
                self.create(self.provider(provider), module, name);
            }
            Step::Unload { module } => {
                let of_module = |probe: &Probe| probe.module == module;
                let busy = self.probes.values().any(|p| of_module(p) && !p.enabled.is_empty());
                let expected =
                    if busy { Err(FrameworkError::Busy) } else { Ok(self.destroy(of_module)) };
                assert_eq!(self.dtrace.destroy_module(&module.c()), expected);
            }
            Step::Open => self.open(),
            Step::Close { consumer } => self.close(self.consumer(consumer)),
            Step::Enable { consumer, spec } => self.enable(self.consumer(consumer), &spec),
            Step::Disable { consumer, spec } => self.disable(self.consumer(consumer), &spec),
            Step::List { spec } => drop(self.list(&spec)),
            Step::Go { consumer } => self.set_going(self.consumer(consumer), true),
            Step::Stop { consumer } => self.set_going(self.consumer(consumer), false),
            Step::Fire { cpu, probe, arg, five } => {
                let id = 1 + u32::from(probe) % (PROBES as u32 + 1);
                self.fire(usize::from(cpu) % (CPUS + 1), id, arg, five);
            }
            Step::Drain { consumer, cpu } => {
                self.drain(self.consumer(consumer), usize::from(cpu) % (CPUS + 1));
            }
        }
    }

    /// Checks the conditions that hold after each step.
    fn check(&mut self) {
        self.counters.reentered = self.session.reentered.get();
        assert_eq!(self.dtrace.counters(), self.counters);
        // The framework may call the ops of different probes in any order.
        let [mut calls, mut expected] =
            [self.session.calls.take(), std::mem::take(&mut self.calls)];
        calls.sort();
        expected.sort();
        assert_eq!(calls, expected);
        assert_eq!(self.dtrace.host().off.load(Ordering::Relaxed), 0);
    }

    /// Returns the id of a provider, or an id that no provider has.
    fn provider(&self, index: u8) -> ProviderId {
        let found = self.providers.get(usize::from(index) % (self.providers.len() + 1));
        found.map_or(ProviderId::new(usize::MAX), |provider| provider.id)
    }

    /// Returns the id of a consumer, or an id that no consumer has.
    fn consumer(&self, index: u8) -> ConsumerId {
        let found = self.consumers.get(usize::from(index) % (self.consumers.len() + 1));
        let none = ConsumerId::new(u32::MAX).expect("it is not 0");
        found.map_or(none, |consumer| consumer.id)
    }

    /// The next number of an enabled probe of an open consumer.
    fn next_epid(&mut self, id: ConsumerId) -> u32 {
        let consumer = self.opened(id).expect("it is open");
        consumer.last_epid += 1;
        consumer.last_epid
    }

    fn known(&self, id: ProviderId) -> Option<&Provider> {
        self.providers.iter().find(|provider| provider.id == id)
    }

    /// The consumer, if it is open.
    fn opened(&mut self, id: ConsumerId) -> Result<&mut Consumer, ConsumerError> {
        let found = self.consumers.iter_mut().find(|consumer| consumer.id == id);
        found.ok_or(ConsumerError::NotOpen(id))
    }
}
