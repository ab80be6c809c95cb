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

/// An operating system that this kernel can behave like, with the operations that differ between the systems.
pub(crate) trait System: Sync {
    /// Returns the name of the system.
    fn name(&self) -> &'static str;

    /// Loads a module's file, like kldload(8) or modload(8).
    ///
    /// # Errors
    /// If the system refuses the file; its state is unchanged.
    fn load(&self, file: &str, bytes: &[u8]) -> Result<(), Refusal>;

    /// Unloads a module, like kldunload(8) or modunload(8).
    ///
    /// # Errors
    /// If no module has this name, or the module or the system refuses. In the latter case the module stays loaded.
    fn unload(&self, file: &str) -> Result<(), Refusal>;

    /// All loaded modules, in the order in which the system lists them.
    fn modules(&self) -> Vec<Module>;

    /// Returns the address of a module and the protections of its segments.
    ///
    /// # Errors
    /// No module has this name.
    fn segments(&self, file: &str) -> Result<(u64, Vec<Segment>), Refusal>;

    /// Executes an image in a process of this CPU: performs the steps that modules can observe. Interrupts are on.
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

    /// Calls the handlers of DTrace's providers until one claims the trap. Returns the result of that handler, which names the
    /// instruction to emulate; 0 if no handler claims the trap. A handler may change the frame. Interrupts off, probe context.
    ///
    /// # Safety
    /// This CPU is handling `trap` now.
    unsafe fn trap(&self, trap: Trap<'_>) -> c_int;
}

/// A firing site of a probe.
#[derive(Debug)]
pub(crate) struct FiringSite {
    /// The address of the site.
    pub(crate) address: u64,
    /// The symbol of the function that contains the site, and the offset of the site in the function.
    pub(crate) function: Option<(String, u64)>,
    /// The kind of instruction that is now at the site.
    pub(crate) state: SiteState,
    /// The address of the site's cold block.
    pub(crate) target: u64,
    /// Whether a jump from the site can reach the cold block.
    pub(crate) in_reach: bool,
    /// The maximum distance of a jump in bytes.
    pub(crate) reach: u64,
}

/// An instruction that has trapped in the kernel.
#[derive(Debug)]
pub(crate) struct Trap<'a> {
    /// The address of the instruction.
    pub(crate) address: u64,
    /// Whether the instruction is a breakpoint; otherwise it is an undefined instruction.
    pub(crate) breakpoint: bool,
    /// The registers.
    pub(crate) frame: &'a mut TrapFrame,
    /// FreeBSD's third argument to a handler, which the architecture defines.
    pub(crate) third: u64,
}

/// The default system.
static FIRST: Once<&dyn System> = Once::new();
/// The system that the host has selected, if any.
static CHOSEN: Once<&dyn System> = Once::new();

/// Sets the default system, which is in use until the host selects another one.
pub(crate) fn init(first: &'static dyn System) {
    FIRST.call_once(|| first);
}

/// Selects the system that this kernel behaves like until the machine is reset.
#[cfg(target_arch = "x86_64")]
pub(crate) fn choose(system: &'static dyn System) {
    CHOSEN.call_once(|| system);
}

/// Returns whether a system has been chosen.
pub(crate) fn is_chosen() -> bool {
    CHOSEN.is_completed()
}

/// Returns the system that this kernel behaves like. Any context.
///
/// # Panics
/// If [`init`] has not been called.
pub(crate) fn current() -> &'static dyn System {
    *CHOSEN.get().or_else(|| FIRST.get()).expect("the first system is there before modules are")
}

/// Returns the current contents of a module's text.
///
/// # Errors
/// No module has this name.
pub(crate) fn read_text(file: &str) -> Result<Vec<u8>, Refusal> {
    let (base, segments) = current().segments(file)?;
    let mut bytes = Vec::new();
    for segment in segments.iter().filter(|segment| segment.protection == Protection::Execute) {
        let start = (base + segment.offset as u64) as *const u8;
        // SAFETY: the module is mapped, and only this CPU unloads modules, so it is not unloaded during the loop. Other CPUs may
        // patch the text meanwhile, one byte at a time or with all other CPUs stopped, so the reads are volatile.
        bytes.extend((0..segment.size).map(|at| unsafe { start.add(at).read_volatile() }));
    }
    Ok(bytes)
}

/// Creates a refusal with an error number and the reason as its message.
pub(crate) fn refusal(errno: i32, why: &dyn core::fmt::Display) -> Refusal {
    Refusal { errno, message: why.to_string() }
}
