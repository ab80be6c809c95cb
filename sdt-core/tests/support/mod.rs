//! A host for probes in this very process: `mprotect` to write text, SIGTRAP as the breakpoint
//! exception, and a framework that keeps what it is told.
#![allow(dead_code, reason = "every test uses its part")]

use std::ffi::{CStr, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use sdt_core::__private::record::Probe;
use sdt_core::attach::{self, AttachError, Attachment};
use sdt_core::ops::*;
use sdt_core::patch::{Mode, PatchError, Patcher};

/// Breakpoints that were claimed.
pub static TRAPS: AtomicU64 = AtomicU64::new(0);

pub struct Text;

// SAFETY: the bytes are stored where they belong, a single one in one store; the system call makes every
// thread of this process execute a serialising instruction.
unsafe impl Patcher for Text {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        if !WRITABLE.load(Ordering::Relaxed) {
            return;
        }
        let page = address & !4095;
        let rwx = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        // SAFETY: a page of this program's text; it stays executable all the time.
        unsafe {
            let len = address + bytes.len() - page;
            assert_eq!(libc::mprotect(page as *mut c_void, len, rwx), 0);
            for (i, &byte) in bytes.iter().enumerate() {
                AtomicU8::from_ptr((address + i) as *mut u8).store(byte, Ordering::SeqCst);
            }
        }
    }

    fn synchronise(&self) {
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
    }

    fn is_writable(&self, _: usize, _: usize) -> bool {
        WRITABLE.load(Ordering::Relaxed)
    }

    fn refused(&self, _: &Probe, why: PatchError) {
        *REFUSED.lock().unwrap() = Some(why);
    }

    fn is_text(&self, address: usize, length: usize) -> bool {
        unsafe extern "C" {
            // The linker's: where this program's first segment starts, and where its text ends.
            safe static __executable_start: u8;
            safe static etext: u8;
        }
        let (start, end) = (&raw const __executable_start, &raw const etext);
        start.addr() <= address && address.checked_add(length).is_some_and(|to| to <= end.addr())
    }
}

fn membarrier(command: libc::c_int) {
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }, 0, "membarrier(2)");
}

extern "C" fn on_sigtrap(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a ucontext to an SA_SIGINFO handler.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let pc = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    let breakpoint = *pc as usize - sdt_core::trap::BREAKPOINT_LEN;
    match sdt_core::trap::resume_address(breakpoint) {
        Some(resume) => {
            TRAPS.fetch_add(1, Ordering::Relaxed);
            *pc = resume as i64;
        }
        // SAFETY: always sound.
        None => unsafe { libc::abort() },
    }
}

fn hook_sigtrap() {
    // SAFETY: a zeroed sigaction is a valid one, and the handler has the SA_SIGINFO signature.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigtrap as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
    }
}

/// One probe the framework knows.
#[derive(Clone)]
pub struct Entry {
    pub provider: String,
    pub module: String,
    pub name: String,
    pub aframes: u32,
    ops: ProviderOps,
    arg: usize,
    parg: usize,
}

/// Gets a probe's id and its arguments.
pub type Hook = fn(u32, &[u64; 6]);

/// A framework for tests: probes get the ids 1, 2, ...; hits are counted for each, and the last
/// arguments kept.
#[derive(Default)]
pub struct Recorder {
    providers: Mutex<Vec<Option<(String, ProviderOps, usize)>>>,
    /// Stability and privileges of all providers there have been.
    pub registered: Mutex<Vec<(String, ProviderAttr, Privileges)>>,
    probes: Mutex<Vec<Entry>>,
    /// The provider that may not be unregistered.
    pub refuses: Mutex<Option<&'static str>>,
    pub hits: [AtomicU64; 32],
    pub args: [[AtomicU64; 6]; 32],
    /// Run inside every hit.
    pub hook: Mutex<Option<Hook>>,
}

fn text(name: &CStr) -> String {
    name.to_str().unwrap().to_owned()
}

// SAFETY: ops are called as they were registered, and none of a provider that is gone.
unsafe impl Framework for Recorder {
    unsafe fn register(
        &self,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
        ops: &ProviderOps,
        arg: *mut c_void,
    ) -> Result<ProviderId, FrameworkError> {
        self.registered.lock().unwrap().push((text(name), *attr, privileges));
        let mut providers = self.providers.lock().unwrap();
        providers.push(Some((text(name), *ops, arg as usize)));
        Ok(ProviderId::new(providers.len()))
    }

