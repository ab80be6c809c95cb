//! Tests of SDT with the real linker and the real framework. Only the machine is a mock, whose memory is a buffer.

mod lifecycle;
mod refusals;
mod unloading;

use crate::release;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use dtrace_abi::site::Code;
use recording_host::cpus::Uniprocessor;
use sdt_framework::{Config, ConsumerId, Dtrace, Field, Record, Spec, Which, records};

use super::{Fault, Machdep, Records, Sdt};
use crate::Release;
use crate::fixture::sdt::{DATA, SdtBuilder, Word};
use crate::kld::{FileInfo, Kernel, Linker, Refusal};
use crate::loader;
use stand_in_base::fixture::machine::Machine;
use stand_in_base::image::PAGE;
use stand_in_base::memory::Memory as _;

const REGISTER_INIT: u64 = 0xffff_ffff_8020_1000;
/// The kernel's own provider, `sdt`.
const SDT_PROVIDER: u64 = 0xffff_ffff_8030_0000;

type Framework = Dtrace<Uniprocessor>;

/// A kernel with memory for the greatest number of consumers.
fn framework() -> &'static Framework {
    const CONFIG: Config =
        Config { providers: 8, probes: 32, ecbs: 32, consumers: 4, buffer: 16 * Record::SIZE };
    // SAFETY: each test has its own framework and uses it from one thread.
    let cpu = unsafe { Uniprocessor::new() };
    let framework: &'static Framework = Box::leak(Box::new(Dtrace::new(cpu)));
    let bytes = CONFIG.memory::<Uniprocessor>(1, 8);
    framework.init(Box::leak(Box::new_uninit_slice(bytes)), &CONFIG).unwrap();
    framework
}

/// The mapped images, and a log of their changes.
#[derive(Default)]
struct Memory {
    mapped: Machine,
    log: Mutex<Vec<String>>,
    probes_enabled: AtomicBool,
    machine: Option<loader::Machine>,
    /// The error number that handlers return for MOD_UNLOAD.
    unload_answer: Mutex<i32>,
}

impl Machdep for &'static Memory {
    fn machine(&self) -> loader::Machine {
        self.machine.unwrap_or(loader::Machine::X86_64)
    }

    fn print(&self, line: fmt::Arguments<'_>) {
        self.mapped.print(line);
    }

    unsafe fn write(&self, address: u64, word: u64) {
        self.mapped.with(address, 8, |bytes| bytes.copy_from_slice(&word.to_le_bytes()));
        let place = address & (PAGE as u64 - 1);
        self.log.lock().unwrap().push(format!("write {place:#x}: {word}"));
    }

    fn set_probes_enabled(&self, enabled: bool) {
        assert_ne!(self.probes_enabled.swap(enabled, Ordering::Relaxed), enabled);
    }

    unsafe fn patch(&self, sites: &[(u64, Code)]) {
        for (address, code) in sites {
            let code = code.as_bytes();
            self.mapped.with(*address, code.len(), |bytes| bytes.copy_from_slice(code));
            let place = address & (PAGE as u64 - 1);
            self.log.lock().unwrap().push(format!("patch {place:#x}: {code:02x?}"));
        }
    }

    fn sixth_argument(&self) -> u64 {
        6
    }
}

/// A kernel with SDT and DTrace.
struct Bench {
    memory: &'static Memory,
    framework: &'static Framework,
    sdt: &'static Sdt<Uniprocessor, &'static Memory>,
}

impl Kernel for Bench {
    fn machine(&self) -> loader::Machine {
        Machdep::machine(&self.memory)
    }

    fn memory(&self) -> &dyn stand_in_base::memory::Memory {
        &self.memory.mapped
    }

    fn symbol(&self, name: &str) -> Option<u64> {
        match name {
            "module_register_init" => Some(REGISTER_INIT),
            "sdt_provider_sdt" => Some(SDT_PROVIDER),
            _ => None,
        }
    }

    fn is_function(&self, address: u64) -> bool {
        address == REGISTER_INIT
    }

    fn call(&self, linker: &Linker<Self>, function: u64, argument: u64) {
        assert_eq!(function, REGISTER_INIT);
        linker.module_register_init(argument);
    }

