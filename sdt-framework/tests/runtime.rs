//! A provider with its own rules: it creates probes on request, and is notified which ones are enabled.

mod common;

use std::ffi::{CStr, CString};
use std::sync::Mutex;

use common::{SMALL, Small, Threads, memory, spec};
use sdt_core::ops::{FrameworkError, Privileges, ProbeDesc, ProviderAttr};
use sdt_core::runtime::{AddError, CloseError, OpenError, Probe, Provider, Rules, Slot, arg};
use sdt_framework::{Dtrace, Spec};

/// Creates the probe `tick-N`, with N arguments, for each N below 10 when a consumer requests it.
#[derive(Debug)]
struct Ticks {
    calls: Mutex<Vec<(&'static str, String)>>,
}

impl Ticks {
    fn note(&self, what: &'static str, probe: &Probe) {
        let name = probe.names().1.to_str().unwrap().to_owned();
        self.calls.lock().unwrap().push((what, name));
    }

    fn calls(&self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

fn name(n: usize) -> CString {
    CString::new(format!("tick-{n}")).unwrap()
}

fn add(n: usize) -> Result<Probe, AddError> {
    TICKS.add(c"", &name(n), &vec![arg::<u64>(); n])
}

impl Rules for Ticks {
    fn provide(&self, provider: &'static Provider, wanted: Option<&ProbeDesc>) {
        assert!(std::ptr::eq(provider, &TICKS));
        let wanted = wanted.map_or(c"tick-1", |wanted| wanted.name.as_c_str());
        if let Some(n) = (0..10).find(|n| *name(*n) == *wanted) {
            match add(n) {
                Ok(_) | Err(AddError::Twice | AddError::NoSlot) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn enabled(&self, probe: &Probe) {
        assert!(probe.is_enabled());
        self.note("enabled", probe);
    }

    fn disabled(&self, probe: &Probe) {
        assert!(!probe.is_enabled());
        self.note("disabled", probe);
    }
}

static DTRACE: Small = Dtrace::new(Threads::new());
static RULES: Ticks = Ticks { calls: Mutex::new(Vec::new()) };
static SLOTS: [Slot; 5] = [const { Slot::new() }; 5];
static TICKS: Provider = Provider::ruled(&SLOTS, &RULES);

fn open(name: &CStr) -> Result<(), OpenError> {
    // SAFETY: the program of the tests is never unloaded.
    unsafe { TICKS.open_with(&DTRACE, c"", name, &ProviderAttr::SDT, Privileges::USER) }
}

fn listed(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    DTRACE.for_each_probe(&spec(text), |probe| names.push(probe.to_string())).unwrap();
    names
}

fn arguments(text: &str) -> usize {
    let mut id = None;
    DTRACE.for_each_probe(&spec(text), |probe| id = Some(probe.id())).unwrap();
    DTRACE.arg_descs(id.unwrap()).count()
}

#[test]
fn a_provider_with_rules() {
    assert_eq!(TICKS.close(), Err(CloseError::NotOpen));
    assert_eq!(open(c"tick"), Err(OpenError::Framework(FrameworkError::NotReady)));
    DTRACE.init(memory(SMALL.memory::<Threads>(recording_host::cpus::CPUS, 3)), &SMALL).unwrap();
    assert_eq!(open(c"7"), Err(OpenError::Framework(FrameworkError::Invalid)));
    assert_eq!(add(1).unwrap_err(), AddError::NotOpen);
    assert_eq!(open(c"tick"), Ok(()));
    assert_eq!(open(c"tick"), Err(OpenError::Open));
    assert_eq!(listed(""), ["tick:::tick-1"], "the probes that exist without a description");
    assert_eq!(listed("tick-10"), [""; 0]);
    for _ in 0..2 {
        assert_eq!(listed("tick-3"), ["tick:::tick-3"]);
    }
    assert_eq!(add(3).unwrap_err(), AddError::Twice);
    assert_eq!(arguments("tick-3"), 3);

    let x = DTRACE.open().unwrap();
    // The requested probe is created, and enabled once.
    assert_eq!(DTRACE.enable(x, &spec("tick:::tick-5")), Ok(1));
    assert_eq!(RULES.calls(), [("enabled", "tick-5".into())]);
    // An enabling also matches probes that are created later, in any way.
    assert_eq!(DTRACE.enable(x, &spec("tick:::tick-[78]")), Ok(0));
    assert_eq!(listed("tick-7"), ["tick:::tick-7"]);
    assert_eq!(RULES.calls(), [("enabled", "tick-7".into())]);
    let eighth = add(8).unwrap();
    assert_eq!(RULES.calls(), [("enabled", "tick-8".into())]);
    assert_eq!(listed("tick-9"), [""; 0], "there is no slot for it");
    Threads::bind(0);
    DTRACE.go(x).unwrap();
    eighth.fire(&[8; 8]).unwrap();
    assert_eq!(common::drain(&DTRACE, x, 0)[0].args[..8], [8; 8]);
    assert_eq!(DTRACE.disable(x, &Spec::ALL), Ok(3));
    let mut disabled = RULES.calls();
    disabled.sort();
    assert_eq!(disabled, ["tick-5", "tick-7", "tick-8"].map(|name| ("disabled", name.into())));
    assert_eq!(TICKS.close(), Err(CloseError::Framework(FrameworkError::Busy)));
    DTRACE.close(x).unwrap();
    assert_eq!(TICKS.close(), Ok(()));
    assert_eq!(listed(""), [""; 0]);
    drop(eighth);
    assert_eq!(open(c"tick"), Ok(()));
    assert_eq!(listed(""), ["tick:::tick-1"]);
    assert_eq!(RULES.calls(), []);
}
