//! The records of the kernel's sdt: `struct sdt_provider`, `struct sdt_probe`, `struct sdt_argtype`.
//!
//! `sys/sys/sdt.h`: main for 15, and 10.2 to 13 for the records without tracepoints, which are the same in all
//! of them. LP64. (`struct sdt_tracepoint` is emitted by `__sdt_site!`, from assembly.)
//!
//! Fields that only the kernel writes are zero at first, and in cells, so that they are in writable memory.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null;

use static_assertions::const_assert_eq;

use crate::arg::ArgType;

/// A field that belongs to the kernel.
type Kernels<T> = UnsafeCell<T>;

/// An entry or the head of one of the kernel's lists: two pointers.
type Links = Kernels<[*const c_void; 2]>;

const fn unlinked() -> Links {
    Kernels::new([null(); 2])
}

/// `struct sdt_provider`. 40 bytes.
#[derive(Debug)]
#[repr(C)]
pub struct Provider {
    name: *const c_char,
    entry: Links,
    id: Kernels<usize>,
    references: Kernels<c_int>,
}

// SAFETY: only the kernel writes to it, under its own lock.
unsafe impl Sync for Provider {}

const_assert_eq!(size_of::<Provider>(), 40);

impl Provider {
    /// Returns a provider of this name. The kernel gives it the stability and the privileges of every SDT provider.
    pub const fn new(name: &'static CStr) -> Self {
        let (id, references) = (Kernels::new(0), Kernels::new(0));
        Self { name: name.as_ptr(), entry: unlinked(), id, references }
    }
}

/// `struct sdt_probe`. 112 bytes; before 15 it has no list of tracepoints, and 96.
#[derive(Debug)]
#[repr(C)]
pub struct Probe {
    version: c_int,
    provider: *const Provider,
    entry: Links,
    argtypes: Links,
    #[cfg(sdt_freebsd_since = "15")]
    tracepoints: Links,
    module: *const c_char,
    function: *const c_char,
    name: *const c_char,
    id: Kernels<i64>,
    arguments: Kernels<c_int>,
    file: Kernels<*const c_void>,
}

// SAFETY: only the kernel writes to it, under its own lock; the id is read in one access.
unsafe impl Sync for Probe {}

#[cfg(sdt_freebsd_since = "15")]
const_assert_eq!(size_of::<Probe>(), 112);
#[cfg(not(sdt_freebsd_since = "15"))]
const_assert_eq!(size_of::<Probe>(), 96);

impl Probe {
    /// The record's version, by which the kernel knows its layout: its size.
    pub const VERSION: usize = size_of::<Self>();

    /// Offset of the primary record in a record: 0, because a probe has one record here.
    #[doc(hidden)]
    pub const PRIMARY: usize = 0;

    /// Bytes of the kernel's lists, between the pointer to the provider and the names.
    #[doc(hidden)]
    pub const LISTS: usize =
        core::mem::offset_of!(Self, module) - core::mem::offset_of!(Self, entry);

    /// Returns a probe. `name` is the name in C, with `__` for every `-`; the kernel replaces `__` by `-`.
    ///
    /// The name of the module is empty: the kernel uses that of the file, and destroys the probes of this name when the
    /// file is unloaded.
    pub const fn new(provider: &'static Provider, name: &'static CStr) -> Self {
        Self {
            version: Self::VERSION as c_int,
            provider,
            entry: unlinked(),
            argtypes: unlinked(),
            #[cfg(sdt_freebsd_since = "15")]
            tracepoints: unlinked(),
            module: c"".as_ptr(),
            function: c"".as_ptr(),
            name: name.as_ptr(),
            id: Kernels::new(0),
            arguments: Kernels::new(0),
            file: Kernels::new(null()),
        }
    }

    /// Returns the probe's id in DTrace while it is enabled, otherwise 0. Probe context.
    #[inline(always)]
    pub fn id(&self) -> u32 {
        // Volatile, so that it is loaded once: a second load might find another value.
        // SAFETY: a field of `self`, aligned; the kernel stores it in one access.
        unsafe { self.id.get().read_volatile() as u32 }
    }
}

/// `struct sdt_argtype`: the type of one argument of a probe. 48 bytes.
#[derive(Debug)]
#[repr(C)]
pub struct ArgTypeRecord {
    index: c_int,
    native: *const c_char,
    translated: *const c_char,
    entry: Links,
    probe: *const Probe,
}

