//! A kernel that consists of threads, and a provider that records its calls.
#![allow(dead_code, reason = "each test file uses a part")]

use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Mutex;

use sdt_core::ops::{
    ARG_NONE, ArgDesc, Framework, FrameworkError, Name, Privileges, ProbeDesc, ProbeId,
    ProviderAttr, ProviderId, ProviderOps,
};
use sdt_framework::{
    ARGS, Config, ConsumerError, ConsumerId, Dtrace, Field, Host, Record, Spec, Which, records,
};

pub use recording_host::cpus::Threads;

pub type Small = Dtrace<Threads>;

/// Little room, so that tests can fill it: buffers for 8 records each.
pub const SMALL: Config =
    Config { providers: 4, probes: 16, ecbs: 12, consumers: 3, buffer: 8 * Record::SIZE };

pub fn small() -> Box<Small> {
    with_memory(Threads::new(), &SMALL)
}

/// A framework with memory for as many consumers as there can be.
pub fn with_memory<H: Host>(host: H, config: &Config) -> Box<Dtrace<H>> {
    let bytes = config.memory::<H>(host.cpus(), config.consumers + 16);
    let dtrace = Box::new(Dtrace::new(host));
    dtrace.init(memory(bytes), config).unwrap();
    dtrace
}

/// Returns memory of this size, which is never freed.
pub fn memory(bytes: usize) -> &'static mut [MaybeUninit<u8>] {
    Box::leak(Box::new_uninit_slice(bytes))
}

pub fn spec(text: &str) -> Spec {
    Spec::parse(text, Field::Name).unwrap()
}

/// A call of a [`TestProvider`], with the probe's id and `parg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Provide(Option<[String; 4]>),
    ProvideModule(usize),
    Enable(u32, usize),
    Disable(u32, usize),
    Suspend(u32, usize),
    Resume(u32, usize),
    Destroy(u32, usize),
}

#[derive(Default)]
pub struct TestProvider {
    calls: Mutex<Vec<Call>>,
}

impl TestProvider {
    pub fn arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Returns the calls since the last call of this function.
    pub fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    /// # Safety
    /// `arg` is from `TestProvider::arg`, and the provider still exists.
    unsafe fn note(arg: *mut c_void, call: Call) {
        // SAFETY: the caller passes a pointer from `TestProvider::arg`, and the provider still exists.
        let provider = unsafe { &*arg.cast::<Self>() };
        provider.calls.lock().unwrap().push(call);
    }

    /// # Safety
    /// The provider outlives its registration.
    pub unsafe fn register<F: Framework>(
        &self,
        framework: &F,
        name: &CStr,
    ) -> Result<ProviderId, FrameworkError> {
        // SAFETY: the ops can be called in their contexts, and the caller guarantees that the provider outlives its registration.
        unsafe { framework.register(name, &ProviderAttr::SDT, Privileges::USER, &OPS, self.arg()) }
    }
}

unsafe extern "C" fn provide(arg: *mut c_void, desc: *const ProbeDesc) {
    // SAFETY: the framework passes a description or null.
    let desc = unsafe { desc.as_ref() };
    let names = desc.map(|d| {
        [d.provider.to_string(), d.module.to_string(), d.function.to_string(), d.name.to_string()]
    });
    // SAFETY: `OPS` is registered with a `TestProvider`.
    unsafe { TestProvider::note(arg, Call::Provide(names)) };
}

unsafe extern "C" fn provide_module(arg: *mut c_void, module: *mut c_void) {
    // SAFETY: `OPS` is registered with a `TestProvider`.
    unsafe { TestProvider::note(arg, Call::ProvideModule(module.addr())) };
}

/// Returns an error. FreeBSD's `enable` returns nothing, so its result is undefined and must be ignored.
unsafe extern "C" fn enable(arg: *mut c_void, id: u32, parg: *mut c_void) -> c_int {
    // SAFETY: `OPS` is registered with a `TestProvider`.
    unsafe { TestProvider::note(arg, Call::Enable(id, parg.addr())) };
    -1
}

unsafe extern "C" fn disable(arg: *mut c_void, id: u32, parg: *mut c_void) {
    // SAFETY: `OPS` is registered with a `TestProvider`.
    unsafe { TestProvider::note(arg, Call::Disable(id, parg.addr())) };
}

unsafe extern "C" fn suspend(arg: *mut c_void, id: u32, parg: *mut c_void) {
    // SAFETY: `OPS` is registered with a `TestProvider`.
    unsafe { TestProvider::note(arg, Call::Suspend(id, parg.addr())) };
}

