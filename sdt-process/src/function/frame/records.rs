//! Frames in which records follow the registers: those of aarch64 and riscv64.
//!
//! A record begins with its kind and its size; a record of kind 0 is the last one. The kernel stores all records one behind the other, so
//! the frame is one piece of memory, and a copy is right if the pointers in it are adjusted. One record has a pointer into the frame.
//!
//! `rt_sigreturn(2)` expects the frame at the stack pointer. It begins with a `siginfo_t`, which the system call does not read.

#[cfg(not(target_arch = "x86_64"))]
use libc::ucontext_t as Context;

use super::limits::LARGEST;

/// The size of the `siginfo_t` before the `struct ucontext`.
#[cfg(not(target_arch = "x86_64"))]
const SIGINFO: usize = 128;
/// The size of the kind and the size of a record.
const HEADER: usize = 8;

/// The bytes that a copy of a frame has, as offsets from the beginning of the `struct ucontext`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The end of the last record.
    end: usize,
    /// The place of the pointer into the frame.
    pointer: Option<usize>,
}

#[cfg(not(target_arch = "x86_64"))]
impl Extent {
    /// Returns the size of a copy.
    pub(super) const fn size(&self) -> usize {
        SIGINFO + self.end
    }

    /// Copies the frame to an address, for a stack pointer with this address. Returns the copy of the `struct ucontext`.
    ///
    /// # Safety
    /// `self` is that of the frame, and the handler has not returned. The address is aligned to [`ALIGNMENT`](super::limits::ALIGNMENT), and nothing
    /// else uses the bytes of the copy.
    pub(super) unsafe fn copy(&self, context: &Context, at: usize) -> *mut Context {
        let copy = std::ptr::with_exposed_provenance_mut::<u8>(at + SIGINFO);
        let moved_by = copy.addr().wrapping_sub(std::ptr::from_ref(context).addr());
        // SAFETY: the kernel has stored these bytes; the caller guarantees the memory of the copy. The pointer is in the copied bytes, and
        // aligned, as records are.
        unsafe {
            copy.copy_from_nonoverlapping(std::ptr::from_ref(context).cast(), self.end);
            if let Some(offset) = self.pointer {
                let pointer = copy.add(offset).cast::<usize>();
                *pointer = (*pointer).wrapping_add(moved_by);
            }
        }
        copy.cast()
    }
}

/// Returns a function that reads the doubleword at an offset of a frame.
///
/// # Safety
/// The kernel passed `context` to a handler that has not returned. The offsets are multiples of 8 in the frame.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn reader(context: &Context) -> impl Fn(usize) -> u64 {
    let start = std::ptr::from_ref(context).cast::<u8>();
    // SAFETY: the kernel has stored the doubleword, and aligned the frame.
    move |offset| unsafe { start.add(offset).cast::<u64>().read() }
}

/// A record.
#[derive(Clone, Copy)]
struct Record {
    kind: u32,
    /// Its offset.
    at: usize,
    size: usize,
}

/// Reads the record at an offset. Returns `None` if no record can be there.
fn record(at: usize, load: &impl Fn(usize) -> u64) -> Option<Record> {
    let header = load(at);
    let (kind, size) = (header as u32, (header >> 32) as usize);
    let is_possible = kind == 0 || size >= HEADER && size.is_multiple_of(8) && size <= LARGEST;
    (is_possible && at <= LARGEST).then_some(Record { kind, at, size })
}

/// Returns the extent of a frame of aarch64. `base` is the address of the `struct ucontext`, and `load` reads a
/// doubleword of the frame. Returns `None` if the frame has another form, or if the code was interrupted in the streaming mode of
/// SME, in which ordinary functions cannot run.
///
/// Linux, `arch/arm64/kernel/signal.c` and `arch/arm64/include/uapi/asm/sigcontext.h`: records that do not fit into the 4096 bytes of the
/// `struct sigcontext` follow it. An `extra_context` has their address and size, and must be the last record before them.
#[cfg(any(test, target_arch = "aarch64"))]
pub(super) fn aarch64(base: usize, load: impl Fn(usize) -> u64) -> Option<Extent> {
    /// The offset of the first record.
    const FIRST: usize = 464;
    /// The size of the last record, with its padding.
    const LAST: usize = 16;
    /// `EXTRA_MAGIC`, `SVE_MAGIC`
    const EXTRA: u32 = 0x4558_5401;
    const SVE: u32 = 0x5356_4501;
    /// `SVE_SIG_FLAG_SM`, in the second halfword behind the header.
    const STREAMING: u64 = 1 << 16;

    let (mut at, mut pointer) = (FIRST, None);
    loop {
        let of = record(at, &load)?;
        match of.kind {
            0 => return Some(Extent { end: at + LAST, pointer }),
            SVE if load(at + HEADER) & STREAMING != 0 => return None,
            EXTRA if pointer.is_none() => {
                // The records go on behind the last one of the `struct sigcontext`.
                at += of.size + LAST;
                let address = load(of.at + HEADER) as usize;
                if address.wrapping_sub(base) != at {
                    return None;
                }
                pointer = Some(of.at + HEADER);
            }
            EXTRA => return None,
            _ => at += of.size,
        }
    }
}

