//! The module `sdt` with its 22 providers, for the probes that krtld has found (`usr/src/uts/intel/dtrace/sdt.c`).

use alloc::boxed::Box;
use alloc::ffi::CString;
use core::ffi::{CStr, c_int, c_void};
use core::fmt;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use sdt_core::ops::{
    ARG_NONE, ArgDesc, Framework, FrameworkError, Name, ProbeId, ProviderId, ProviderOps,
};
use sdt_framework::ARGS;

use super::marking::Marking;
use super::modctl::{ModCtl, linked_of, sites_of};
use super::providers::{PROVIDERS, name_of};
use super::regs::Regs;

/// Frames between `dtrace_probe` and the function that fired.
const AFRAMES: u32 = 3;

/// The result of `sdt_mode`: the probe fires in the kernel, and a consumer without the privilege to trace the kernel gets no
/// data.
const MODE: c_int = 0x51;

/// The part of the machine that `sdt` uses.
pub trait Machine: Sync + fmt::Debug {
    /// Reads a byte of a module's text.
    ///
    /// # Safety
    /// The text is mapped.
    unsafe fn load(&self, address: u64) -> u8;
    /// Stores a byte to a module's text.
    ///
    /// # Safety
    /// The text is mapped, and other CPUs may execute the new bytes.
    unsafe fn store(&self, address: u64, byte: u8);
    /// The way in which sites are enabled.
    fn marking(&self) -> Marking {
        Marking::default()
    }
    /// Returns the registers at the trap that this CPU is handling; `None` if no site has caused a trap. Probe context.
    fn regs(&self) -> Option<Regs>;
}

/// A site (`sdt_probe_t`). It is in the chain of its probe's sites, and in the list of all sites.
#[derive(Debug)]
struct Patchpoint {
    id: AtomicU32,
    ctl: &'static ModCtl,
    /// The module's load count when the site was found.
    loadcnt: i32,
    /// The address of the byte that `sdt` stores to enable the site. The CPU traps at this address.
    patchpoint: u64,
    /// The original byte at the patchpoint.
    saved: u8,
    /// Whether the types of the probe's arguments are known.
    typed: bool,
    /// The next site of the same probe.
    next: AtomicPtr<Patchpoint>,
    /// The next site in the list of all sites.
    list: AtomicPtr<Patchpoint>,
}

/// The state of `sdt`.
#[derive(Debug)]
pub struct Sdt {
    machine: &'static dyn Machine,
    /// The ids of the providers; 0 before they are registered.
    ids: [AtomicUsize; PROVIDERS.len()],
    /// The list of all sites. A CPU may walk the list at any time, so sites are never freed.
    sites: AtomicPtr<Patchpoint>,
}

