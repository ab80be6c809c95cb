//! Tests of the probes of modules, with the real framework.

use std::sync::Mutex;

use recording_host::cpus::Uniprocessor;
use sdt_framework::{Config, Dtrace, Field, Record, Spec, Which, records};

use super::*;
use crate::file::{File, Linked};
use crate::marking::Marking;
use crate::regs::Regs;
use crate::sdt::{Machine as Text, Sdt};

type Framework = Dtrace<Uniprocessor>;

/// Returns a framework for at most two consumers, with more memory than they need.
fn framework() -> &'static Framework {
    const CONFIG: Config =
        Config { providers: 32, probes: 32, ecbs: 32, consumers: 2, buffer: 16 * Record::SIZE };
    // SAFETY: each test has its own framework and uses it from one thread.
    let cpu = unsafe { Uniprocessor::new() };
    let framework: &'static Framework = Box::leak(Box::new(Dtrace::new(cpu)));
    let bytes = CONFIG.memory::<Uniprocessor>(1, 6);
    framework.init(Box::leak(Box::new_uninit_slice(bytes)), &CONFIG).unwrap();
    framework
}

/// A mock of the text of modules: stores the written bytes by address; all other bytes read as nops.
#[derive(Debug, Default)]
struct Bytes {
    stored: Mutex<BTreeMap<u64, u8>>,
    regs: Mutex<Option<Regs>>,
}

impl Text for Bytes {
    unsafe fn load(&self, address: u64) -> u8 {
        self.stored.lock().unwrap().get(&address).copied().unwrap_or(0x90)
    }
    unsafe fn store(&self, address: u64, byte: u8) {
        self.stored.lock().unwrap().insert(address, byte);
    }
    fn regs(&self) -> Option<Regs> {
        *self.regs.lock().unwrap()
    }
}

struct Bench {
    text: &'static Bytes,
    sdt: &'static Sdt,
    framework: &'static Framework,
}

fn bench() -> Bench {
    let text: &'static Bytes = Box::leak(Box::default());
    let sdt: &'static Sdt = Box::leak(Box::new(Sdt::new(text)));
    let framework = framework();
    sdt.attach(framework).unwrap();
    Bench { text, sdt, framework }
}

impl Bench {
    fn load(&self, ctl: &'static ModCtl, file: &[u8], base: u64) {
        let linked: &'static Linked = Box::leak(Box::new(
            File::parse(file).unwrap().link(base, Marking::Nops, &|_| None).unwrap(),
        ));
        ctl.mp.store((&raw const *linked).cast_mut(), core::sync::atomic::Ordering::Relaxed);
        ctl.loadcnt.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        ctl.loaded.store(1, core::sync::atomic::Ordering::Relaxed);
        // SAFETY: the providers of `sdt` take a ModCtl.
        unsafe { self.framework.module_loaded((&raw const *ctl).cast_mut().cast()) }.unwrap();
    }

    fn unload(&self, ctl: &'static ModCtl) {
        ctl.loaded.store(0, core::sync::atomic::Ordering::Relaxed);
        let _ = self.framework.destroy_module(ctl.name());
    }

    /// All probes, in the order of their ids.
    fn listed(&self) -> Vec<String> {
        let mut listed = Vec::new();
        self.framework
            .for_each_probe(&spec("*:::"), |probe| {
                let text = |text: &core::ffi::CStr| text.to_str().unwrap().to_string();
                listed.push(
                    [probe.provider(), probe.module(), probe.function(), probe.name()]
                        .map(text)
                        .join(":"),
                );
            })
            .unwrap();
        listed
    }

    fn byte(&self, address: u64) -> u8 {
        // SAFETY: `load` of `Bytes` looks up the address in a map, so any address is allowed.
        unsafe { self.text.load(address) }
    }
}

fn spec(text: &str) -> Spec {
    Spec::parse(text, Field::Name).unwrap()
}

fn file() -> Vec<u8> {
    let mut module = ModuleBuilder::whole();
    module.probe("__proc_exec__success", 26);
    module.probe("foo__bar", 0);
    module.probe("foo__bar", 34);
    module.probe("foo__bar", 44);
    module.finish()
}

