//! A kernel made of threads, and a provider that remembers what it was asked.
#![allow(dead_code, reason = "each test file uses a part")]

use std::ffi::{CStr, c_int, c_void};
use std::sync::Mutex;

use sdt_core::ops::{
    ARG_NONE, ArgDesc, Framework, FrameworkError, Privileges, ProbeDesc, ProbeId, ProviderAttr,
    ProviderId, ProviderOps,
};
use sdt_framework::{ARGS, ConsumerId, Dtrace, Field, Host, Record, Spec};

pub use sdt_host::cpus::{CPUS, Threads};

/// Small tables, so that tests can fill them.
pub type Small = Dtrace<Threads, CPUS, 8, 3, 16, 12, 4>;

pub fn small() -> Box<Small> {
    Box::new(Dtrace::new(Threads::new()))
}

pub fn spec(text: &str) -> Spec {
    Spec::parse(text, Field::Name).unwrap()
}

/// What a [`TestProvider`] was asked, with the probe's id and `parg`.
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

    /// The calls since this was last asked.
    pub fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    /// # Safety
    /// `arg` is from `TestProvider::arg`, and the provider is still there.
    unsafe fn note(arg: *mut c_void, call: Call) {
        // SAFETY: by the contract above.
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
        // SAFETY: the ops keep to their contexts; the caller keeps the provider.
        unsafe { framework.register(name, &ProviderAttr::SDT, Privileges::USER, &OPS, self.arg()) }
    }
}

fn text(chars: &[std::ffi::c_char]) -> String {
    chars.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect()
}

unsafe extern "C" fn provide(arg: *mut c_void, desc: *const ProbeDesc) {
    // SAFETY: the framework passes a description or null.
    let desc = unsafe { desc.as_ref() };
    let names =
        desc.map(|d| [text(&d.provider), text(&d.module), text(&d.function), text(&d.name)]);
    // SAFETY: `OPS` is registered with a `TestProvider`.
    unsafe { TestProvider::note(arg, Call::Provide(names)) };
}

unsafe extern "C" fn provide_module(arg: *mut c_void, module: *mut c_void) {
    // SAFETY: `OPS` is registered with a `TestProvider`.
    unsafe { TestProvider::note(arg, Call::ProvideModule(module.addr())) };
}

/// FreeBSD's `enable` returns nothing, so whatever was in the register: not success, here.
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

/// Two arguments: `int`, and `struct proc *` that D sees as `psinfo_t *`.
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
    for (to, from) in desc.native.iter_mut().zip(native.to_bytes()) {
        *to = *from as std::ffi::c_char;
    }
    for (to, from) in desc.xlate.iter_mut().zip(xlate.to_bytes()) {
        *to = *from as std::ffi::c_char;
    }
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
    // SAFETY: all frameworks here look at the id; the ops of the tests do not follow the pointer.
    unsafe { framework.probe_create(provider, module, function, name, aframes, parg) }
}

/// Hits that bring five arguments along.
pub trait Five {
    fn five(&self, id: u32, args: [u64; 5]);
}

impl<
    H: Host,
    const CPUS: usize,
    const RECORDS: usize,
    const CONSUMERS: usize,
    const PROBES: usize,
    const ECBS: usize,
    const PROVIDERS: usize,
> Five for Dtrace<H, CPUS, RECORDS, CONSUMERS, PROBES, ECBS, PROVIDERS>
{
    fn five(&self, id: u32, args: [u64; 5]) {
        // SAFETY: no test's `getargval` looks at the stack.
        unsafe { self.probe5(id, args) };
    }
}

/// What is recorded of a hit that brings along these arguments, and no more can be had.
pub fn and_zeros<const N: usize>(args: [u64; N]) -> [u64; ARGS] {
    std::array::from_fn(|i| args.get(i).copied().unwrap_or(0))
}

/// All records of a consumer on a CPU.
pub fn drain(dtrace: &Small, id: ConsumerId, cpu: usize) -> Vec<Record> {
    let mut records = Vec::new();
    let count = dtrace.drain(id, cpu, &mut |record| records.push(record)).unwrap();
    assert_eq!(count, records.len());
    records
}
