//! The framework beside a model: providers, probes and consumers come and go, probes fire, and what is read
//! from the buffers is what was recorded, or counted as dropped.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CString, c_int, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arbitrary::{Arbitrary, Unstructured};
use sdt_core::ops::{
    Framework as _, FrameworkError, Privileges, ProbeDesc, ProbeId, ProviderAttr, ProviderId,
    ProviderOps,
};
use sdt_framework::{
    ARGS, Config, ConsumerError, ConsumerId, Counters, Dtrace, Field, Firing, Host, LONGEST,
    Records, Spec, SpinLock,
};

use crate::handed::Handed;

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
    buffer: RECORDS * LONGEST,
};

/// Enablings that there is room for, whatever the consumers have.
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
    // SAFETY: nobody else has it, and it stays longer than the framework, which is the session's.
    dtrace.init(unsafe { memory.over() }, &CONFIG).expect("it is enough");
    let mut model = Model::new(&session, dtrace);
    for step in steps {
        model.step(step);
        model.check();
    }
}

/// What happens. Numbers of things are taken modulo what there is, and one more that is not.
#[derive(Debug, Arbitrary)]
enum Step {
    Register { name: Name },
    Unregister { provider: u8 },
    Invalidate { provider: u8 },
    Condense { provider: u8 },
    Create { provider: u8, module: Name, name: Name },
    Unload { module: Name },
    Open,
    Close { consumer: u8 },
    Enable { consumer: u8, spec: Text },
    Disable { consumer: u8, spec: Text },
    List { spec: Text },
    Go { consumer: u8 },
    Stop { consumer: u8 },
    Fire { cpu: u8, probe: u8, arg: u64, five: bool },
    Drain { consumer: u8, cpu: u8 },
    Drops { consumer: u8, cpu: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Arbitrary)]
enum Name {
    One,
    Two,
    Three,
}

impl Name {
    fn text(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Two => "two",
            Self::Three => "three",
        }
    }

    fn c(self) -> CString {
        CString::new(self.text()).expect("no name holds a zero byte")
    }
}

/// A probe description.
#[derive(Debug, Arbitrary)]
enum Text {
    All,
    Pieces {
        provider: Option<Name>,
        module: Option<Name>,
        name: Option<Name>,
    },
    /// Whatever it says.
    Any {
        text: String,
        last: u8,
    },
}

impl Text {
    fn parse(&self) -> Option<Spec> {
        let piece = |name: &Option<Name>| name.map_or("", Name::text);
        match self {
            Self::All => Some(Spec::ALL),
            Self::Pieces { provider, module, name } => {
                let text = format!("{}:{}::{}", piece(provider), piece(module), piece(name));
                Some(Spec::parse(&text, Field::Name).expect("a description of four pieces"))
            }
            Self::Any { text, last } => {
                let fields = [Field::Provider, Field::Module, Field::Function, Field::Name];
                Spec::parse(text, fields[usize::from(*last) % 4]).ok()
            }
        }
    }

    /// Whether it means a probe; `None` where the model does not know.
    fn matches(&self, of_provider: Name, probe: &Probe) -> Option<bool> {
        let is = |pattern: &Option<Name>, name| pattern.is_none_or(|pattern| pattern == name);
        match self {
            Self::All => Some(true),
            Self::Pieces { provider, module, name } => {
                Some(is(provider, of_provider) && is(module, probe.module) && is(name, probe.name))
            }
            Self::Any { .. } => None,
        }
    }
}

/// The machine: time goes on with every hit.
#[derive(Default)]
struct Machine {
    cpu: AtomicUsize,
    time: AtomicU64,
    /// How deep interrupts are off.
    off: AtomicUsize,
}

// SAFETY: there is one thread, which is in probe context or not.
unsafe impl Host for Machine {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        self.cpu.load(Ordering::Relaxed)
    }

    fn cpus(&self) -> usize {
        CPUS
    }

    fn timestamp(&self) -> u64 {
        self.time.load(Ordering::Relaxed)
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = self.off.fetch_add(1, Ordering::Relaxed);
        let result = f();
        assert_eq!(self.off.fetch_sub(1, Ordering::Relaxed), before + 1);
        result
    }

    fn sync(&self) {
        assert_eq!(self.off.load(Ordering::Relaxed), 0);
    }
}

