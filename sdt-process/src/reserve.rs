//! The memory of the framework, which `start` reserves.

use std::mem::MaybeUninit;

use crate::available;
use crate::error::StartError;

/// The memory in bytes for variables of programs in D and for large buffers, for all consumers together. The second number applies if
/// the system counts or provides memory when it is allocated. A consumer gets an eighth: 128 MB are 4 MB twice for each of
/// sixteen slots.
const PROGRAMS: [usize; 2] =
    if cfg!(target_pointer_width = "64") { [1 << 30, 128 << 20] } else { [8 << 20, 1 << 20] };
/// The largest part of the memory of this process that [`PROGRAMS`] may take, as its reciprocal.
const PART: u64 = 4;
/// If the system does not provide the memory, it is halved, at most down to this number of bytes.
const LEAST: usize = 1 << 20;

/// The distance in bytes between the memory and the place where the system would map it, which is below all libraries.
/// [Traced functions](crate::function) of libraries and of static programs need the memory up to 1.1 GB below their text.
#[cfg(target_pointer_width = "64")]
const DISTANCE: usize = 4 << 30;

/// Reserves this many bytes, and memory for programs in D. Returns all of it, and the number of bytes for programs.
///
/// # Errors
/// The system does not provide the memory.
pub(crate) fn memory(bytes: usize) -> Result<(&'static mut [MaybeUninit<u8>], usize), StartError> {
    let programs = PROGRAMS[usize::from(available::is_taken_at_once())];
    let part = usize::try_from(available::bytes() / PART).unwrap_or(usize::MAX);
    let mut programs = programs.min(part);
    loop {
        match allocate(bytes.saturating_add(programs)) {
            Err(_) if programs > LEAST => programs /= 2,
            memory => return Ok((memory?, programs)),
        }
    }
}

/// Allocates memory. The system provides it as zero pages, and allocates a page only when it is written to.
fn allocate(bytes: usize) -> Result<&'static mut [MaybeUninit<u8>], StartError> {
    #[cfg(target_pointer_width = "64")]
    if let Some(memory) = distant(bytes) {
        return Ok(memory);
    }
    let mut memory = Vec::<MaybeUninit<u8>>::new();
    memory.try_reserve_exact(bytes).map_err(|source| StartError::Memory { bytes, source })?;
    // SAFETY: `try_reserve_exact` has made room, and `MaybeUninit` needs no initialisation.
    unsafe { memory.set_len(bytes) };
    Ok(memory.leak())
}

/// Maps memory [`DISTANCE`] below all libraries, or elsewhere if that is not free.
#[cfg(target_pointer_width = "64")]
fn distant(bytes: usize) -> Option<&'static mut [MaybeUninit<u8>]> {
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: maps new memory: the address is a hint only, so nothing that is mapped is replaced.
    let map = |hint| match unsafe { libc::mmap(hint, bytes, access, how, -1, 0) } {
        libc::MAP_FAILED => None,
        start => Some(start),
    };
    let near = map(std::ptr::null_mut())?;
    let hint = near.addr().checked_sub(DISTANCE).map(|at| at & !(64 * 1024 - 1));
    let start = match hint.and_then(|hint| map(std::ptr::without_provenance_mut(hint))) {
        Some(distant) => {
            // SAFETY: this is the mapping that was made above, and nothing uses it.
            unsafe { libc::munmap(near, bytes) };
            distant
        }
        None => near,
    };
    // SAFETY: the mapping has this many bytes and is never removed, and this is the only reference to it.
    Some(unsafe { std::slice::from_raw_parts_mut(start.cast(), bytes) })
}
