//! The ops of the provider `fbt`.

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::sync::atomic::Ordering;

use sdt_core::ops::{
    Attribute, Class, FrameworkError, Privileges, ProbeDesc, ProviderAttr, ProviderId, ProviderOps,
    Stability,
};

use super::accept::text_is;
use super::arch;
use super::sites::{Probe, Site, Sites};
use super::table::Table;
use super::text::FunctionText;
use crate::base::host::Host;
use crate::control::Control;

const PRIVATE: Attribute = Attribute::new(Stability::Private, Stability::Private, Class::Unknown);
const EVOLVING: Attribute = Attribute::new(Stability::Evolving, Stability::Evolving, Class::Isa);

/// The attributes of fbt's probes in DTrace's fbt.c.
const ATTRIBUTES: ProviderAttr = ProviderAttr {
    provider: EVOLVING,
    module: PRIVATE,
    function: PRIVATE,
    name: EVOLVING,
    args: PRIVATE,
};

/// The ops, for a pointer to a static framework. `parg` is the index of a probe in the table.
const fn ops<H: Host>() -> ProviderOps {
    ProviderOps {
        provide: Some(provide),
        enable: Some(enable::<H>),
        disable: Some(disable::<H>),
        destroy: Some(destroy::<H>),
        ..ProviderOps::INERT
    }
}

/// Returns the framework of an op.
///
/// # Safety
/// `arg` is the `arg` of an op here: `register_function_provider` registers the address of a static `Control<H>`.
unsafe fn framework<H: Host>(arg: *mut c_void) -> &'static Control<H> {
    // SAFETY: `arg` is the address of a static `Control<H>`, by the contract of this function.
    unsafe { &*arg.cast_const().cast() }
}

/// Consumers send the functions, so there is nothing to provide.
unsafe extern "C" fn provide(_: *mut c_void, _: *const ProbeDesc) {}

unsafe extern "C" fn enable<H: Host>(arg: *mut c_void, id: u32, parg: *mut c_void) -> c_int {
    // SAFETY: the framework passes the registered `arg`.
    unsafe { framework::<H>(arg) }.enable_function(id, parg.addr());
    0
}

unsafe extern "C" fn disable<H: Host>(arg: *mut c_void, _id: u32, parg: *mut c_void) {
    // SAFETY: the framework passes the registered `arg`.
    unsafe { framework::<H>(arg) }.disable_function(parg.addr());
}

unsafe extern "C" fn destroy<H: Host>(arg: *mut c_void, _id: u32, parg: *mut c_void) {
    // SAFETY: the framework passes the registered `arg`.
    let this = unsafe { framework::<H>(arg) };
    if let Some(table) = this.functions.get() {
        table.retire(parg.addr());
        table.sites.free_probe(parg.addr());
    }
}

impl Table {
    /// Removes the sites of a probe, except those whose text could not be restored.
    pub(super) fn retire(&self, index: usize) {
        self.sites.retire(index, |site| !self.release(site));
    }

    /// Returns whether a site can be removed: its text is restored, or another site replaces it. If so, takes its offer back.
    fn release(&self, site: &Site) -> bool {
        let is_free = !self.is_changed(site) || self.is_replaced(site);
        if is_free && self.sites.at(site.address()).count() == 1 {
            self.text.withdraw(site.address());
        }
        is_free
    }

    /// Returns whether a site is in the table without a probe.
    fn is_abandoned(&self, site: &Site) -> bool {
        self.sites.probe(site.probe()).is_none()
    }

    /// Returns whether an enabled probe has a site at the address of this one.
    fn is_replaced(&self, site: &Site) -> bool {
        self.sites.at(site.address()).any(|other| {
            let probe = self.sites.probe(other.probe());
            probe.is_some_and(|probe| probe.id.load(Ordering::Relaxed) != 0)
        })
    }

    /// Returns whether the text at a site has a breakpoint or a jump: the probe is enabled, or the host could not restore the text.
    fn is_changed(&self, site: &Site) -> bool {
        let code = site.code();
        let head = arch::breakpoint(code.bytes());
        // SAFETY: `accept` has checked that this is text, which stays mapped.
        let has_breakpoint =
            || !code.bytes().starts_with(head) && unsafe { text_is(site.address(), head) };
        self.text.holds_jump(site.address()) || has_breakpoint()
    }

    /// Returns whether the host can write to a site.
    fn is_writable(&self, site: &Site) -> bool {
        let length = arch::breakpoint(site.code().bytes()).len();
        self.text.patcher().is_writable(site.address() as usize, length)
    }

    /// Stores the first bytes of a site: the breakpoint, or those of the instruction.
    fn store(&self, site: &Site, breakpoint: bool) {
        let code = site.code();
        let head = arch::breakpoint(code.bytes());
        let original = code.bytes().get(..head.len()).unwrap_or_default();
        let bytes = if breakpoint { head } else { original };
        // SAFETY: `accept` has checked that this is the first byte or word of an instruction of traceable text, and that the
        // host can write to it. Either value of it, with the bytes behind it, is an instruction.
        unsafe { self.text.patcher().store(site.address() as usize, bytes) };
    }
}

