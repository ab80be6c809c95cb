//! The declarations of this image for D programs; [`layout`](crate::layout) documents their form.

use core::ffi::CStr;

use crate::route::attachment;

/// The declarations of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The module of its probes.
    pub module: &'static CStr,
    /// The text. NULs in it mean nothing.
    pub text: &'static [u8],
}

/// Returns the declarations of this image, if it is attached and has any. Modules of FreeBSD and illumos have none,
/// because their section is not loaded. Any context.
pub fn declared() -> Option<Declared> {
    let text = image::declared();
    let module = attachment::module()?;
    (!text.is_empty()).then_some(Declared { module, text })
}

#[cfg(not(any(target_os = "freebsd", target_os = "illumos")))]
mod image {
    use crate::record::word;

    // Weak and hidden, like the bounds of the other sets.
    core::arch::global_asm!(
        ".weak __start_sdt_types, __stop_sdt_types",
        ".hidden __start_sdt_types, __stop_sdt_types",
        ".pushsection .data.__sdt_types_bounds, \"aw\", %progbits",
        ".balign 8",
        ".globl __sdt_types_bounds",
        ".hidden __sdt_types_bounds",
        "__sdt_types_bounds:",
        word!(" __start_sdt_types, __stop_sdt_types"),
        ".popsection",
    );

    unsafe extern "C" {
        // Only the linker and the loader write to it.
        #[link_name = "__sdt_types_bounds"]
        safe static BOUNDS: [usize; 2];
    }

    pub(super) fn declared() -> &'static [u8] {
        // Volatile, because the compiler would take the table as constant, but the loader relocates it.
        // SAFETY: a reference to a static.
        let [start, stop] = unsafe { (&raw const BOUNDS).read_volatile() };
        match stop.checked_sub(start) {
            None | Some(0) => &[],
            // SAFETY: the linker's symbols bound the section, which is never written.
            Some(size) => unsafe {
                core::slice::from_raw_parts(core::ptr::with_exposed_provenance(start), size)
            },
        }
    }
}

#[cfg(any(target_os = "freebsd", target_os = "illumos"))]
mod image {
    pub(super) const fn declared() -> &'static [u8] {
        &[]
    }
}
