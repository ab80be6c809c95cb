//! A provider in safe code, which makes its probes as they are asked for.

mod common;

use std::ffi::{CStr, CString};
use std::sync::Mutex;

use common::{SMALL, Small, Threads, memory, spec};
use sdt_core::ops::{FrameworkError, Name, Privileges, ProbeDesc, ProbeId, ProviderAttr};
use sdt_framework::{ArgumentType, Dtrace, Provider, RuntimeProvider, Spec};

/// Has a probe `tick-N` for each N below 10, once it is asked for.
#[derive(Debug, Default)]
struct Ticks {
    calls: Mutex<Vec<(&'static str, u32, usize)>>,
}

impl Ticks {
    const fn new() -> Self {
        Self { calls: Mutex::new(Vec::new()) }
    }

    fn note(&self, what: &'static str, probe: ProbeId, tag: usize) {
        self.calls.lock().unwrap().push((what, probe.get(), tag));
    }

    fn calls(&self) -> Vec<(&'static str, u32, usize)> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

fn name(n: usize) -> CString {
    CString::new(format!("tick-{n}")).unwrap()
}

impl Provider<Threads> for Ticks {
    fn provide(&self, on: &RuntimeProvider<Threads, Self>, wanted: Option<&ProbeDesc>) {
        match wanted {
            None => drop(on.create(c"", c"", &name(1), 1).unwrap()),
            Some(wanted) => {
                let wanted = wanted.name.as_c_str();
                let found = (0..10).find(|n| *name(*n) == *wanted);
                if let Some(n) = found {
                    on.create(c"", c"", wanted, n).unwrap();
                }
            }
        }
    }

    fn enable(&self, probe: ProbeId, tag: usize) {
        self.note("enable", probe, tag);
    }

    fn disable(&self, probe: ProbeId, tag: usize) {
        self.note("disable", probe, tag);
    }

    fn destroy(&self, probe: ProbeId, tag: usize) {
        self.note("destroy", probe, tag);
    }

    fn argument(&self, _: ProbeId, tag: usize, index: usize) -> Option<ArgumentType> {
        let native = Name::new(b"uintptr_t")?;
        (index < tag).then_some(ArgumentType { native, translated: Name::EMPTY })
    }
}

static DTRACE: Small = Dtrace::new(Threads::new());
static TICKS: RuntimeProvider<Threads, Ticks> = RuntimeProvider::new(&DTRACE, Ticks::new());

fn listed(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    DTRACE.for_each_probe(&spec(text), |probe| names.push(probe.to_string()));
    names
}

#[test]
fn a_provider_in_safe_code() {
    let register = |name: &CStr| TICKS.register(name, &ProviderAttr::SDT, Privileges::USER);
    assert_eq!(TICKS.unregister(), Err(FrameworkError::NotFound));
    assert_eq!(register(c"tick"), Err(FrameworkError::NotReady));
    DTRACE.init(memory(SMALL.memory::<Threads>(sdt_host::cpus::CPUS, 3)), &SMALL).unwrap();
    assert_eq!(register(c"7"), Err(FrameworkError::Invalid));
    assert_eq!(TICKS.create(c"", c"", c"tick-1", 1), Err(FrameworkError::NotFound));
    assert_eq!(register(c"tick"), Ok(()));
    assert_eq!(register(c"tick"), Err(FrameworkError::Busy));
    assert_eq!(listed(""), ["tick:::tick-1"]);
    assert_eq!(listed("tick-10"), [""; 0]);
    for _ in 0..2 {
        assert_eq!(listed("tick-3"), ["tick:::tick-3"]);
    }
    assert_eq!(TICKS.create(c"", c"", c"tick-3", 9).map(ProbeId::get), Ok(2), "it is there");
    assert_eq!(DTRACE.arg_descs(ProbeId::new(2).unwrap()).count(), 3);

    let x = DTRACE.open().unwrap();
    // What this asks for is made, and enabled once.
    assert_eq!(DTRACE.enable(x, &spec("tick:::tick-5")), Ok(1));
    assert_eq!(TICKS.get().calls(), [("enable", 3, 5)]);
    // An enabling is for what comes later, too, made in whatever way.
    assert_eq!(DTRACE.enable(x, &spec("tick:::tick-[78]")), Ok(0));
    assert_eq!(listed("tick-7"), ["tick:::tick-7"]);
    assert_eq!(TICKS.get().calls(), [("enable", 4, 7)]);
    let eighth = TICKS.create(c"", c"", c"tick-8", 8).unwrap();
    assert_eq!(TICKS.get().calls(), [("enable", 5, 8)]);
    Threads::bind(0);
    DTRACE.go(x).unwrap();
    DTRACE.probe(eighth, &[8; 6]);
    assert_eq!(common::drain(&DTRACE, x, 0)[0].probe, eighth);
    assert_eq!(DTRACE.disable(x, &Spec::ALL), Ok(3));
    assert_eq!(TICKS.get().calls().len(), 3);
    assert_eq!(TICKS.unregister(), Err(FrameworkError::Busy));
    DTRACE.close(x).unwrap();
    assert_eq!(TICKS.unregister(), Ok(()));
    let gone = [(1, 1), (2, 3), (3, 5), (4, 7), (5, 8)].map(|(id, tag)| ("destroy", id, tag));
    assert_eq!(TICKS.get().calls(), gone);
    assert_eq!(register(c"tick"), Ok(()));
    assert_eq!(listed(""), ["tick:::tick-1"]);
}
