//! The system that this kernel stands in for: FreeBSD, unless the host selects illumos. One trait contains everything
//! that differs between them.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::{CStr, c_int};

use dtrace_protocol::SiteState;
use sdt_framework::kernel::Symbol;
use sdt_protocol::{Module, Refusal};
use spin::Once;
use stand_in_base::image::{Protection, Segment};
use stand_in_freebsd::errno::EINVAL;

use crate::arch::TrapFrame;

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
    /// No module has this name.
    fn segments(&self, file: &str) -> Result<(u64, Vec<Segment>), Refusal>;

    /// Executes an image in a process of this CPU, as far as modules see it. Interrupts are on.
    fn execute(&self, pid: u32, path: &CStr);

    /// Writes to a sysctl, as sysctl(8) does; this fires a module's probe on request.
    ///
    /// # Errors
    /// The sysctl does not exist, or its handler returned an error.
    fn write_sysctl(&self, name: &str, value: &str) -> Result<(), Refusal> {
        let _ = value;
        Err(refusal(EINVAL, &format_args!("{name}: {} has no sysctls", self.name())))
    }

    /// Returns the data of a kstat, as kstat(8) does; this fires a module's probe on request.
    ///
    /// # Errors
    /// The kstat does not exist, or its module returned an error.
    fn read_kstat(&self, name: &str) -> Result<Vec<u8>, Refusal> {
        Err(refusal(EINVAL, &format_args!("{name}: {} has no kstats", self.name())))
    }

    /// The sites of a probe that this kernel can find in loaded modules, in order of address. Only the CPU
    /// that serves consumers calls this, and only that CPU patches.
    fn sites(&self, probe: u32) -> Vec<FiringSite>;

    /// Passes the symbol at an address of a loaded module to its last argument, and returns whether the address belongs
    /// to a module. Called by threads.
    fn symbol(&self, address: u64, show: &mut dyn FnMut(Symbol<'_>)) -> bool;

    /// Asks the handlers of DTrace's providers to claim a trap, and returns the answer of the one that does: the instruction to
    /// emulate. Returns 0 if none does. A handler may change the frame. Interrupts off, probe context.
    ///
    /// # Safety
    /// The trap is the one that this CPU is in.
    unsafe fn trap(&self, trap: Trap<'_>) -> c_int;
}

/// A firing site of a probe.
#[derive(Debug)]
pub(crate) struct FiringSite {
    /// Its address.
    pub(crate) address: u64,
    /// The symbol of the function it is in, and the site's offset in it.
    pub(crate) function: Option<(String, u64)>,
    /// The instruction that it holds now.
    pub(crate) state: SiteState,
    /// Address of its cold block.
    pub(crate) target: u64,
    /// Whether a jump reaches that.
    pub(crate) in_reach: bool,
    /// Bytes that a jump reaches.
    pub(crate) reach: u64,
}

/// An instruction that has trapped in the kernel.
#[derive(Debug)]
pub(crate) struct Trap<'a> {
    /// Its address.
    pub(crate) address: u64,
    /// The trap is a breakpoint; otherwise it is an undefined instruction.
    pub(crate) breakpoint: bool,
    /// The registers.
    pub(crate) frame: &'a mut TrapFrame,
    /// FreeBSD's third argument to a handler, which the architecture defines.
    pub(crate) third: u64,
}

/// The system at first.
static FIRST: Once<&dyn System> = Once::new();
/// The system that the host has asked for.
static CHOSEN: Once<&dyn System> = Once::new();

/// Sets the system that this is until another one is chosen.
pub(crate) fn init(first: &'static dyn System) {
    FIRST.call_once(|| first);
}

/// Makes this kernel a system until the machine is reset.
#[cfg(target_arch = "x86_64")]
pub(crate) fn choose(system: &'static dyn System) {
    CHOSEN.call_once(|| system);
}

/// Returns whether a system has been chosen.
pub(crate) fn is_chosen() -> bool {
    CHOSEN.is_completed()
}

/// The system that this is now. Any context.
///
/// # Panics
/// Before [`init`].
pub(crate) fn current() -> &'static dyn System {
    *CHOSEN.get().or_else(|| FIRST.get()).expect("the first system is there before modules are")
}

/// Returns the text of a module as it is now.
///
/// # Errors
/// No module has this name.
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