// SAFETY: only the kernel writes to it, under its own lock.
unsafe impl Sync for ArgTypeRecord {}

const_assert_eq!(size_of::<ArgTypeRecord>(), 48);

impl ArgTypeRecord {
    const fn none() -> Self {
        let (native, translated) = (null(), null());
        Self { index: 0, native, translated, entry: unlinked(), probe: null() }
    }

    /// Returns the record of argument `index` of `probe`.
    const fn new(index: c_int, probe: &'static Probe, of: &'static ArgType) -> Self {
        let translated = match &of.translated {
            Some(name) => name.as_bytes().as_ptr().cast(),
            None => null(),
        };
        let native = of.native.as_bytes().as_ptr().cast();
        Self { index, native, translated, entry: unlinked(), probe }
    }

    /// Returns the records of all `WORDS` arguments of `probe` (as the kernel counts them), from the types in its
    /// declaration.
    pub const fn all<const WORDS: usize>(
        probe: &'static Probe,
        types: &[&'static [ArgType]],
    ) -> [Self; WORDS] {
        let mut all = [const { Self::none() }; WORDS];
        let (mut index, mut argument) = (0, 0);
        while argument < types.len() {
            let mut word = 0;
            while word < types[argument].len() {
                all[index] = Self::new(index as c_int, probe, &types[argument][word]);
                index += 1;
                word += 1;
            }
            argument += 1;
        }
        all
    }
}

// Like `__MAKE_SET` in C: if modules are shared objects, the kernel finds a set by these symbols, and the linker
// defines them only if something refers to them.
core::arch::global_asm!(
    ".weak __start_set_sdt_providers_set, __stop_set_sdt_providers_set",
    ".weak __start_set_sdt_probes_set, __stop_set_sdt_probes_set",
    ".weak __start_set_sdt_argtypes_set, __stop_set_sdt_argtypes_set",
    ".weak __start_set_sdt_tracepoint_set, __stop_set_sdt_tracepoint_set",
);

/// The entries of a set for all records in a static.
#[derive(Debug)]
#[repr(transparent)]
pub struct SetEntries<T: 'static, const COUNT: usize>([*const T; COUNT]);

// SAFETY: it contains only addresses of statics that are `Sync`.
unsafe impl<T: Sync, const COUNT: usize> Sync for SetEntries<T, COUNT> {}

impl<T, const COUNT: usize> SetEntries<T, COUNT> {
    /// Returns the entries of `records`.
    pub const fn new(records: &'static [T; COUNT]) -> Self {
        let mut entries = [null(); COUNT];
        let mut index = 0;
        while index < COUNT {
            entries[index] = &raw const records[index];
            index += 1;
        }
        Self(entries)
    }
}

/// Selects the parts of providers, probes and sites that remain in the image: all of them.
///
/// `@code` is the code of a site, `@entry` an entry of a set, the address of a record, and `@entries` are the addresses of
/// the records in an array.
#[cfg(not(sdt_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_leave {
    (@code $($site:tt)*) => { $($site)* };
    (@entry $set:literal, $type:ty, $record:ident) => {
        #[allow(deprecated)]
        const _: () = {
            #[used]
            #[unsafe(link_section = $set)]
            static ENTRY: $crate::__private::module::SetEntry<$type> =
                $crate::__private::module::SetEntry(&$record);
        };
    };
    (@entries $set:literal, $type:ty, $count:ident, $records:ident) => {
        #[used]
        #[unsafe(link_section = $set)]
        static ENTRIES: $crate::__private::record::SetEntries<$type, $count> =
            $crate::__private::record::SetEntries::new(&$records);
    };
}

/// With feature `off`, the code of a site is compiled and never executed, and nothing refers to records, so the linker
/// removes them.
#[cfg(sdt_off)]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_leave {
    (@code $($site:tt)*) => {
        if false {
            $($site)*
        }
    };
    (@entry $set:literal, $type:ty, $record:ident) => {};
    (@entries $set:literal, $type:ty, $count:ident, $records:ident) => {
        _ = &$records;
    };
}