/// What the ops are given: what they were called for, and the framework, which one of them calls.
#[derive(Default)]
struct Session {
    dtrace: OnceCell<Box<Small>>,
    calls: RefCell<Vec<Call>>,
    /// How often a probe fired inside another one.
    reentered: Cell<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Enable(u32),
    Disable(u32),
    Destroy(u32),
}

/// What `getargval` makes of the numbers of a probe and of an argument.
fn asked(id: u32, argno: usize) -> u64 {
    u64::from(id) * 1000 + argno as u64
}

/// # Safety
/// `arg` is a session's that is still there.
unsafe fn session<'a>(arg: *mut c_void) -> &'a Session {
    // SAFETY: by contract.
    unsafe { &*arg.cast::<Session>() }
}

unsafe extern "C" fn provide(_arg: *mut c_void, _desc: *const ProbeDesc) {}

unsafe extern "C" fn enable(arg: *mut c_void, id: u32, _parg: *mut c_void) -> c_int {
    // SAFETY: all providers are registered with the session.
    unsafe { session(arg) }.calls.borrow_mut().push(Call::Enable(id));
    0
}

unsafe extern "C" fn disable(arg: *mut c_void, id: u32, _parg: *mut c_void) {
    // SAFETY: all providers are registered with the session.
    unsafe { session(arg) }.calls.borrow_mut().push(Call::Disable(id));
}

unsafe extern "C" fn destroy(arg: *mut c_void, id: u32, _parg: *mut c_void) {
    // SAFETY: all providers are registered with the session.
    unsafe { session(arg) }.calls.borrow_mut().push(Call::Destroy(id));
}

/// Hits the probe once more, inside itself.
unsafe extern "C" fn getargval(
    arg: *mut c_void,
    id: u32,
    _parg: *mut c_void,
    argno: c_int,
    aframes: c_int,
) -> u64 {
    let argno = usize::try_from(argno).expect("it counts from 0");
    assert!((5..ARGS).contains(&argno) && aframes == 3, "{argno}, {aframes}");
    // SAFETY: all providers are registered with the session.
    let session = unsafe { session(arg) };
    session.reentered.set(session.reentered.get() + 1);
    // SAFETY: this `getargval` does not look at the stack.
    unsafe { session.dtrace.get().expect("it is there, as it calls").probe5(id, [0; 5]) };
    asked(id, argno)
}

const OPS: ProviderOps = ProviderOps {
    provide: Some(provide),
    provide_module: None,
    enable: Some(enable),
    disable: Some(disable),
    suspend: None,
    resume: None,
    getargdesc: None,
    getargval: Some(getargval),
    usermode: None,
    destroy: Some(destroy),
};

/// What there should be.
struct Model<'a> {
    session: &'a Session,
    dtrace: &'a Small,
    providers: Vec<Provider>,
    probes: BTreeMap<u32, Probe>,
    consumers: Vec<Consumer>,
    /// What was enabled, oldest first.
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
    /// By whom, oldest first.
    enabled: Vec<ConsumerId>,
}

