//! This kernel as illumos's: the machine's side of [`stand_in_illumos`], once the host has chosen it.

mod dtrace;
mod exec;
mod exports;
mod interrupts;
mod kstat;
mod locks;
mod machine;
mod trap;

use alloc::vec::Vec;
use core::ffi::{CStr, c_int};

use machine::Machine;
use sdt_framework::kernel::Symbol;
use sdt_protocol::{Module, Refusal};
use spin::Once;
use stand_in_base::image::Segment;
use stand_in_illumos::errno::{EBUSY, ENOENT};
use stand_in_illumos::marking::Marking;
use stand_in_illumos::modctl::{Info, Modules};
use stand_in_illumos::sdt::Sdt;

use crate::dtrace::DTRACE;
use crate::invop;
use crate::sites::FiringSite;
use crate::system::{System, Trap, refusal};

/// All loaded modules.
static MODULES: Modules<Machine> = Modules::new(Machine);

/// The provider of their probes.
static SDT: Sdt = Sdt::new(&Machine);

/// Once this kernel is illumos's: what becomes of probes' calls.
static MARKING: Once<Marking> = Once::new();

/// Returns how krtld marks the calls of probes. Probe context.
fn marking() -> Marking {
    MARKING.get().copied().unwrap_or_default()
}

/// Loads and attaches `drv/dtrace` and `drv/sdt`, once.
///
/// # Errors
/// They are there, with another marking, or the framework has no room for the providers.
pub(crate) fn choose(marking: Marking) -> Result<&'static dyn System, Refusal> {
    if !MARKING.is_completed() {
        SDT.attach(&DTRACE).map_err(|error| refusal(error.errno(), &error))?;
        MARKING.call_once(|| marking);
        invop::add(trap::sdt_invop);
    }
    if self::marking() != marking {
        return Err(refusal(EBUSY, &"this is illumos's kernel already, with other sites"));
    }
    Ok(&Illumos)
}

/// illumos.
#[derive(Debug)]
struct Illumos;

impl System for Illumos {
    fn name(&self) -> &'static str {
        "illumos"
    }

    fn load(&self, file: &str, bytes: &[u8]) -> Result<(), Refusal> {
        MODULES.load(file, bytes).map_err(|why| refused(&why))
    }

    fn unload(&self, file: &str) -> Result<(), Refusal> {
        MODULES.unload(file).map_err(|why| refused(&why))
    }

    fn modules(&self) -> Vec<Module> {
        let module =
            |of: Info| Module { id: of.id, file: of.name, address: of.base, size: of.size as u64 };
        MODULES.modules().into_iter().map(module).collect()
    }

    fn segments(&self, file: &str) -> Result<(u64, Vec<Segment>), Refusal> {
        let missing = || refusal(ENOENT, &format_args!("there is no module {file}"));
        MODULES.segments(file).ok_or_else(missing)
    }

    fn execute(&self, pid: u32, path: &CStr) {
        exec::execute(pid, path);
    }

    fn read_kstat(&self, name: &str) -> Result<Vec<u8>, Refusal> {
        kstat::read(name)
    }

    /// None: what a call became is known to `sdt` alone, and what a module patches itself to that module.
    fn sites(&self, _probe: u32) -> Vec<FiringSite> {
        Vec::new()
    }

    fn symbol(&self, address: u64, show: &mut dyn FnMut(Symbol<'_>)) -> bool {
        let Some((module, name, range)) = MODULES.symbol_at(address) else { return false };
        let (address, size) = (range.start, range.end - range.start);
        show(Symbol { module: module.as_bytes(), name: name.as_bytes(), address, size });
        true
    }

    unsafe fn trap(&self, trap: Trap<'_>) -> c_int {
        trap::invop(trap.frame)
    }
}

fn refused(why: &stand_in_illumos::refusal::Refusal) -> Refusal {
    refusal(why.errno(), why)
}