/// The records of FreeBSD's own sdt.
///
/// | arm | |
/// |---|---|
/// | `@provider` | the record of a provider, and its entry in the set; the record has no fields for stability and privileges, so the declared ones are ignored |
/// | `@declared` | the records of a declared probe and its arguments, and their entries in the sets; the symbol is the same in every crate, so that a module with two of them does not link: the kernel would never enable the second |
/// | `@open` | the record of an open provider's probe, and its entry in the set, in assembly; the macro defines the symbol |
/// | `@open_site` | such a probe at one site, as a type |
/// | `@group` | tests whether any of several probes is enabled: the kernel's sdt does not know groups, so it tests each probe |
/// | `@describe` | descriptions of probes: none, as there are records |
/// | `@sites` | the section of the sites' records: FreeBSD 15's |
/// | `@push_probe` | x86_64's push of the address of the probe's record, the only one; it fits into 32 bits, as kernels' addresses do |
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt {
    (@provider $record:ident, $name:literal $(, $with:ident = $own:expr)*) => {
        #[doc(hidden)]
        pub static $record: $crate::__private::record::Provider =
            $crate::__private::record::Provider::new($name);

        $crate::__sdt_leave!(
            @entry "set_sdt_providers_set", $crate::__private::record::Provider, $record
        );
    };
    (
        @declared $(#[$attr:meta])* $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal,
        $types:expr, $borrows:expr
    ) => {
        // The macros choose the symbol, not the caller.
        const _: $crate::__private::Promise = __SDT_PROMISE;

        $(#[$attr])*
        #[allow(non_upper_case_globals)]
        #[unsafe(export_name = $symbol)]
        pub static $record: $crate::__private::record::Probe = $crate::__private::record::Probe::new(&$provider, $name);

        $crate::__sdt_leave!(@entry "set_sdt_probes_set", $crate::__private::record::Probe, $record);
        #[allow(deprecated)]
        const _: () = {
            const WORDS: usize = $crate::arg::count($types);
            type Record = $crate::__private::record::ArgTypeRecord;
            static RECORDS: [Record; WORDS] = Record::all(&$record, $types);
            $crate::__sdt_leave!(@entries "set_sdt_argtypes_set", Record, WORDS, RECORDS);
        };
    };
    (@open $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal) => {
        const _: $crate::__private::Promise = __SDT_PROMISE;
        unsafe extern "C" {
            #[link_name = $symbol]
            static $record: $crate::__private::record::Probe;
        }

        // In the function that fires, because `global_asm!` is allowed in modules only.
        #[allow(named_asm_labels)]
        // SAFETY: the assembly has no instruction, and only its own sections.
        unsafe {
            ::core::arch::asm!(
                // One assembler file contains the code of many sites.
                ::core::concat!(".ifndef ", $symbol),
                ::core::concat!(
                    ".pushsection .data.", $symbol, ", \"awG\", @progbits, ", $symbol, ", comdat"
                ),
                ".balign 8",
                ::core::concat!(".globl ", $symbol),
                ::core::concat!(".hidden ", $symbol),
                ::core::concat!(".type ", $symbol, ", @object"),
                ::core::concat!($symbol, ":"),
                ".4byte {version}, 0",
                ".8byte {provider}",
                ".zero {lists}",
                ".8byte 77f, 77f, 78f",
                ".8byte 0, 0, 0",
                ::core::concat!(".size ", $symbol, ", {version}"),
                ".popsection",
                ::core::concat!(
                    ".pushsection .rodata.", $symbol, ", \"aG\", @progbits, ", $symbol, ", comdat"
                ),
                "77: .byte 0",
                ::core::concat!("78: .asciz \"", $name, "\""),
                ".popsection",
                ::core::concat!(
                    ".pushsection set_sdt_probes_set, \"awGR\", @progbits, ", $symbol, ", comdat"
                ),
                ".balign 8",
                ::core::concat!(".8byte ", $symbol),
                ".popsection",
                ".endif",
                version = const $crate::__private::record::Probe::VERSION,
                lists = const $crate::__private::record::Probe::LISTS,
                provider = sym $provider,
                options(nomem, nostack, preserves_flags),
            )
        }
    };
    (@open_site $site:ident, $record:ident, $hash:literal) => {
        const _: $crate::__private::Promise = __SDT_PROMISE;
        enum $site {}
        // SAFETY: `$hash` is computed from the probe's own names, as the promise states.
        unsafe impl $crate::__private::open::OpenProbe for $site {
            const HASH: u64 = $hash;
        }
    };
    (@group $provider:path, $listed:literal, [$($each:expr),*]) => { $($each)||* };
    (@describe $($probe:tt)*) => {};
    (@sites) => { "set_sdt_tracepoint_set" };
    (@push_probe) => { "push offset {__sdt_probe} + {__sdt_primary}" };
}
