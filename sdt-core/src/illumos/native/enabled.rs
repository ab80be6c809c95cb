//! A check of the is-enabled sites when the module is loaded: arguments are lazy only if krtld marked them as expected.

use core::ffi::CStr;

use crate::illumos::console;

/// The bytes of an is-enabled site after krtld, and while its probe is enabled. A retained enabling may enable a probe
/// before `_init` runs.
const NOPS: [u8; 4] = [0x90; 4];
const ENABLED: [u8; 4] = [0x90, 0xf0, 0x90, 0x90];

/// The addresses of the is-enabled sites of this module, in a section that the sites fill.
///
/// The bounds are weak, and 0 in a module without sites.
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
        // SAFETY: only krtld writes to it.
        #[link_name = "__sdt_is_enabled"]
        pub(super) safe static BOUNDS: [usize; 2];
    }
}

fn sites() -> &'static [usize] {
    // Volatile, because the compiler would take the table as constant, but krtld relocates it.
    // SAFETY: a reference to a static.
    let [start, stop] = unsafe { (&raw const bounds::BOUNDS).read_volatile() };
    let len = stop.wrapping_sub(start) / size_of::<usize>();
    if len == 0 {
        return &[];
    }
    // SAFETY: the linker's symbols bound the section, which sites fill with aligned words and which is read-only.
    unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(start), len) }
}

/// The probes of a module under illumos's own sdt.
#[derive(Debug)]
pub struct Probes;

impl Probes {
    /// Returns the probes of a module.
    pub const fn new(_: &'static CStr) -> Self {
        Self
    }

    /// Checks that krtld replaced each is-enabled site by the bytes that its test expects, and prints a message if not.
    /// At other sites, arguments are always evaluated, and `sdt_enabled!` always returns true; nothing else changes.
    pub fn check(&self, module: &CStr) {
        let odd = |site: &&usize| {
            let text = core::ptr::with_exposed_provenance::<[u8; 4]>(**site);
            // SAFETY: the address is a site of this module. Volatile, because krtld and sdt write to it without the
            // compiler's knowledge.
            !matches!(unsafe { text.read_volatile() }, NOPS | ENABLED)
        };
        let (all, count) = (sites().len(), sites().iter().filter(odd).count());
        if count != 0 {
            console::print(format_args!(
                "{}: krtld did not replace {count} of {all} probe sites by the expected nops; \
                 their arguments are evaluated even while the probe is disabled",
                module.to_str().unwrap_or("?"),
            ));
        }
    }
}

/// The table for the companion: there is none.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_illumos_exports {
    ($name:ident, $probes:ident) => {};
}