    fn call_event(&self, _: u64, _: u64, event: i32, _: u64) -> i32 {
        let probes = list(self.framework).len();
        self.memory.log.lock().unwrap().push(format!("event {event}, {probes} probes"));
        if event == crate::kld::event::UNLOAD {
            *self.memory.unload_answer.lock().unwrap()
        } else {
            0
        }
    }

    fn kld_check(&self, records: &Records) -> Result<(), Fault> {
        self.sdt.check(records)
    }

    fn kld_load(&self, file: &FileInfo, records: Records, release: Release) {
        self.sdt.kld_load(file, records, release);
    }

    fn kld_unload_try(&self, file: &FileInfo) -> bool {
        self.sdt.kld_unload_try(file)
    }

    fn kld_unload(&self, file: &FileInfo) {
        self.sdt.kld_unload(file);
    }
}

/// Returns the full names of all probes.
fn list(framework: &Framework) -> Vec<String> {
    let mut probes = Vec::new();
    framework.for_each_probe(&spec(":::"), |probe| probes.push(probe.to_string())).unwrap();
    probes
}

fn spec(text: &str) -> Spec {
    Spec::parse(text, Field::Name).unwrap()
}

fn release(version: u32) -> Release {
    Release::new(version).unwrap()
}

/// Creates a kernel that behaves like FreeBSD 15 on amd64.
fn kernel() -> Linker<Bench> {
    kernel_of(Memory::default(), release::DEFAULT)
}

fn kernel_of(memory: Memory, release: Release) -> Linker<Bench> {
    let memory: &'static Memory = Box::leak(Box::new(memory));
    let framework = framework();
    let sdt = Box::leak(Box::new(Sdt::new(framework, memory)));
    let kernel = FileInfo { id: 1, name: "kernel".into(), base: 0, size: 0 };
    sdt.kld_load(&kernel, Records::with_provider(SDT_PROVIDER, c"sdt".into()), release);
    let linker = Linker::new(Bench { memory, framework, sdt });
    linker.set_release(release).unwrap();
    linker
}

impl Linker<Bench> {
    fn probes(&self) -> Vec<String> {
        list(self.kernel().framework)
    }

    fn console(&self) -> Vec<String> {
        self.kernel().memory.mapped.console()
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.kernel().memory.log.lock().unwrap())
    }

    fn base(&self, file: &str) -> u64 {
        self.files().iter().find(|info| info.name == file).expect("a loaded file").base
    }

    /// A word in a loaded file's data.
    fn word(&self, file: &str, at: u64) -> u64 {
        u64::from_le_bytes(self.kernel().memory.mapped.read(self.base(file) + DATA + at))
    }

    fn enable(&self, description: &str) -> ConsumerId {
        let framework = self.kernel().framework;
        let consumer = framework.open().unwrap();
        framework.enable(consumer, &spec(description)).unwrap();
        consumer
    }

    fn close(&self, consumer: ConsumerId) {
        self.kernel().framework.close(consumer).unwrap();
    }

    /// The types of a probe's arguments: native and translated.
    fn types(&self, description: &str) -> Vec<(String, String)> {
        let framework = self.kernel().framework;
        let mut ids = Vec::new();
        framework.for_each_probe(&spec(description), |probe| ids.push(probe.id())).unwrap();
        let [id] = ids[..] else { panic!("{description}: {ids:?}") };
        let types = framework.arg_descs(id);
        types.map(|desc| (desc.native.to_string(), desc.xlate.to_string())).collect()
    }
}

/// Builds a module with one probe, `provider:MODULE:none:exec-success`, which has one argument and two tracepoints (used on 15).
/// Returns the file, and the offset of the probe's record in the data.
fn one(release: Release, module: &str, provider: &str) -> (Vec<u8>, u64) {
    let mut file = SdtBuilder::of(release, module);
    let provider = file.provider(provider);
    let probe = file.probe(provider, ["", "", "exec__success"]);
    file.argtype(probe, 0, [Some("char *"), None]);
    file.tracepoint(probe, 8, 40);
    file.tracepoint(probe, 16, 48);
    (file.finish(), probe)
}