/// Returns the extent of a frame of riscv64. `load` reads a doubleword of the frame. Returns `None` if the frame has
/// another form.
///
/// Linux, `arch/riscv/kernel/signal.c` and `arch/riscv/include/uapi/asm/sigcontext.h`: the first record begins in the last bytes of the
/// `struct sigcontext`. The record of the vector registers has the address of their contents, which follow in the same record.
#[cfg(any(test, target_arch = "riscv64"))]
pub(super) fn riscv64(base: usize, load: impl Fn(usize) -> u64) -> Option<Extent> {
    /// The offset of the first record: behind 32 registers, and the largest state of the floating-point unit without its last words.
    const FIRST: usize = 176 + 256 + 520;
    /// `RISCV_V_MAGIC`
    const VECTOR: u32 = 0x5346_5457;
    /// The offset of the address: behind `vstart`, `vl`, `vtype`, `vcsr` and `vlenb`.
    const ADDRESS: usize = HEADER + 5 * 8;

    let (mut at, mut pointer) = (FIRST, None);
    loop {
        let of = record(at, &load)?;
        match of.kind {
            0 => return Some(Extent { end: at + HEADER, pointer }),
            VECTOR if pointer.is_none() => {
                let contents = load(of.at + ADDRESS) as usize;
                let is_inside = (of.at..of.at + of.size).contains(&contents.wrapping_sub(base));
                pointer = Some(is_inside.then_some(of.at + ADDRESS)?);
                at += of.size;
            }
            VECTOR => return None,
            _ => at += of.size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address of the frames.
    const BASE: usize = 0x7f00_0000;

    /// Makes a frame with these records, of which each has its kind and the doublewords behind its header. The first record is at an offset.
    fn frame(first: usize, records: &[(u32, &[u64])]) -> Vec<u64> {
        let mut words = vec![0; first / 8];
        for (kind, more) in records {
            let size = (HEADER + 8 * more.len()) as u64;
            words.push(if *kind == 0 { 0 } else { u64::from(*kind) | size << 32 });
            words.extend(*more);
        }
        words
    }

    const FPSIMD: u32 = 0x4650_8001;
    const ESR: u32 = 0x4553_5201;
    const SVE: u32 = 0x5356_4501;
    const EXTRA: u32 = 0x4558_5401;
    const VECTOR: u32 = 0x5346_5457;

    fn of_aarch64(records: &[(u32, &[u64])]) -> Option<Extent> {
        let words = frame(464, records);
        aarch64(BASE, |offset| words[offset / 8])
    }

    #[test]
    fn frames_of_aarch64_end_behind_their_last_record() {
        let fpsimd = (FPSIMD, &[7; 65][..]);
        let end = 464 + 528;
        assert_eq!(of_aarch64(&[fpsimd, (0, &[])]), Some(Extent { end: end + 16, pointer: None }));
        let all = [fpsimd, (ESR, &[0x5600_0000]), (SVE, &[16, 0]), (0, &[])];
        let end = end + 16 + 24;
        assert_eq!(of_aarch64(&all), Some(Extent { end: end + 16, pointer: None }));
        // In streaming mode, ordinary functions cannot run.
        assert_eq!(of_aarch64(&[fpsimd, (SVE, &[16 | 1 << 16, 0]), (0, &[])]), None);
    }

    #[test]
    fn frames_of_aarch64_go_on_behind_an_extra_record() {
        let extra_at = 464 + 528;
        let more = extra_at + 32 + 16;
        let records = |address: usize, mode: u64| {
            let extra = [address as u64, 4096, 0];
            let [fpsimd, sve] = [&[7; 65][..], &[mode, 0, 1, 2][..]];
            of_aarch64(&[(FPSIMD, fpsimd), (EXTRA, &extra), (0, &[0]), (SVE, sve), (0, &[])])
        };
        let expected = Extent { end: more + 40 + 16, pointer: Some(extra_at + 8) };
        assert_eq!(records(BASE + more, 64), Some(expected));
        assert_eq!(records(BASE + more + 16, 64), None);
        assert_eq!(records(BASE + more, 64 | 1 << 16), None);
        let twice = (EXTRA, &[(BASE + 464 + 48) as u64, 4096, 0][..]);
        assert_eq!(of_aarch64(&[twice, (0, &[0]), twice, (0, &[0])]), None);
    }

    fn of_riscv64(records: &[(u32, &[u64])]) -> Option<Extent> {
        let words = frame(952, records);
        riscv64(BASE, |offset| words[offset / 8])
    }

    #[test]
    fn frames_of_riscv64_may_have_vectors() {
        assert_eq!(of_riscv64(&[(0, &[])]), Some(Extent { end: 960, pointer: None }));
        let vector = |contents: usize| [0, 16, 8, 0, 16, contents as u64, 1, 2, 3, 4];
        let inside = vector(BASE + 952 + 56);
        let expected = Extent { end: 952 + 88 + 8, pointer: Some(952 + 48) };
        assert_eq!(of_riscv64(&[(VECTOR, &inside), (0, &[])]), Some(expected));
        assert_eq!(of_riscv64(&[(VECTOR, &vector(BASE)), (0, &[])]), None);
        assert_eq!(of_riscv64(&[(VECTOR, &inside), (VECTOR, &inside), (0, &[])]), None);
    }

    /// A kernel has no such records. They must not make the search run on.
    #[test]
    fn records_of_impossible_sizes_end_the_search() {
        for header in [u64::from(ESR), u64::from(ESR) | 12 << 32, u64::from(ESR) | 1 << 52] {
            assert_eq!(aarch64(BASE, |_| header), None, "{header:#x}");
            assert_eq!(riscv64(BASE, |_| header), None, "{header:#x}");
        }
        // Records without an end.
        assert_eq!(aarch64(BASE, |_| u64::from(ESR) | 16 << 32), None);
    }
}
