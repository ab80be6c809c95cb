//! `sdt_pops`: the operations of SDT's providers. DTrace calls them with its lock held, except `getargval`.

use alloc::vec::Vec;
use core::ffi::{c_int, c_void};

use dtrace_abi::site::Code;
use sdt_core::ops::{ARG_NONE, ArgDesc, Name, ProbeDesc, ProviderOps};
use sdt_framework::Host;

use super::{Machdep, Probes, Sdt, Tracepoint};
use crate::loader::Machine;

/// The index of the sixth argument of a probe, which `dtrace_probe` does not pass.
const SIXTH: c_int = 5;

/// Returns the ops table. FreeBSD's table has no `getargval` before 15; here, `sixth_argument` returns 0 for these releases.
pub(super) fn table<H: Host, M: Machdep>() -> ProviderOps {
    ProviderOps {
        provide: Some(provide),
        provide_module: None,
        enable: Some(enable::<H, M>),
        disable: Some(disable::<H, M>),
        suspend: None,
        resume: None,
        getargdesc: Some(getargdesc::<H, M>),
        getargval: Some(getargval::<H, M>),
        usermode: None,
        destroy: Some(destroy::<H, M>),
    }
}

/// Converts the `arg` of an op.
///
/// # Safety
/// `arg` is the pointer with which [`Sdt`] registered its providers.
unsafe fn sdt<'a, H: Host, M>(arg: *mut c_void) -> &'a Sdt<H, M> {
    // SAFETY: `arg` is the `Sdt` that `create_provider` registered, which is static.
    unsafe { &*arg.cast_const().cast() }
}

/// Does nothing: the probes are created when a file is loaded.
unsafe extern "C" fn provide(_arg: *mut c_void, _desc: *const ProbeDesc) {}

unsafe extern "C" fn enable<H: Host, M: Machdep>(
    arg: *mut c_void,
    id: u32,
    record: *mut c_void,
) -> c_int {
    // SAFETY: an op's contract.
    unsafe { sdt::<H, M>(arg) }.enable(id, record as u64);
    0
}

unsafe extern "C" fn disable<H: Host, M: Machdep>(arg: *mut c_void, id: u32, record: *mut c_void) {
    // SAFETY: an op's contract.
    unsafe { sdt::<H, M>(arg) }.disable(id, record as u64);
}

unsafe extern "C" fn getargdesc<H: Host, M: Machdep>(
    arg: *mut c_void,
    _id: u32,
    record: *mut c_void,
    desc: *mut ArgDesc,
) {
    // SAFETY: an op's contract: `arg` is our `Sdt`, and `desc` is valid and not shared.
    let (sdt, desc) = unsafe { (sdt::<H, M>(arg), &mut *desc) };
    sdt.describe_argument(record as u64, desc);
}

/// `sdt_getargval` of FreeBSD 15: arguments after the sixth are not supported. Probe context.
unsafe extern "C" fn getargval<H: Host, M: Machdep>(
    arg: *mut c_void,
    _id: u32,
    _record: *mut c_void,
    argno: c_int,
    _aframes: c_int,
) -> u64 {
    // SAFETY: an op's contract.
    let sdt = unsafe { sdt::<H, M>(arg) };
    if argno == SIXTH { sdt.machdep.sixth_argument() } else { 0 }
}

/// Removes the probe's id from its record's entry in `probes`. FreeBSD's `sdt_destroy` does nothing.
unsafe extern "C" fn destroy<H: Host, M: Machdep>(arg: *mut c_void, id: u32, record: *mut c_void) {
    // SAFETY: an op's contract.
    let sdt = unsafe { sdt::<H, M>(arg) };
    if let Some(probe) = sdt.probes.lock().all.get_mut(&(record as u64)) {
        probe.created = probe.created.filter(|created| created.get() != id);
    }
}

impl<H: Host, M: Machdep> Sdt<H, M> {
    /// Stores the id into the record, then patches the tracepoints (`sdt_enable`).
    fn enable(&self, id: u32, record: u64) {
        self.update(id, record, true);
    }

    /// Restores the tracepoints, then clears the id in the record (`sdt_disable`).
    fn disable(&self, id: u32, record: u64) {
        self.update(id, record, false);
    }

    fn update(&self, id: u32, record: u64, enable: bool) {
        let Probes { all, enabled } = &mut *self.probes.lock();
        let Some(probe) = all.get_mut(&record) else {
            // When a file is unloaded, FreeBSD destroys only the probes with the name of the file's module. A probe with another
            // module name outlives its record.
            self.machdep.print(format_args!(
                "sdt: the record of probe {id} at {record:#x} is gone with its file: FreeBSD would write there"
            ));
            return;
        };
        let Some(content) = &probe.content else { return };
        let sites = sites(&probe.tracepoints, self.machdep.machine(), enable);
        if enable {
            // SAFETY: the file is mapped while `probes` contains its record, and `Records::read` has checked that the record is
            // data.
            unsafe { self.machdep.write(content.id, id.into()) };
        }
        probe.enabled = enable;
        let before = *enabled;
        *enabled = if enable { before + 1 } else { before - 1 };
        if enable && before == 0 {
            self.machdep.set_probes_enabled(true);
        }
        if !sites.is_empty() {
            // SAFETY: `Records::read` has checked that the tracepoints are code of files; `unlink` removes the tracepoints before
            // their file is unmapped.
            unsafe { self.machdep.patch(&sites) };
        }
        if !enable {
            if before == 1 {
                self.machdep.set_probes_enabled(false);
            }
            // SAFETY: the file is mapped while `probes` contains its record, and the record is data.
            unsafe { self.machdep.write(content.id, 0) };
        }
    }

    /// `sdt_getargdesc`.
    fn describe_argument(&self, record: u64, desc: &mut ArgDesc) {
        let probes = self.probes.lock();
        let argtypes = probes.all.get(&record).map_or(&[][..], |probe| &probe.argtypes[..]);
        if usize::try_from(desc.ndx).is_ok_and(|ndx| ndx >= argtypes.len()) {
            desc.ndx = ARG_NONE;
            return;
        }
        for (_, argtype) in argtypes.iter().filter(|(_, argtype)| argtype.ndx == desc.ndx) {
            desc.mapping = desc.ndx;
            let native = argtype.native.as_deref();
            desc.native = Name::cut(native.unwrap_or_default().to_bytes());
            if native.is_none() {
                desc.xlate = Name::EMPTY;
            } else if let Some(translated) = &argtype.translated {
                desc.xlate = Name::cut(translated.to_bytes());
            }
        }
    }
}

/// Returns the new text of the tracepoints.
fn sites(tracepoints: &[(u32, Tracepoint)], machine: Machine, enable: bool) -> Vec<(u64, Code)> {
    let tracepoints = tracepoints.iter().map(|(_, tracepoint)| tracepoint);
    let code = |tracepoint: &Tracepoint| match enable {
        true => tracepoint.jump(machine),
        false => Tracepoint::nop(machine),
    };
    tracepoints.map(|tracepoint| (tracepoint.patchpoint, code(tracepoint))).collect()
}
