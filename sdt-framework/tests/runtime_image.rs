//! Runtime providers belong to the image: the effects of attaching and detaching the image on them.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::ffi::CStr;

use recording_host::cpus::Uniprocessor;
use sdt_core::attach::{self, Attachment, DetachError};
use sdt_core::ops::{FrameworkError, Privileges, ProviderAttr};
use sdt_core::patch::Mode;
use sdt_core::runtime::{FireError, OpenError, Provider, Slot, arg};
use sdt_core::{sdt_probe, sdt_provider};
use sdt_framework::{Config, Dtrace, Field, Memory, Record, Spec, Which, records};

sdt_provider!(compiled);

#[inline(never)]
fn fire(n: u64) {
    sdt_probe!(compiled::hit, n);
}

static DTRACE: Dtrace<Uniprocessor> =
    // SAFETY: there is one thread at a time.
    Dtrace::new(unsafe { Uniprocessor::new() });

const CONFIG: Config =
    Config { providers: 3, probes: 8, ecbs: 8, consumers: 1, buffer: 16 * Record::SIZE };

static MEMORY: Memory<{ CONFIG.memory::<Uniprocessor>(1, 1) }> = Memory::new();

static ATTACHMENT: Attachment = Attachment {
    framework: &DTRACE,
    patcher: &recording_host::Text,
    mode: Mode::Trap,
    module: c"image",
};

/// A second framework, as in the child of a `fork`.
static SECOND: Dtrace<Uniprocessor> =
    // SAFETY: one thread at a time calls this framework.
    Dtrace::new(unsafe { Uniprocessor::new() });

static MEMORY_OF_SECOND: Memory<{ CONFIG.memory::<Uniprocessor>(1, 1) }> = Memory::new();

static TO_SECOND: Attachment = Attachment { framework: &SECOND, module: c"second", ..ATTACHMENT };

static SLOTS: [Slot; 2] = [const { Slot::new() }; 2];
static SCRIPT: Provider = Provider::new(&SLOTS);
static OTHER_SLOTS: [Slot; 1] = [const { Slot::new() }; 1];
static OTHER: Provider = Provider::new(&OTHER_SLOTS);

fn open(provider: &'static Provider, name: &CStr) -> Result<(), OpenError> {
    provider.open(name, &ProviderAttr::SDT, Privileges::USER)
}

fn listed() -> Vec<String> {
    listed_in(&DTRACE)
}

fn listed_in(dtrace: &Dtrace<Uniprocessor>) -> Vec<String> {
    let mut names = Vec::new();
    dtrace.for_each_probe(&Spec::ALL, |probe| names.push(probe.to_string())).unwrap();
    names.sort();
    names
}

fn attach() {
    // SAFETY: the handler of the host is installed, and a process is never unloaded.
    unsafe { attach::attach(&ATTACHMENT) }.unwrap();
}

#[test]
fn they_come_and_go_with_the_image() {
    recording_host::host();
    DTRACE.init(MEMORY.take().unwrap(), &CONFIG).unwrap();
    assert_eq!(open(&SCRIPT, c"script"), Err(OpenError::NotAttached));
    attach();
    assert_eq!(open(&SCRIPT, c"compiled"), Err(OpenError::Twice));
    assert_eq!(open(&SCRIPT, c"script"), Ok(()));
    assert_eq!(open(&OTHER, c"script"), Err(OpenError::Twice));
    assert_eq!(open(&OTHER, c"other"), Ok(()));
    let hit = SCRIPT.add(c"main", c"hit", &[arg::<u64>()]).unwrap();
    let quiet = OTHER.add(c"", c"quiet", &[]).unwrap();
    let all = ["compiled:image:none:hit", "other:image::quiet", "script:image:main:hit"];
    assert_eq!(listed(), all);

    let consumer = DTRACE.open().unwrap();
    let both = Spec::parse("hit", Field::Name).unwrap();
    assert_eq!(DTRACE.enable(consumer, &both), Ok(2));
    DTRACE.go(consumer).unwrap();
    // A provider refuses, and nothing has changed.
    let Err(DetachError::Refused(refusal)) = attach::detach() else { panic!("it went") };
    assert_eq!(refusal.error, FrameworkError::Busy);
    assert!(refusal.to_string().starts_with("the framework refused provider other: "), "{refusal}");
    assert_eq!(listed(), all);
    fire(1);
    hit.fire(&[2]).unwrap();
    let mut bytes = [0; 4 * Record::SIZE];
    let found = DTRACE.snapshot(consumer, 0, Which::Records, 0, &mut bytes).unwrap();
    let hits = records(&bytes[..found.size]).map(|record| record.args[0]);
    assert_eq!(hits.collect::<Vec<_>>(), [1, 2]);
    DTRACE.close(consumer).unwrap();

    assert_eq!(attach::detach(), Ok(()));
    assert_eq!(listed(), [""; 0]);
    assert_eq!(hit.fire(&[3]), Ok(()), "no consumer records it");
    assert!(SCRIPT.is_open());
    assert_eq!(open(&SCRIPT, c"script"), Err(OpenError::NotAttached));
    // Probes that are added and removed meanwhile have the same state afterwards.
    assert_eq!(quiet.remove(), Ok(()));
    let new = SCRIPT.add(c"main", c"new", &[]).unwrap();
    assert_eq!(listed(), [""; 0]);
    attach();
    let all = ["compiled:image:none:hit", "script:image:main:hit", "script:image:main:new"];
    assert_eq!(listed(), all);

    // With the image, they move to another framework.
    assert_eq!(attach::detach(), Ok(()));
    SECOND.init(MEMORY_OF_SECOND.take().unwrap(), &CONFIG).unwrap();
    // SAFETY: the image is not unloaded, and no thread fires.
    unsafe { attach::attach(&TO_SECOND) }.unwrap();
    assert_eq!(listed(), [""; 0]);
    let all = ["compiled:second:none:hit", "script:second:main:hit", "script:second:main:new"];
    assert_eq!(listed_in(&SECOND), all);
    let consumer = SECOND.open().unwrap();
    assert_eq!(SECOND.enable(consumer, &both), Ok(2));
    SECOND.go(consumer).unwrap();
    hit.fire(&[4]).unwrap();
    let found = SECOND.snapshot(consumer, 0, Which::Records, 0, &mut bytes).unwrap();
    assert_eq!(found.size, Record::SIZE);
    SECOND.close(consumer).unwrap();
    assert_eq!(attach::detach(), Ok(()));
    attach();

    assert_eq!(SCRIPT.close(), Ok(()));
    assert_eq!(new.fire(&[]), Err(FireError::Removed));
    assert_eq!(attach::detach(), Ok(()));
    attach();
    assert_eq!(listed(), ["compiled:image:none:hit"]);
    assert_eq!((OTHER.close(), attach::detach()), (Ok(()), Ok(())));
}
