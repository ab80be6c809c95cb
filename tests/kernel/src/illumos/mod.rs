//! This kernel as illumos's: the machine's side of [`stand_in_illumos`], once the host has chosen it.

mod dtrace;
mod exec;
mod exports;
mod interrupts;
mod kstat;
mod locks;
mod machine;
mod requests;
mod trap;

use machine::Machine;
use sdt_core::ops::FrameworkError;
use spin::Once;
use stand_in_illumos::marking::Marking;
use stand_in_illumos::modctl::Modules;
use stand_in_illumos::sdt::Sdt;

use crate::dtrace::DTRACE;
use crate::invop;
pub(crate) use exec::execute;
pub(crate) use requests::answer;
pub(crate) use trap::invop as trap;

/// All loaded modules.
static MODULES: Modules<Machine> = Modules::new(Machine);

/// The provider of their probes.
static SDT: Sdt = Sdt::new(&Machine);

/// Once this kernel is illumos's: what becomes of probes' calls.
static CHOSEN: Once<Marking> = Once::new();

/// Whether this kernel is illumos's. Any context.
pub(crate) fn is_chosen() -> bool {
    CHOSEN.is_completed()
}

/// What becomes of probes' calls. Probe context.
fn marking() -> Marking {
    CHOSEN.get().copied().unwrap_or_default()
}

/// Makes this kernel illumos's for good: `drv/dtrace` and `drv/sdt` are loaded and attached.
///
/// # Errors
/// The framework has no room for the providers.
fn choose(marking: Marking) -> Result<(), FrameworkError> {
    if !is_chosen() {
        CHOSEN.call_once(|| marking);
        SDT.attach(&DTRACE)?;
        invop::add(trap::sdt_invop);
    }
    Ok(())
}