    unsafe fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        let mut providers = self.providers.lock().unwrap();
        let slot = &mut providers[provider.get() - 1];
        if slot.as_ref().is_some_and(|(name, ..)| *self.refuses.lock().unwrap() == Some(name)) {
            return Err(FrameworkError::Busy);
        }
        let (name, ops, arg) = slot.take().unwrap();
        drop(providers);
        for (i, probe) in self.probes.lock().unwrap().iter().enumerate() {
            if probe.provider == name {
                // SAFETY: as registered.
                unsafe { ops.destroy.unwrap()(arg as _, i as u32 + 1, probe.parg as _) };
            }
        }
        self.probes.lock().unwrap().iter_mut().for_each(|probe| {
            if probe.provider == name {
                probe.provider.clear();
            }
        });
        Ok(())
    }

    unsafe fn invalidate(&self, _: ProviderId) {}

    unsafe fn probe_lookup(
        &self,
        id: ProviderId,
        _: &CStr,
        _: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        let provider = self.providers.lock().unwrap()[id.get() - 1].as_ref()?.0.clone();
        self.find(&provider, &text(name))
    }

    unsafe fn probe_create(
        &self,
        id: ProviderId,
        module: &CStr,
        _: &CStr,
        name: &CStr,
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        let (provider, ops, arg) = self.providers.lock().unwrap()[id.get() - 1].clone().unwrap();
        let mut probes = self.probes.lock().unwrap();
        let (module, name, parg) = (text(module), text(name), parg as usize);
        probes.push(Entry { provider, module, name, aframes, ops, arg, parg });
        Ok(ProbeId::new(probes.len() as u32).unwrap())
    }

    unsafe fn hit(&self, id: &AtomicU32, args: &[u64; 6]) {
        let id = id.load(Ordering::Acquire) as usize;
        if id == 0 {
            return;
        }
        self.hits[id].fetch_add(1, Ordering::Relaxed);
        for (kept, arg) in self.args[id].iter().zip(args) {
            kept.store(*arg, Ordering::Relaxed);
        }
        if let Ok(hook) = self.hook.try_lock()
            && let Some(hook) = *hook
        {
            hook(id as u32, args);
        }
    }
}

impl Recorder {
    pub fn find(&self, provider: &str, name: &str) -> Option<ProbeId> {
        let probes = self.probes.lock().unwrap();
        let at = probes.iter().position(|p| p.provider == provider && p.name == name)?;
        ProbeId::new(at as u32 + 1)
    }

    pub fn entry(&self, id: ProbeId) -> Entry {
        self.probes.lock().unwrap()[id.get() as usize - 1].clone()
    }

    /// Names of all probes.
    pub fn names(&self) -> Vec<String> {
        let probes = self.probes.lock().unwrap();
        probes
            .iter()
            .filter(|p| !p.provider.is_empty())
            .map(|p| format!("{}:{}::{}", p.provider, p.module, p.name))
            .collect()
    }

    pub fn enable(&self, id: ProbeId) {
        assert_eq!(self.try_enable(id), 0);
    }

    /// Returns the error number.
    pub fn try_enable(&self, id: ProbeId) -> i32 {
        let entry = self.entry(id);
        // SAFETY: as registered.
        unsafe { entry.ops.enable.unwrap()(entry.arg as _, id.get(), entry.parg as _) }
    }

    pub fn disable(&self, id: ProbeId) {
        let entry = self.entry(id);
        // SAFETY: as registered.
        unsafe { entry.ops.disable.unwrap()(entry.arg as _, id.get(), entry.parg as _) };
    }

    /// The types of the probe's arguments, as the ops table tells them; `native > translated` where they are
    /// translated.
    pub fn types(&self, id: ProbeId) -> Vec<String> {
        let entry = self.entry(id);
        let mut types = Vec::new();
        loop {
            let mut desc = ArgDesc::request(id, types.len() as i32);
            // SAFETY: as registered.
            unsafe {
                entry.ops.getargdesc.unwrap()(entry.arg as _, id.get(), entry.parg as _, &mut desc)
            };
            if desc.ndx == ARG_NONE {
                return types;
            }
            let [native, translated] =
                [&desc.native, &desc.xlate].map(|name| text(name.as_c_str()));
            let is_translated = !translated.is_empty();
            types.push(if is_translated { format!("{native} > {translated}") } else { native });
        }
    }

    pub fn hits(&self, id: ProbeId) -> u64 {
        self.hits[id.get() as usize].load(Ordering::Relaxed)
    }

    pub fn args(&self, id: ProbeId) -> [u64; 6] {
        std::array::from_fn(|i| self.args[id.get() as usize][i].load(Ordering::Relaxed))
    }
}

/// Has the sites of a probe trap or jump.
pub fn set_mode(probe: &Probe, mode: Mode) {
    // SAFETY: no caller is in a hit, or holds anything.
    unsafe { sdt_core::patch::set_mode(probe, mode) }.expect("text can be written to");
}

/// Whether text can be written to.
pub static WRITABLE: AtomicBool = AtomicBool::new(true);

/// What was refused last.
pub static REFUSED: Mutex<Option<PatchError>> = Mutex::new(None);

/// The text of all sites of a probe.
pub fn site_bytes(probe: &Probe) -> Vec<[u8; 5]> {
    // SAFETY: the sites are instructions of this program.
    probe.sites().map(|site| unsafe { *(site.patchpoint() as *const [u8; 5]) }).collect()
}

/// Makes this process a host: what enabled sites need.
pub fn host() {
    hook_sigtrap();
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE);
}

/// Tries to attach this process's probes to a new recorder.
pub fn try_attach(mode: Mode) -> Result<&'static Recorder, AttachError> {
    host();
    let recorder: &'static Recorder = Box::leak(Box::default());
    let attachment = Attachment { framework: recorder, patcher: &Text, mode, module: c"test" };
    // SAFETY: the handler above consults `resume_address`, and this program is never unloaded.
    unsafe { attach::attach(Box::leak(Box::new(attachment))) }?;
    Ok(recorder)
}

/// Attaches this process's probes to a new recorder.
pub fn attach(mode: Mode) -> &'static Recorder {
    try_attach(mode).unwrap()
}
