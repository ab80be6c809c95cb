//! The system that this kernel stands in for: FreeBSD, until the host asks for illumos. What differs between them is
//! behind one trait.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::ffi::{CStr, c_int};

use sdt_framework::kernel::Symbol;
use sdt_protocol::{Module, Refusal};
use spin::Once;
use stand_in_base::image::{Protection, Segment};
use stand_in_freebsd::errno::{EBUSY, EINVAL};
use stand_in_illumos::marking::Marking;

use crate::arch::TrapFrame;
use crate::freebsd::{self, FreeBsd};
#[cfg(target_arch = "x86_64")]
use crate::illumos;
use crate::sites::FiringSite;

/// A system, by what it does in its own way.
pub(crate) trait System: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Loads a module's file, as kldload(8) or modload(8).
    ///
    /// # Errors
    /// The system refuses the file; everything is as it was.
    fn load(&self, file: &str, bytes: &[u8]) -> Result<(), Refusal>;

    /// Unloads a module, as kldunload(8) or modunload(8).
    ///
    /// # Errors
    /// There is none of this name, or the module or the system refuses; the module stays loaded then.
    fn unload(&self, file: &str) -> Result<(), Refusal>;

    /// All loaded modules, in the order in which the system lists them.
    fn modules(&self) -> Vec<Module>;

    /// Returns the address of a module and the protections of its segments.
    ///
    /// # Errors
    /// There is none of this name.
    fn segments(&self, file: &str) -> Result<(u64, Vec<Segment>), Refusal>;

    /// Executes an image in a process of this CPU, as far as modules see it. Interrupts are on.
    fn execute(&self, pid: u32, path: &CStr);

    /// Writes to a sysctl, as sysctl(8): what fires a module's probe by hand.
    ///
    /// # Errors
    /// There is no such sysctl, or its handler refuses.
    fn write_sysctl(&self, name: &str, value: &str) -> Result<(), Refusal> {
        let _ = value;
        Err(refusal(EINVAL, &format_args!("{name}: {} has no sysctls", self.name())))
    }

    /// The data of a kstat, as kstat(8) reads it: what fires a module's probe by hand.
    ///
    /// # Errors
    /// There is no such kstat, or its module refuses.
    fn read_kstat(&self, name: &str) -> Result<Vec<u8>, Refusal> {
        Err(refusal(EINVAL, &format_args!("{name}: {} has no kstats", self.name())))
    }

    /// The sites of a probe that this kernel can find in loaded modules, in order of address. Only the CPU
    /// that serves consumers calls this, and only that CPU patches.
    fn sites(&self, probe: u32) -> Vec<FiringSite>;

    /// Shows what stands at an address of a loaded module's, and says whether it is one. Called by threads.
    fn symbol(&self, address: u64, show: &mut dyn FnMut(Symbol<'_>)) -> bool;

    /// Asks the handlers of DTrace's providers to claim a trap, and returns the answer of the one that does: the instruction to
    /// emulate. Returns 0 if none does. A handler may change the frame. Interrupts off, probe context.
    ///
    /// # Safety
    /// The trap is the one that this CPU is in.
    unsafe fn trap(&self, trap: Trap<'_>) -> c_int;
}

/// An instruction that has trapped in the kernel.
#[derive(Debug)]
pub(crate) struct Trap<'a> {
    /// Its address.
    pub(crate) address: u64,
    /// It is a breakpoint; else there is no such instruction.
    pub(crate) breakpoint: bool,
    /// The registers.
    pub(crate) frame: &'a mut TrapFrame,
    /// FreeBSD's third argument to a handler, which the architecture defines.
    pub(crate) third: u64,
}

/// The system that the host has asked for.
static CHOSEN: Once<&dyn System> = Once::new();

/// The system that this is now. Any context.
pub(crate) fn current() -> &'static dyn System {
    CHOSEN.get().copied().unwrap_or(&FreeBsd)
}

/// Makes this a release of FreeBSD, by its `__FreeBSD_version`.
///
/// # Errors
/// It is illumos already, there is no such release, or modules are loaded.
pub(crate) fn become_freebsd(version: i32) -> Result<(), Refusal> {
    if CHOSEN.is_completed() {
        return Err(refusal(EBUSY, &"this is illumos's kernel already"));
    }
    freebsd::set_version(version)
}

/// Makes this illumos for good.
///
/// # Errors
/// There is no illumos for this machine, modules of FreeBSD's are loaded, it is illumos with other sites already, or the
/// framework has no room for the providers.
#[cfg(target_arch = "x86_64")]
pub(crate) fn become_illumos(marking: Marking) -> Result<(), Refusal> {
    if !CHOSEN.is_completed() && !FreeBsd.modules().is_empty() {
        return Err(refusal(EBUSY, &"a module of FreeBSD's is loaded"));
    }
    let system = illumos::choose(marking)?;
    CHOSEN.call_once(|| system);
    Ok(())
}

/// Makes this illumos for good.
///
/// # Errors
/// Always: there is no illumos for this machine.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn become_illumos(_: Marking) -> Result<(), Refusal> {
    Err(refusal(EINVAL, &"illumos is not there for this machine"))
}

/// Returns the text of a module as it is now.
///
/// # Errors
/// There is none of this name.
pub(crate) fn read_text(file: &str) -> Result<Vec<u8>, Refusal> {
    let (base, segments) = current().segments(file)?;
    let mut bytes = Vec::new();
    for segment in segments.iter().filter(|segment| segment.protection == Protection::Execute) {
        let start = (base + segment.offset as u64) as *const u8;
        // SAFETY: the module is mapped, and only this CPU, which is here, unloads modules. Its text may be
        // patched meanwhile, a byte at a time or with all other CPUs stopped.
        bytes.extend((0..segment.size).map(|at| unsafe { start.add(at).read_volatile() }));
    }
    Ok(bytes)
}

/// A refusal, in the words of its reason.
pub(crate) fn refusal(errno: i32, why: &dyn core::fmt::Display) -> Refusal {
    Refusal { errno, message: why.to_string() }
}