impl<H: Host> Control<H> {
    /// [`Dtrace::register_functions`](crate::Dtrace::register_functions).
    pub(crate) fn register_functions(
        &'static self,
        text: &'static dyn FunctionText,
        sites: usize,
    ) -> Result<(), FrameworkError> {
        if !arch::IS_SUPPORTED || text.build_id().is_empty() {
            return Err(FrameworkError::Invalid);
        }
        if self.functions.is_claimed.swap(true, Ordering::Relaxed) {
            return Err(FrameworkError::Busy);
        }
        let table = self.create_functions(text, sites).inspect_err(|_| {
            self.functions.is_claimed.store(false, Ordering::Relaxed);
        })?;
        self.functions.table.call_once(|| table);
        Ok(())
    }

    fn create_functions(
        &'static self,
        text: &'static dyn FunctionText,
        sites: usize,
    ) -> Result<Table, FrameworkError> {
        self.shared().map_err(|_| FrameworkError::NotReady)?;
        let provider = self.register_function_provider(text)?;
        let made = Sites::new(&mut self.tables.lock().arena, sites);
        let Some(sites) = made else {
            self.invalidate(provider);
            self.unregister(provider)?;
            return Err(FrameworkError::Full);
        };
        Ok(Table { provider, text, sites })
    }

    /// Returns the traceable text, and the number of further sites for which there is room.
    pub(crate) fn function_text(&self) -> Option<(&'static dyn FunctionText, usize)> {
        let table = self.functions.get()?;
        let _tables = self.tables.lock();
        Some((table.text, table.sites.left()))
    }

    fn register_function_provider(
        &'static self,
        text: &dyn FunctionText,
    ) -> Result<ProviderId, FrameworkError> {
        let arg = core::ptr::from_ref(self).cast_mut().cast();
        // SAFETY: the ops expect the address of a static `Control<H>`, and `arg` is the address of `self`.
        unsafe { self.register(text.provider(), &ATTRIBUTES, Privileges::KERNEL, &ops::<H>(), arg) }
    }

    fn enable_function(&self, id: u32, index: usize) {
        let Some(table) = self.functions.get() else { return };
        let Some(probe) = table.sites.probe(index) else { return };
        // Computed before the probe's id is set, because `is_replaced` checks the ids of enabled probes.
        let new = || table.sites.of(probe).filter(|site| !table.is_replaced(site));
        if !new().all(|site| table.is_writable(site)) {
            // The probe has no hits. The host reports why.
            return;
        }
        let mut any = false;
        for site in new() {
            table.store(site, true);
            any = true;
        }
        // A hit before this store is emulated, but not recorded.
        probe.id.store(id, Ordering::Release);
        if any {
            self.functions.stored();
        }
    }

    /// [`Dtrace::remove_functions`](crate::Dtrace::remove_functions).
    pub(crate) fn remove_functions(&self, range: &Range<u64>) {
        let Some(table) = self.functions.get() else { return };
        let _tables = self.tables.lock();
        let is_meant = |site: &Site| range.contains(&site.address());
        self.functions.batch(|| {
            for site in table.sites.all().filter(|site| is_meant(site)) {
                if table.is_changed(site) && table.is_writable(site) {
                    table.store(site, false);
                    self.functions.stored();
                }
            }
        });
        for site in table.sites.all().filter(|site| is_meant(site)) {
            table.text.withdraw(site.address());
        }
        self.remove_sites(table, is_meant);
    }

    /// Restores the text of sites whose consumers have closed while the host could not restore it, and removes these sites.
    pub(super) fn remove_abandoned(&self) {
        let Some(table) = self.functions.get() else { return };
        let _tables = self.tables.lock();
        if !table.sites.has_abandoned() {
            return;
        }
        self.functions.batch(|| {
            for site in table.sites.all().filter(|site| table.is_abandoned(site)) {
                // The host removes jumps when it synchronises.
                let has_breakpoint = table.is_changed(site)
                    && !table.is_replaced(site)
                    && !table.text.holds_jump(site.address());
                if has_breakpoint && table.is_writable(site) {
                    table.store(site, false);
                }
            }
            self.functions.stored();
        });
        self.remove_sites(table, |site| table.is_abandoned(site) && table.release(site));
    }

    /// Removes the sites for which `which` is true. The framework is locked.
    fn remove_sites(&self, table: &Table, which: impl Fn(&Site) -> bool) {
        table.sites.retire_each(which);
        // Waits until no breakpoint handler reads the sites.
        self.hits.host.sync();
        table.sites.reclaim();
    }

    /// Replaces the instruction of a site that was added to an enabled probe.
    pub(super) fn enable_new_site(&self, table: &Table, probe: &Probe, site: &Site) {
        if probe.id.load(Ordering::Relaxed) != 0 && table.is_writable(site) {
            table.store(site, true);
            self.functions.stored();
        }
    }

    fn disable_function(&self, index: usize) {
        let Some(table) = self.functions.get() else { return };
        let Some(probe) = table.sites.probe(index) else { return };
        // A CPU that is already in the handler sees 0: it emulates the instruction and records nothing.
        probe.id.store(0, Ordering::Release);
        let mut any = false;
        for site in table.sites.of(probe).filter(|site| !table.is_replaced(site)) {
            // If the host cannot write to it now, the breakpoint stays, and so does the site.
            if table.is_changed(site) && table.is_writable(site) {
                table.store(site, false);
                any = true;
            }
        }
        if any {
            self.functions.stored();
        }
    }
}
