//! The functions that are not traced, because a breakpoint in them could end the process.
//!
//! | functions | reason |
//! |---|---|
//! | functions that the signal handler may call before it has recorded that this thread is in a hit | their breakpoints would call the handler again, until the stack is full |
//! | the C library, except some | it blocks all signals while it starts and ends threads and programs, and a breakpoint with SIGTRAP blocked ends the process |
//! | functions without Rust names of a program that contains the C library | the same |
//! | functions that replace functions of the C library, such as `free` | the C library calls them while it blocks signals |
//!
//! Consumers do not send functions that the handler calls directly. This module rejects such functions nevertheless.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use dtrace_abi::function::first_crate;
use object::read::{NativeFile, ReadCache};
use object::{Object as _, ObjectSymbol as _, SymbolKind};

use super::restorer;

/// The crates whose functions the handler calls. A function of another crate is excluded, too, if its symbol names one
/// of these crates: it is a generic instance for types of that crate.
const CRATES: [&str; 5] =
    ["sdt_core", "sdt_framework", "sdt_process", "dtrace_abi", "dtrace_protocol"];
/// Crates whose functions the handler calls if they are not inlined.
const INLINED: [&str; 5] = ["core", "compiler_builtins", "libc", "rustix", "spin"];
/// The beginnings of the paths of functions of the standard library that the handler calls if they are not inlined, or that the recording
/// of a hit or a sample often calls. Such hits of the recording would not be recorded, only counted.
const INLINED_OF_STD: [&str; 4] = ["std::os::fd", "std::sync", "std::thread::local", "std::time"];

/// Functions of the C library that the library itself does not call while it blocks signals (seen with glibc 2.36).
const SAFE: [&str; 39] = [
    "malloc",
    "calloc",
    "realloc",
    "posix_memalign",
    "aligned_alloc",
    "read",
    "pread64",
    "readv",
    "preadv64",
    "write",
    "pwrite64",
    "writev",
    "pwritev64",
    "send",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "recv",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "accept",
    "accept4",
    "connect",
    "bind",
    "listen",
    "socket",
    "shutdown",
    "poll",
    "ppoll",
    "select",
    "epoll_wait",
    "epoll_pwait",
    "epoll_ctl",
    "fsync",
    "fdatasync",
    "getaddrinfo",
    "nanosleep",
    "clock_nanosleep",
];
/// Functions that the C library calls while it blocks signals, and that programs and other libraries may replace.
const REPLACED: [&str; 4] = ["free", "cfree", "munmap", "madvise"];

/// The beginning of the names of the functions that compilers call for atomic operations on aarch64, which choose instructions for the
/// processor.
const ATOMIC: &str = "__aarch64_";

/// The number of bytes that are excluded from the start of each such function: the sizes of these functions are
/// unknown.
const LENGTH: usize = 4096;

/// The role of an object in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Role {
    /// It contains this crate.
    pub(super) is_here: bool,
    /// It contains the C library.
    pub(super) has_c_library: bool,
    /// It is the program.
    pub(super) is_program: bool,
}

/// The functions of an object that may be traced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// Functions in ascending order of their addresses, without overlaps.
    functions: Vec<Range<usize>>,
    /// Whether only `functions` may be traced. If `false`, all functions except these may be traced.
    are_allowed: bool,
}

impl Rule {
    /// Reads the functions of an object's file; `bias` is added to addresses in the file. `None` if the file cannot be read, is that of another
    /// build, or has no symbols.
    pub(super) fn new(path: &Path, build_id: &[u8], bias: usize, role: Role) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = NativeFile::parse(&cache).ok()?;
        if file.build_id().ok()?? != build_id {
            return None;
        }
        let symbols = file.symbols().chain(file.dynamic_symbols());
        let symbols = symbols.filter(|of| of.kind() == SymbolKind::Text && of.size() > 0);
        let is_library = role.has_c_library && !role.is_program;
        let (mut is_any, mut functions) = (false, Vec::new());
        for symbol in symbols {
            let Ok(name) = symbol.name() else { continue };
            is_any = true;
            let is_named = if is_library { SAFE.contains(&name) } else { is_excluded(name, role) };
            if is_named {
                let start = (symbol.address() as usize).wrapping_add(bias);
                functions.push(start..start.saturating_add(symbol.size() as usize));
            }
        }
        functions.sort_unstable_by_key(|of| (of.start, of.end));
        functions.dedup_by(|next, last| {
            let overlaps = next.start <= last.end;
            if overlaps {
                last.end = last.end.max(next.end);
            }
            overlaps
        });
        is_any.then_some(Self { functions, are_allowed: is_library })
    }

    /// Returns whether an instruction of the object may be traced.
    pub(super) fn allows(&self, address: usize, length: usize) -> bool {
        let Some(end) = address.checked_add(length) else { return false };
        let at = self.functions.partition_point(|of| of.end <= address);
        let found = self.functions.get(at).filter(|of| of.start < end);
        let is_inside = found.is_some_and(|of| of.start <= address && end <= of.end);
        if self.are_allowed { is_inside } else { found.is_none() && !is_called(address, end) }
    }
}

