//! The FreeBSD half of the kernel: connects [`stand_in_freebsd`] to the machine.

mod exec;
mod exports;
mod machdep;
mod machine;
mod sdt;
mod sites;
mod sx;
mod sysctl;

use alloc::format;
use alloc::vec::Vec;
use core::ffi::{CStr, c_int};

use sdt_framework::kernel::Symbol;
use sdt_protocol::{Module, Refusal};
use stand_in_base::image::Segment;
use stand_in_freebsd::Release;
use stand_in_freebsd::errno::{EBUSY, EINVAL, ENOENT};
use stand_in_freebsd::kld::{self, FileInfo};

use crate::invop;
use crate::system::{self, FiringSite, System, Trap, refusal};
use machine::LINKER;

/// Registers SDT's provider, and selects FreeBSD as the system that this kernel behaves like, until the host selects another one.
pub(crate) fn init() {
    sdt::init();
    system::init(&FreeBsd);
}

/// FreeBSD as a [`System`]. The linker stores the release.
#[derive(Debug)]
struct FreeBsd;

impl System for FreeBsd {
    fn name(&self) -> &'static str {
        "FreeBSD"
    }

    fn load(&self, file: &str, bytes: &[u8]) -> Result<(), Refusal> {
        LINKER.load(file, bytes).map(|_| ()).map_err(|why| refused(&why))
    }

    fn unload(&self, file: &str) -> Result<(), Refusal> {
        LINKER.unload(file).map_err(|why| refused(&why))
    }

    fn modules(&self) -> Vec<Module> {
        let module = |of: FileInfo| Module {
            id: of.id,
            file: of.name,
            address: of.base,
            size: of.size as u64,
        };
        LINKER.files().into_iter().map(module).collect()
    }

    fn segments(&self, file: &str) -> Result<(u64, Vec<Segment>), Refusal> {
        let missing = || refusal(ENOENT, &format_args!("can't find file {file}"));
        LINKER.segments(file).ok_or_else(missing)
    }

    fn execute(&self, pid: u32, path: &CStr) {
        exec::execute(pid, path);
    }

    fn write_sysctl(&self, name: &str, value: &str) -> Result<(), Refusal> {
        sysctl::write(name, value)
    }

    fn sites(&self, probe: u32) -> Vec<FiringSite> {
        sites::of(probe)
    }

    fn symbol(&self, address: u64, show: &mut dyn FnMut(Symbol<'_>)) -> bool {
        let Some(found) = LINKER.symbol_at(address) else { return false };
        let (module, name) = (found.file.as_bytes(), found.name.as_bytes());
        show(Symbol { module, name, address: found.address, size: found.size });
        true
    }

    /// Calls the handlers of modules after a breakpoint. FreeBSD does not call them for other traps.
    unsafe fn trap(&self, trap: Trap<'_>) -> c_int {
        if !trap.breakpoint {
            return 0;
        }
        // SAFETY: the caller passes the frame of the current trap.
        unsafe { invop::dispatch(trap.address, (&raw mut *trap.frame).cast(), trap.third) }
    }
}

/// Returns the FreeBSD release that this kernel behaves like. Any context. amd64 does not need this function: its breakpoint
/// handler emulates the same instructions in every release.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn release() -> Release {
    LINKER.release()
}

/// Selects the FreeBSD release that this kernel behaves like, by its `__FreeBSD_version`.
///
/// # Errors
/// If another system is selected, the release is unknown, or files are loaded.
pub(crate) fn set_version(version: i32) -> Result<(), Refusal> {
    if system::is_chosen() {
        let name = system::current().name();
        return Err(refusal(EBUSY, &format_args!("this is {name}'s kernel already")));
    }
    let unknown = || refusal(EINVAL, &format!("there is no FreeBSD {version} here"));
    let release = u32::try_from(version).ok().and_then(Release::new).ok_or_else(unknown)?;
    LINKER.set_release(release).map_err(|why| refused(&why))?;
    sdt::set_generation(release.generation());
    Ok(())
}

fn refused(why: &kld::Refusal) -> Refusal {
    refusal(why.errno(), why)
}