struct Consumer {
    id: ConsumerId,
    going: bool,
    has_buffers: bool,
    buffers: [VecDeque<Firing>; CPUS],
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
                self.dtrace.invalidate(id);
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
            Step::Drops { consumer, cpu } => {
                self.drops(self.consumer(consumer), usize::from(cpu) % (CPUS + 1));
            }
        }
    }

    /// What holds after each step.
    fn check(&mut self) {
        self.counters.reentered = self.session.reentered.get();
        assert_eq!(self.dtrace.counters(), self.counters);
        // The order of the probes among themselves is the framework's.
        let [mut calls, mut expected] =
            [self.session.calls.take(), std::mem::take(&mut self.calls)];
        calls.sort();
        expected.sort();
        assert_eq!(calls, expected);
        assert_eq!(self.dtrace.host().off.load(Ordering::Relaxed), 0);
    }

    /// One that there is, or one that there is not.
    fn provider(&self, index: u8) -> ProviderId {
        let found = self.providers.get(usize::from(index) % (self.providers.len() + 1));
        found.map_or(ProviderId::new(usize::MAX), |provider| provider.id)
    }

    /// One that there is, or one that there is not.
    fn consumer(&self, index: u8) -> ConsumerId {
        let found = self.consumers.get(usize::from(index) % (self.consumers.len() + 1));
        let none = ConsumerId::new(u32::MAX).expect("it is not 0");
        found.map_or(none, |consumer| consumer.id)
    }

    fn known(&self, id: ProviderId) -> Option<&Provider> {
        self.providers.iter().find(|provider| provider.id == id)
    }

    /// The consumer, if it is open.
    fn opened(&mut self, id: ConsumerId) -> Result<&mut Consumer, ConsumerError> {
        let found = self.consumers.iter_mut().find(|consumer| consumer.id == id);
        found.ok_or(ConsumerError::NotOpen(id))
    }

    fn register(&mut self, name: Name) {
        let arg = std::ptr::from_ref(self.session).cast_mut().cast();
        let (attr, privileges) = (&ProviderAttr::SDT, Privileges::USER);
        // SAFETY: the session is there for as long as the framework.
        let result = unsafe { self.dtrace.register(&name.c(), attr, privileges, &OPS, arg) };
        if self.providers.len() == PROVIDERS {
            assert_eq!(result, Err(FrameworkError::Full));
            return;
        }
        let id = result.expect("there is room");
        assert!(self.known(id).is_none());
        self.providers.push(Provider { id, name, defunct: false });
    }

    fn unregister(&mut self, id: ProviderId) {
        let enabled =
            self.probes.values().any(|probe| probe.provider == id && !probe.enabled.is_empty());
        let expected = match self.known(id).map(|provider| provider.defunct) {
            None => Err(FrameworkError::NotFound),
            Some(true) if enabled => Err(FrameworkError::Again),
            Some(false) if !self.consumers.is_empty() => Err(FrameworkError::Busy),
            Some(_) => Ok(()),
        };
        assert_eq!(self.dtrace.unregister(id), expected);
        if expected.is_ok() {
            self.destroy(|probe| probe.provider == id);
            self.providers.retain(|provider| provider.id != id);
        }
    }

    fn create(&mut self, provider: ProviderId, module: Name, name: Name) {
        let (parg, names) = (std::ptr::null_mut(), (module.c(), name.c()));
        // SAFETY: the ops do not look at the pointer.
        let result =
            unsafe { self.dtrace.probe_create(provider, &names.0, c"none", &names.1, 3, parg) };
        if self.known(provider).is_none() {
            assert_eq!(result, Err(FrameworkError::NotFound));
        } else if self.probes.len() == PROBES {
            assert_eq!(result, Err(FrameworkError::Full));
        } else {
            let id = result.expect("there is room").get();
            let enabled = self.enabled_at_creation(provider, module, name);
            if !enabled.is_empty() {
                self.calls.push(Call::Enable(id));
            }
            let probe = Probe { provider, module, name, enabled };
            assert!(self.probes.insert(id, probe).is_none());
        }
    }

    /// Who has enabled a probe that comes to be.
    fn enabled_at_creation(&mut self, id: ProviderId, module: Name, name: Name) -> Vec<ConsumerId> {
        let provider = self.known(id).expect("it has been looked up");
        if provider.defunct {
            return Vec::new();
        }
        let names = [provider.name.text(), module.text(), "none", name.text()].map(str::as_bytes);
        let meant = self.retained.iter().rev().filter(|(_, spec)| spec.matches(names));
        let mut meant: Vec<_> = meant.map(|(consumer, _)| *consumer).collect();
        let taken: usize = self.probes.values().map(|probe| probe.enabled.len()).sum();
        let missed = meant.len().saturating_sub(ECBS - taken);
        meant.truncate(ECBS - taken);
        self.counters.missed += missed as u64;
        meant
    }

    /// Destroys probes; returns how many.
    fn destroy(&mut self, which: impl Fn(&Probe) -> bool) -> usize {
        let gone: Vec<_> =
            self.probes.iter().filter(|(_, probe)| which(probe)).map(|(&id, _)| id).collect();
        for id in &gone {
            self.calls.push(Call::Destroy(*id));
            self.probes.remove(id);
        }
        gone.len()
    }

    fn open(&mut self) {
        let result = self.dtrace.open();
        if self.consumers.len() == CONSUMERS {
            assert_eq!(result, Err(ConsumerError::TooManyConsumers { max: CONSUMERS }));
            return;
        }
        if matches!(result, Err(ConsumerError::NoMemory { .. })) {
            assert!(self.retained.len() >= ENABLINGS);
            return;
        }
        let id = result.expect("there is room");
        assert!(self.opened(id).is_err());
        let (buffers, drops) = Default::default();
        self.consumers.push(Consumer { id, going: false, has_buffers: false, buffers, drops });
    }

    fn close(&mut self, id: ConsumerId) {
        let expected = self.opened(id).map(drop);
        assert_eq!(self.dtrace.close(id), expected);
        let all: Vec<_> = self.probes.keys().copied().collect();
        self.take_away(id, &all);
        self.retained.retain(|(consumer, _)| *consumer != id);
        self.consumers.retain(|consumer| consumer.id != id);
    }

    /// The probes that a description means; `None` when it is none.
    fn list(&self, text: &Text) -> Option<(Spec, Vec<u32>)> {
        let spec = text.parse()?;
        let mut listed = Vec::new();
        let count = self.dtrace.for_each_probe(&spec, |probe| listed.push(probe.id().get()));
        assert_eq!(count as usize, listed.len());
        assert!(listed.is_sorted());
        for (id, probe) in &self.probes {
            let provider = self.known(probe.provider).expect("a probe has a provider");
            let is_listed = listed.contains(id);
            match text.matches(provider.name, probe) {
                Some(matches) => assert_eq!(is_listed, matches && !provider.defunct),
                None => assert!(!is_listed || !provider.defunct),
            }
        }
        assert!(listed.iter().all(|id| self.probes.contains_key(id)));
        Some((spec, listed))
    }

    fn enable(&mut self, id: ConsumerId, text: &Text) {
        let Some((spec, listed)) = self.list(text) else { return };
        let taken: usize = self.probes.values().map(|probe| probe.enabled.len()).sum();
        let (needed, left) = (listed.len(), ECBS - taken);
        let expected = match self.opened(id) {
            Err(error) => Err(error),
            Ok(_) if needed > left => Err(ConsumerError::TooManyEnablings { needed, left }),
            Ok(_) => Ok(needed as u32),
        };
        let result = self.dtrace.enable(id, &spec);
        if matches!(result, Err(ConsumerError::NoMemory { .. })) {
            assert!(expected.is_ok() && self.retained.len() >= ENABLINGS);
            return;
        }
        assert_eq!(result, expected);
        if expected.is_err() {
            return;
        }
        self.retained.push((id, spec));
        for probe in listed {
            let enabled = &mut self.probes.get_mut(&probe).expect("it is listed").enabled;
            enabled.push(id);
            if enabled.len() == 1 {
                self.calls.push(Call::Enable(probe));
            }
        }
    }

    fn disable(&mut self, id: ConsumerId, text: &Text) {
        let Some((spec, listed)) = self.list(text) else { return };
        let result = self.dtrace.disable(id, &spec);
        match self.opened(id).map(drop) {
            Err(error) => assert_eq!(result, Err(error)),
            Ok(()) => {
                assert_eq!(result, Ok(self.take_away(id, &listed)));
                let is_all = spec == Spec::ALL;
                self.retained.retain(|(by, kept)| *by != id || !is_all && *kept != spec);
            }
        }
    }

    /// Takes a consumer's enablings of these probes away; returns on how many there were any.
    fn take_away(&mut self, id: ConsumerId, probes: &[u32]) -> u32 {
        let mut count = 0;
        for probe in probes {
            let enabled = &mut self.probes.get_mut(probe).expect("it is listed").enabled;
            let before = enabled.len();
            enabled.retain(|&by| by != id);
            let (changed, is_empty) = (enabled.len() != before, enabled.is_empty());
            count += u32::from(changed);
            if changed && is_empty {
                self.calls.push(Call::Disable(*probe));
            }
        }
        count
    }

    fn set_going(&mut self, id: ConsumerId, going: bool) {
        let result = if going { self.dtrace.go(id) } else { self.dtrace.stop(id) };
        let enablings = self.retained.len();
        let expected = self.opened(id).map(|consumer| {
            if matches!(result, Err(ConsumerError::NoMemory { .. })) {
                assert!(going && !consumer.has_buffers && enablings >= ENABLINGS);
                return false;
            }
            consumer.going = going;
            consumer.has_buffers |= going;
            true
        });
        if expected != Ok(false) {
            assert_eq!(result, expected.map(drop));
        }
    }

    fn fire(&mut self, cpu: usize, id: u32, arg: u64, five: bool) {
        let machine = self.dtrace.host();
        machine.cpu.store(cpu, Ordering::Relaxed);
        let timestamp = machine.time.fetch_add(1, Ordering::Relaxed) + 1;
        let six = [arg, !arg, 2, 3, 4, 5];
        if five {
            let [first @ .., _] = six;
            // SAFETY: as in `getargval`.
            unsafe { self.dtrace.probe5(id, first) };
        } else {
            self.dtrace.probe(ProbeId::new(id).expect("it is not 0"), &six);
        }
        if cpu == CPUS {
            self.counters.stray += 1;
            return;
        }
        let Some(probe) = self.probes.get(&id) else {
            self.counters.unknown += 1;
            return;
        };
        self.counters.hits += 1;
        let brought = if five { &six[..5] } else { &six[..] };
        let args = std::array::from_fn(|argno| match brought.get(argno) {
            Some(&arg) => arg,
            None if five => asked(id, argno),
            None => 0,
        });
        let id = ProbeId::new(id).expect("it is not 0");
        let record = Firing { probe: id, cpu: cpu as u32, timestamp, args };
        let mut claimed = false;
        for by in &probe.enabled {
            let consumer = self.consumers.iter_mut().find(|consumer| consumer.id == *by);
            let consumer = consumer.expect("who has enabled a probe is open");
            if !consumer.going {
                continue;
            }
            if consumer.buffers[cpu].len() < RECORDS {
                consumer.buffers[cpu].push_back(record);
                self.counters.records += 1;
            } else {
                consumer.drops[cpu] += 1;
                self.counters.drops += 1;
            }
            claimed = true;
        }
        self.counters.unclaimed += u64::from(!claimed);
    }

    fn drain(&mut self, id: ConsumerId, cpu: usize) {
        let mut bytes = [0; RECORDS * LONGEST];
        let result = self.dtrace.read(id, cpu, &mut bytes);
        let records = Records::new(&bytes[..result.unwrap_or(0)]).map(|record| record.firing());
        let records: VecDeque<_> = records.map(|firing| firing.expect("a whole record")).collect();
        let expected = self.opened(id).and_then(|consumer| {
            let buffer = consumer.buffers.get_mut(cpu).ok_or(ConsumerError::NoCpu(cpu))?;
            Ok(std::mem::take(buffer))
        });
        assert_eq!(
            result,
            expected.as_ref().map(|all| all.len() * LONGEST).map_err(|&error| error)
        );
        assert_eq!(records, expected.unwrap_or_default());
    }

    fn drops(&mut self, id: ConsumerId, cpu: usize) {
        let result = self.dtrace.drops(id, cpu);
        let expected = self.opened(id).and_then(|consumer| {
            let drops = consumer.drops.get_mut(cpu).ok_or(ConsumerError::NoCpu(cpu))?;
            Ok(std::mem::take(drops))
        });
        assert_eq!(result, expected);
    }
}