/// Returns whether a function with this symbol is excluded from an object that is not the C library.
fn is_excluded(symbol: &str, role: Role) -> bool {
    if REPLACED.contains(&symbol) {
        return true;
    }
    if !role.is_here && !role.has_c_library {
        return false;
    }
    let is_called =
        || CRATES.iter().any(|name| symbol.contains(name)) || symbol.starts_with(ATOMIC);
    if role.is_here && is_called() {
        return true;
    }
    let Ok(path) = rustc_demangle::try_demangle(symbol) else { return role.has_c_library };
    let path = format!("{path:#}");
    // Functions of primitive types, such as `<[u8]>::starts_with`, have no crate: they are those of `core`.
    let is_inlined = first_crate(&path).is_none_or(|of| INLINED.contains(&of));
    // Functions of traits, such as `<std::os::fd::BorrowedFd as AsRawFd>::as_raw_fd`, begin with the type.
    let path = path.trim_start_matches('<');
    role.is_here && (is_inlined || INLINED_OF_STD.iter().any(|of| path.starts_with(of)))
}

/// Returns whether an instruction may be in a function that compiled code calls for copies and comparisons, or in the code to which the signal
/// handler returns. `__tls_get_addr` is in the dynamic linker, which is not traced, or in a program that contains the C library.
fn is_called(address: usize, end: usize) -> bool {
    unsafe extern "C" {
        fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8;
        fn bcmp(one: *const u8, other: *const u8, length: usize) -> i32;
    }
    static STARTS: OnceLock<[Option<usize>; 6]> = OnceLock::new();
    let starts = STARTS.get_or_init(|| {
        [
            Some(libc::memcpy as *const () as usize),
            Some(memmove as *const () as usize),
            Some(libc::memset as *const () as usize),
            Some(libc::memcmp as *const () as usize),
            Some(bcmp as *const () as usize),
            restorer::restorer(),
        ]
    });
    starts.iter().flatten().any(|start| *start < end && address < start.saturating_add(LENGTH))
}

#[cfg(test)]
mod tests {
    use super::super::images;
    use super::*;

    #[test]
    fn the_handler_and_what_it_calls_are_excluded() {
        for (function, is_allowed) in [
            (crate::breakpoint::on_trap as *const () as usize, false),
            (super::super::hit::record as *const () as usize, false),
            (libc::memcpy as *const () as usize, false),
            // At the end of a thread, the C library calls these with all signals blocked.
            (libc::free as *const () as usize, false),
            (libc::madvise as *const () as usize, false),
            (libc::malloc as *const () as usize, true),
            (libc::recv as *const () as usize, true),
        ] {
            let loaded = images::loaded();
            let object = loaded.iter().find(|object| object.contains(function, 1)).unwrap();
            images::trace(&object.build_id).unwrap();
            assert_eq!(images::allow(function, 1), is_allowed, "{function:#x} {object:x?}");
        }
        assert!(!images::allow(usize::MAX, 2));
    }

    #[test]
    fn symbols_are_excluded_by_their_crate() {
        let here = Role { is_here: true, has_c_library: false, is_program: true };
        let library = Role { is_here: false, ..here };
        let whole = Role { has_c_library: true, ..here };
        for (symbol, in_here, in_library, in_static) in [
            ("_ZN8sdt_core4trap14resume_address17h0123456789abcdefE", true, false, true),
            ("_ZN4core4cell13Cell$LT$T$GT$3get17h0123456789abcdefE", true, false, true),
            (
                "_ZN54_$LT$I$u20$as$u20$core..iter..traits..Collect$GT$4into17h0123456789abcdefE",
                true,
                false,
                true,
            ),
            ("_ZN4core3ops8function6FnOnce9call_once17h0123456789abcdefE", true, false, true),
            (
                "_RNvMNtCsgEmfK2I1SDS_4core5sliceSh11starts_withCs4X4t9plMPHF_9addr2line",
                true,
                false,
                true,
            ),
            (
                "_ZN76_$LT$std..os..fd..owned..BorrowedFd$u20$as$u20$std..os..fd..raw..AsRawFd$GT$9as_raw_fd17hc007661426cbf0c2E",
                true,
                false,
                true,
            ),
            ("sdt_process_function_thunk", true, false, true),
            ("__aarch64_ldadd8_acq_rel", true, false, true),
            ("_RNvCs1234_4shop5serve", false, false, false),
            ("_ZN4shop5serve17h0123456789abcdefE", false, false, false),
            ("_ZN3std2fs4File4open17h0123456789abcdefE", false, false, false),
            ("sqlite3_step", false, false, true),
            ("free", true, true, true),
        ] {
            assert_eq!(is_excluded(symbol, here), in_here, "{symbol}");
            assert_eq!(is_excluded(symbol, library), in_library, "{symbol}");
            assert_eq!(is_excluded(symbol, whole), in_static, "{symbol}");
        }
    }
}