unsafe extern "C" fn resume(arg: *mut c_void, id: u32, parg: *mut c_void) {
    // SAFETY: `OPS` is registered with a `TestProvider`.
    unsafe { TestProvider::note(arg, Call::Resume(id, parg.addr())) };
}

unsafe extern "C" fn destroy(arg: *mut c_void, id: u32, parg: *mut c_void) {
    // SAFETY: `OPS` is registered with a `TestProvider`.
    unsafe { TestProvider::note(arg, Call::Destroy(id, parg.addr())) };
}

/// Describes two arguments: `int`, and `struct proc *`, which D translates to `psinfo_t *`.
unsafe extern "C" fn getargdesc(
    _arg: *mut c_void,
    _id: u32,
    _parg: *mut c_void,
    desc: *mut ArgDesc,
) {
    // SAFETY: the framework passes a description to fill.
    let desc = unsafe { &mut *desc };
    let (native, xlate) = match desc.ndx {
        0 => (c"int", c""),
        1 => (c"struct proc *", c"psinfo_t *"),
        _ => {
            desc.ndx = ARG_NONE;
            return;
        }
    };
    desc.native = Name::cut(native.to_bytes());
    desc.xlate = Name::cut(xlate.to_bytes());
}

pub const OPS: ProviderOps = ProviderOps {
    provide: Some(provide),
    provide_module: Some(provide_module),
    enable: Some(enable),
    disable: Some(disable),
    suspend: Some(suspend),
    resume: Some(resume),
    getargdesc: Some(getargdesc),
    getargval: None,
    usermode: None,
    destroy: Some(destroy),
};

/// Creates a probe `module:function:name` whose `parg` is `parg`.
pub fn create<F: Framework>(
    framework: &F,
    provider: ProviderId,
    [module, function, name]: [&CStr; 3],
    parg: usize,
) -> ProbeId {
    try_create(framework, provider, [module, function, name], 1, parg).unwrap()
}

/// Tries to create a probe.
pub fn try_create<F: Framework>(
    framework: &F,
    provider: ProviderId,
    [module, function, name]: [&CStr; 3],
    aframes: u32,
    parg: usize,
) -> Result<ProbeId, FrameworkError> {
    let parg = std::ptr::without_provenance_mut(parg);
    // SAFETY: all frameworks of the tests check the id; the ops of the tests do not dereference the pointer.
    unsafe { framework.probe_create(provider, module, function, name, aframes, parg) }
}

/// Fires hits with five arguments.
pub trait Five {
    fn five(&self, id: u32, args: [u64; 5]);
}

impl<H: Host> Five for Dtrace<H> {
    fn five(&self, id: u32, args: [u64; 5]) {
        // SAFETY: no `getargval` of the tests reads the stack.
        unsafe { self.probe5(id, args) };
    }
}

/// Returns the record of a hit with these arguments, when the provider supplies no others.
pub fn and_zeros<const N: usize>(args: [u64; N]) -> [u64; ARGS] {
    std::array::from_fn(|i| args.get(i).copied().unwrap_or(0))
}

/// A hit, as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firing {
    pub epid: u32,
    /// The probe; the greatest number if it is not enabled any more.
    pub probe: ProbeId,
    pub cpu: u32,
    pub timestamp: u64,
    pub args: [u64; ARGS],
}

/// All records of a consumer on a CPU.
pub fn drain<H: Host>(dtrace: &Dtrace<H>, id: ConsumerId, cpu: usize) -> Vec<Firing> {
    try_drain(dtrace, id, cpu).unwrap().0
}

/// Like the function above, for a consumer that may not exist; also returns the number of dropped records.
pub fn try_drain<H: Host>(
    dtrace: &Dtrace<H>,
    id: ConsumerId,
    cpu: usize,
) -> Result<(Vec<Firing>, u64), ConsumerError> {
    let (mut all, mut at, mut drops) = (Vec::new(), 0, 0);
    let mut bytes = [0; 3 * Record::SIZE];
    loop {
        let found = dtrace.snapshot(id, cpu, Which::Records, at, &mut bytes)?;
        drops += if at == 0 { found.drops } else { 0 };
        for Record { epid, timestamp, args } in records(&bytes[..found.read]) {
            let probe = dtrace.eprobe(id, epid, 0, &mut [])?.map_or(u32::MAX, |of| of.probe);
            let (probe, cpu) = (ProbeId::new(probe).unwrap(), cpu as u32);
            all.push(Firing { epid, probe, cpu, timestamp, args });
        }
        at += found.read;
        if at >= found.size {
            return Ok((all, drops));
        }
    }
}
