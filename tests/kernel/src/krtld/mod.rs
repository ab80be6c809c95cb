//! This kernel as illumos's: the machine's side of [`stand_in_kernel::illumos`], once the host has chosen it.

mod dtrace;
mod exec;
mod exports;
mod interrupts;
mod locks;
mod machine;
mod requests;
mod trap;

use core::sync::atomic::{AtomicBool, Ordering};

use machine::Machine;
use sdt_core::ops::FrameworkError;
use stand_in_kernel::illumos::modctl::Modules;
use stand_in_kernel::illumos::sdt::Sdt;

use crate::dtrace::DTRACE;
use crate::invop;
pub(crate) use exec::execute;
pub(crate) use requests::answer;
pub(crate) use trap::invop as trap;

/// All loaded modules.
static MODULES: Modules<Machine> = Modules::new(Machine);

/// The provider of their probes.
static SDT: Sdt = Sdt::new(&Machine);

static CHOSEN: AtomicBool = AtomicBool::new(false);

/// Whether this kernel is illumos's. Any context.
pub(crate) fn is_chosen() -> bool {
    CHOSEN.load(Ordering::Acquire)
}

/// Makes this kernel illumos's for good: `drv/dtrace` and `drv/sdt` are loaded and attached.
///
/// # Errors
/// The framework has no room for the providers.
fn choose() -> Result<(), FrameworkError> {
    if !CHOSEN.swap(true, Ordering::AcqRel) {
        SDT.attach(&DTRACE)?;
        invop::add(trap::sdt_invop);
    }
    Ok(())
}
