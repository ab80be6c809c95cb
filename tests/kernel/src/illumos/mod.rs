//! The illumos half of the kernel: connects [`stand_in_illumos`] to the machine, after the host has selected illumos.

mod dtrace;
mod exec;
mod exports;
mod interrupts;
mod kstat;
mod locks;
mod machine;
mod sdt;
mod trap;

use alloc::vec::Vec;
use core::ffi::{CStr, c_int};

use sdt_framework::kernel::Symbol;
use sdt_protocol::{Module, Refusal};
use stand_in_base::image::Segment;
use stand_in_illumos::errno::{EBUSY, ENOENT};
use stand_in_illumos::marking::Marking;
use stand_in_illumos::modctl::Info;

use crate::dtrace::DTRACE;
use crate::invop;
use crate::system::{self, FiringSite, System, Trap, refusal};
use machine::{MARKING, MODULES};
use sdt::SDT;

/// Selects illumos as the system that this kernel behaves like, until the machine is reset. The first call attaches `sdt`.
///
/// # Errors
/// If a FreeBSD module is loaded, illumos is selected already with another marking, or the framework has no room for the
/// providers.
pub(crate) fn choose(marking: Marking) -> Result<(), Refusal> {
    if !system::is_chosen() {
        if !system::current().modules().is_empty() {
            return Err(refusal(EBUSY, &"a module of FreeBSD's is loaded"));
        }
        SDT.attach(&DTRACE).map_err(|error| refusal(error.errno(), &error))?;
        MARKING.call_once(|| marking);
        invop::add(sdt::invop);
        system::choose(&Illumos);
    }
    if machine::marking() != marking {
        return Err(refusal(EBUSY, &"this is illumos's kernel already, with other sites"));
    }
    Ok(())
}

/// illumos as a [`System`].
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

    /// Returns no sites: the sites of `sdt` are private to it, and the sites that a module patches itself are private to the
    /// module.
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