impl Sdt {
    /// Creates the state before [`attach`](Self::attach).
    pub const fn new(machine: &'static dyn Machine) -> Self {
        Self {
            machine,
            ids: [const { AtomicUsize::new(0) }; PROVIDERS.len()],
            sites: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Registers all providers (`sdt_attach`).
    ///
    /// # Errors
    /// If the framework refuses a provider. The providers before it stay registered.
    pub fn attach(&'static self, framework: &'static dyn Framework) -> Result<(), FrameworkError> {
        let context = Box::leak(Box::new(Context { sdt: self, framework }));
        for (provider, id) in PROVIDERS.iter().zip(&self.ids) {
            let users = provider.privileges.contains(sdt_core::ops::Privileges::USER);
            let ops = ProviderOps { usermode: users.then_some(mode), ..OPS };
            let arg = (&raw mut *context).cast();
            // SAFETY: the ops of this module expect a `Context` as their `arg`, and the context is leaked.
            let registered = unsafe {
                framework.register(
                    provider.name,
                    &provider.attributes,
                    provider.privileges,
                    &ops,
                    arg,
                )
            }?;
            id.store(registered.get(), Ordering::Release);
        }
        Ok(())
    }

    /// Returns the id of the probe whose site has its patchpoint at `address` (`sdt_invop`). Probe context.
    pub fn probe_at(&self, address: u64) -> Option<u32> {
        let mut site = self.sites.load(Ordering::Acquire);
        // SAFETY: no site is ever freed.
        while let Some(at) = unsafe { site.as_ref() } {
            // The address of a site of an unloaded module may now belong to another module.
            if at.patchpoint == address && at.is_live() {
                return Some(at.id.load(Ordering::Relaxed));
            }
            site = at.list.load(Ordering::Acquire);
        }
        None
    }

    /// Creates the probes of a module (`sdt_provide_module`). All sites with the same name in the same function are one probe.
    fn provide(&self, framework: &dyn Framework, ctl: &'static ModCtl) {
        if self.ids.iter().any(|id| id.load(Ordering::Acquire) == 0) {
            return;
        }
        // SAFETY: called while the module is being loaded.
        let Some(linked) = (unsafe { linked_of(ctl) }) else { return };
        let loadcnt = ctl.loadcnt.load(Ordering::Relaxed);
        for (found, function) in sites_of(linked) {
            if self.probe_at(found.address).is_some() {
                // A call for another provider has already created all probes of the module.
                return;
            }
            let (provider, name) = name_of(&found.name);
            let typed = PROVIDERS[provider].name == c"io" && IO_PROBES.contains(&&*name);
            let provider = ProviderId::new(self.ids[provider].load(Ordering::Relaxed));
            let (Ok(function), Ok(name)) = (CString::new(function), CString::new(name)) else {
                continue;
            };
            let site = Box::leak(Box::new(Patchpoint {
                id: AtomicU32::new(0),
                ctl,
                loadcnt,
                patchpoint: found.address,
                // SAFETY: the module is mapped, and krtld has found the site in its text.
                saved: unsafe { self.machine.load(found.address) },
                typed,
                next: AtomicPtr::new(core::ptr::null_mut()),
                list: AtomicPtr::new(self.sites.load(Ordering::Relaxed)),
            }));
            let parg: *mut Patchpoint = site;
            // SAFETY: the provider is registered.
            let lookup =
                || unsafe { framework.probe_lookup(provider, ctl.name(), &function, &name) };
            let id = match lookup() {
                Some(id) => {
                    self.chain(id, site);
                    id
                }
                None => {
                    let arg = parg.cast();
                    // SAFETY: the provider is registered, and `parg` is a site, which is never freed.
                    match unsafe {
                        framework.probe_create(provider, ctl.name(), &function, &name, AFRAMES, arg)
                    } {
                        Ok(id) => id,
                        // The table is full: the site remains a nop.
                        Err(_) => continue,
                    }
                }
            };
            site.id.store(id.get(), Ordering::Relaxed);
            self.sites.store(parg, Ordering::Release);
        }
    }

    /// Inserts a site into the chain of its probe, after the first site.
    fn chain(&self, id: ProbeId, site: &'static Patchpoint) {
        let mut at = self.sites.load(Ordering::Acquire);
        let mut first = None;
        // SAFETY: no site is ever freed.
        while let Some(other) = unsafe { at.as_ref() } {
            if other.id.load(Ordering::Relaxed) == id.get() && other.is_live() {
                // The last match in the list is the oldest site of the probe, which the framework has as the probe's argument.
                first = Some(other);
            }
            at = other.list.load(Ordering::Acquire);
        }
        if let Some(first) = first {
            site.next.store(first.next.load(Ordering::Relaxed), Ordering::Relaxed);
            first.next.store((&raw const *site).cast_mut(), Ordering::Release);
        }
    }
}

impl Patchpoint {
    /// Returns whether the module is loaded, and has not been reloaded since the site was found.
    fn is_live(&self) -> bool {
        self.ctl.is_loaded() && self.ctl.loadcnt.load(Ordering::Relaxed) == self.loadcnt
    }

    /// Stores a byte at all sites of the probe; does nothing if the module has been unloaded.
    fn patch(&self, machine: &dyn Machine, byte: impl Fn(&Self) -> u8) {
        if !self.is_live() {
            return;
        }
        let mut at = Some(self);
        while let Some(site) = at {
            // SAFETY: the module is loaded. With either byte, the site is executable: as nops, or as an instruction that traps.
            unsafe { machine.store(site.patchpoint, byte(site)) };
            // SAFETY: no site is ever freed.
            at = unsafe { site.next.load(Ordering::Acquire).as_ref() };
        }
    }
}

/// The `arg` of the ops.
struct Context {
    sdt: &'static Sdt,
    framework: &'static dyn Framework,
}

/// The ops of all providers. `attach` sets `usermode` for the providers that users may enable.
const OPS: ProviderOps = ProviderOps {
    provide: None,
    provide_module: Some(provide_module),
    enable: Some(enable),
    disable: Some(disable),
    suspend: None,
    resume: None,
    getargdesc: Some(getargdesc),
    getargval: Some(getargval),
    usermode: None,
    destroy: Some(destroy),
};

/// # Safety
/// `arg` is the context of [`Sdt::attach`], `module` a [`ModCtl`] of a module that is being loaded.
unsafe extern "C" fn provide_module(arg: *mut c_void, module: *mut c_void) {
    // SAFETY: `arg` is the context of `attach`, and `module` the `ModCtl` of a module that is being loaded.
    let (context, ctl) = unsafe { (&*arg.cast::<Context>(), &*module.cast::<ModCtl>()) };
    context.sdt.provide(context.framework, ctl);
}

/// # Safety
/// `arg` is the context of [`Sdt::attach`], `parg` the probe's first site.
unsafe extern "C" fn enable(arg: *mut c_void, _id: u32, parg: *mut c_void) -> c_int {
    // SAFETY: `arg` is the context of `attach`, and `parg` a site, which is never freed.
    let (context, site) = unsafe { (&*arg.cast::<Context>(), &*parg.cast::<Patchpoint>()) };
    site.ctl.nenabled.fetch_add(1, Ordering::AcqRel);
    let machine = context.sdt.machine;
    site.patch(machine, |_| machine.marking().enabled());
    0
}

/// # Safety
/// `arg` is the context of [`Sdt::attach`], `parg` the probe's first site.
unsafe extern "C" fn disable(arg: *mut c_void, _id: u32, parg: *mut c_void) {
    // SAFETY: `arg` is the context of `attach`, and `parg` a site, which is never freed.
    let (context, site) = unsafe { (&*arg.cast::<Context>(), &*parg.cast::<Patchpoint>()) };
    site.ctl.nenabled.fetch_sub(1, Ordering::AcqRel);
    site.patch(context.sdt.machine, |site| site.saved);
}

/// The probes of `io` whose arguments have types (`sdt_args` of `usr/src/uts/common/dtrace/sdt_subr.c`). D sees three arguments,
/// each translated from the first argument of the call. A module's probe with one of these names has the same types.
const IO_PROBES: [&str; 4] = ["start", "done", "wait-start", "wait-done"];
const IO_NATIVE: &CStr = c"buf_t *";
const IO_TRANSLATED: [&CStr; 3] = [c"bufinfo_t *", c"devinfo_t *", c"fileinfo_t *"];

/// Describes an argument of a probe. illumos has a table of types for the probes of its kernel; this kernel has only the rows of
/// `io`.
///
/// # Safety
/// `parg` is the probe's first site, `desc` the description to fill.
unsafe extern "C" fn getargdesc(_: *mut c_void, _: u32, parg: *mut c_void, desc: *mut ArgDesc) {
    // SAFETY: `parg` is a site, which is never freed, and `desc` a description to fill.
    let (site, desc) = unsafe { (&*parg.cast::<Patchpoint>(), &mut *desc) };
    let translated = usize::try_from(desc.ndx).ok().and_then(|ndx| IO_TRANSLATED.get(ndx));
    let Some(translated) = translated.filter(|_| site.typed) else {
        desc.ndx = ARG_NONE;
        return;
    };
    desc.mapping = 0;
    desc.native = Name::cut(IO_NATIVE.to_bytes());
    desc.xlate = Name::cut(translated.to_bytes());
}

/// Returns an argument of the probe that is firing (`sdt_getarg`). As in illumos, the number of arguments is unknown.
///
/// # Safety
/// `arg` is the context of [`Sdt::attach`]. Probe context.
unsafe extern "C" fn getargval(
    arg: *mut c_void,
    _id: u32,
    _parg: *mut c_void,
    argno: c_int,
    _aframes: c_int,
) -> u64 {
    // SAFETY: `arg` is the context of `attach`.
    let context = unsafe { &*arg.cast::<Context>() };
    let argno = usize::try_from(argno).ok().filter(|&argno| argno < ARGS);
    let (Some(regs), Some(argno)) = (context.sdt.machine.regs(), argno) else { return 0 };
    // SAFETY: a site of the probe caused the trap. The four words at the top of the stack are mapped, even if they are not
    // arguments: the kernel called the module's function, so at least the kernel's own frames are above.
    unsafe { regs.argument(argno) }
}

unsafe extern "C" fn mode(_arg: *mut c_void, _id: u32, _parg: *mut c_void) -> c_int {
    MODE
}

/// # Safety
/// `parg` is the probe's first site.
unsafe extern "C" fn destroy(_arg: *mut c_void, _id: u32, parg: *mut c_void) {
    // SAFETY: `parg` is a site, which is never freed.
    let site = unsafe { &*parg.cast::<Patchpoint>() };
    let mut at = Some(site);
    while let Some(site) = at {
        // The id is not the probe's any more.
        site.id.store(0, Ordering::Relaxed);
        // SAFETY: no site is ever freed.
        at = unsafe { site.next.load(Ordering::Acquire).as_ref() };
    }
}
