//! The assumption under which arguments are lazy, tested when the module is loaded.

use core::ffi::CStr;

use crate::illumos::console;

/// What an is-enabled site holds after krtld, and while its probe is enabled. A retained enabling may enable a probe before
/// `_init` runs.
const NOPS: [u8; 4] = [0x90; 4];
const ENABLED: [u8; 4] = [0x90, 0xf0, 0x90, 0x90];

/// The is-enabled sites of this module: addresses, in a section that sites fill.
///
/// The bounds are weak: a module need not have a site. They are 0 then.
mod bounds {
    core::arch::global_asm!(
        ".weak __start_sdt_is_enabled, __stop_sdt_is_enabled",
        ".pushsection .data.__sdt_is_enabled, \"aw\", @progbits",
        ".balign 8",
        "__sdt_is_enabled:",
        ".quad __start_sdt_is_enabled, __stop_sdt_is_enabled",
        ".popsection",
        ".globl __sdt_is_enabled",
        ".hidden __sdt_is_enabled",
    );

    unsafe extern "C" {
        // Only krtld writes to it.
        #[link_name = "__sdt_is_enabled"]
        pub(super) safe static BOUNDS: [usize; 2];
    }
}

fn sites() -> &'static [usize] {
    // Volatile: for all the compiler knows the table is constant, but it is relocated.
    // SAFETY: a reference to a static.
    let [start, stop] = unsafe { (&raw const bounds::BOUNDS).read_volatile() };
    let len = stop.wrapping_sub(start) / size_of::<usize>();
    if len == 0 {
        return &[];
    }
    // SAFETY: the linker's symbols bound the section, which sites fill with aligned words and which is read-only.
    unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(start), len) }
}

/// A module's probes under illumos's own sdt.
#[derive(Debug)]
pub struct Probes;

impl Probes {
    /// The probes of a module.
    pub const fn new(_: &'static CStr) -> Self {
        Self
    }

    /// Looks whether krtld has made of each is-enabled site what its test looks for, and says so if it has not. Arguments of such
    /// a site are evaluated whether its probe is enabled or not, and `sdt_enabled!` says yes there; nothing else
    /// changes.
    pub fn check(&self, module: &CStr) {
        let odd = |site: &&usize| {
            let text = core::ptr::with_exposed_provenance::<[u8; 4]>(**site);
            // SAFETY: a site of this module. Volatile, as krtld and sdt write to it behind the compiler's back.
            !matches!(unsafe { text.read_volatile() }, NOPS | ENABLED)
        };
        let (all, count) = (sites().len(), sites().iter().filter(odd).count());
        if count != 0 {
            console::print(format_args!(
                "{}: {count} of {all} probe sites are not the nops that this kernel was to make of them; their \
                 arguments are evaluated even while the probe is disabled",
                module.to_str().unwrap_or("?"),
            ));
        }
    }
}

/// What a module exports for its companion: there is none.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_illumos_exports {
    ($name:ident, $probes:ident) => {};
}