#[test]
fn probes_are_named_and_chained() {
    let bench = bench();
    let ctl = ModCtl::new("misc", "tmod");
    bench.load(ctl, &file(), BASE);
    // The site of the last relocation is first in the list. `foo-bar` has two sites in `work` and one in `_init`.
    assert_eq!(
        bench.listed(),
        ["sdt:tmod:work:foo-bar", "sdt:tmod:_init:foo-bar", "proc:tmod:work:exec-success"]
    );
    let work = bench.sdt.probe_at(BASE + 45);
    assert!(work.is_some() && work == bench.sdt.probe_at(BASE + 35));
    assert_ne!(work, bench.sdt.probe_at(BASE + 1));
    assert_eq!(bench.sdt.probe_at(BASE + 44), None, "the trap is at the second byte");
}

#[test]
fn enabling_patches_every_site_and_counts() {
    let bench = bench();
    let ctl = ModCtl::new("misc", "tmod");
    bench.load(ctl, &file(), BASE);
    let consumer = bench.framework.open().unwrap();
    let count = || ctl.nenabled.load(core::sync::atomic::Ordering::Relaxed);
    assert_eq!(bench.framework.enable(consumer, &spec("sdt::work:foo-bar")).unwrap(), 1);
    assert_eq!(count(), 1);
    let at = |sites: [u64; 4]| sites.map(|site| bench.byte(BASE + site + 1));
    assert_eq!(at([34, 44, 0, 26]), [0xf0, 0xf0, 0x90, 0x90]);
    assert_eq!(bench.framework.enable(consumer, &spec("proc:::")).unwrap(), 1);
    assert_eq!(at([34, 44, 0, 26]), [0xf0, 0xf0, 0x90, 0xf0]);
    assert_eq!(count(), 2);
    bench.framework.close(consumer).unwrap();
    assert_eq!(at([34, 44, 0, 26]), [0x90; 4]);
    assert_eq!(count(), 0);
}

#[test]
fn a_module_that_comes_again_has_new_probes() {
    let bench = bench();
    let ctl = ModCtl::new("misc", "tmod");
    bench.load(ctl, &file(), BASE);
    bench.unload(ctl);
    assert_eq!((bench.listed(), bench.sdt.probe_at(BASE + 1)), (vec![], None));
    bench.load(ctl, &file(), BASE);
    assert_eq!(bench.listed().len(), 3);
    assert!(bench.sdt.probe_at(BASE + 1).is_some());
    let other = ModCtl::new("misc", "other");
    bench.load(other, &file(), BASE + 0x10_0000);
    assert_eq!(bench.listed().len(), 6);
}

#[test]
fn arguments_beyond_the_fifth_are_the_traps() {
    let bench = bench();
    let ctl = ModCtl::new("misc", "tmod");
    bench.load(ctl, &file(), BASE);
    let consumer = bench.framework.open().unwrap();
    bench.framework.enable(consumer, &spec("proc:::")).unwrap();
    bench.framework.go(consumer).unwrap();
    let stack = [7u64, 8, 9, 10];
    let regs =
        Regs { arguments: [1, 2, 3, 4, 5, 6], rsp: stack.as_ptr() as u64, ..Regs::default() };
    *bench.text.regs.lock().unwrap() = Some(regs);
    let id = bench.sdt.probe_at(BASE + 27).unwrap();
    // SAFETY: SDT's `getargval` uses the registers of the mock machine, whose `rsp` points to `stack`.
    unsafe { bench.framework.probe5(id, [1, 2, 3, 4, 5]) };
    let mut bytes = [0; 2 * Record::SIZE];
    let found = bench.framework.snapshot(consumer, 0, Which::Records, 0, &mut bytes).unwrap();
    let seen: Vec<_> = records(&bytes[..found.size]).map(|record| record.args).collect();
    assert_eq!(seen, [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]);
}

#[test]
fn providers_are_registered_with_their_stability() {
    let bench = bench();
    let ctl = ModCtl::new("misc", "tmod");
    bench.load(ctl, &file(), BASE);
    let mut ids = Vec::new();
    bench.framework.for_each_probe(&spec("proc:::"), |probe| ids.push(probe.id())).unwrap();
    let detail = bench.framework.describe(ids[0]).unwrap();
    // The provider has Evolving/Evolving/ISA for provider, name and arguments, and Private/Private/Unknown for module and
    // function. A probe has the weakest of them.
    let triple = |of: sdt_core::ops::Attribute| (of.name as u8, of.data as u8, of.class as u8);
    assert_eq!(triple(detail.probe), (1, 1, 0));
    assert_eq!(triple(detail.args), (5, 5, 4));
    assert_eq!(bench.framework.arg_descs(ids[0]).count(), 0);
}
