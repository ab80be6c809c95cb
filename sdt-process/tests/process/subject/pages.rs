//! Memory whose pages the subject fills itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sdt_core::sdt_probe;

/// The size of a page in bytes, or of several pages.
const PAGE: usize = 64 << 10;

/// Says a text that is in a private mapping of a file, whose page is the process's own copy if it `is_written`.
pub(super) fn say_from_file(text: &str, is_written: bool) {
    let access = libc::PROT_READ | if is_written { libc::PROT_WRITE } else { 0 };
    // SAFETY: makes a new file in memory, writes the text to it, and maps it; nothing else knows the file.
    let mapped = unsafe {
        let file = libc::memfd_create(c"text".as_ptr(), libc::MFD_CLOEXEC);
        assert_eq!(libc::write(file, text.as_ptr().cast(), text.len()), text.len().cast_signed());
        let mapped = libc::mmap(std::ptr::null_mut(), PAGE, access, libc::MAP_PRIVATE, file, 0);
        assert_ne!(mapped, libc::MAP_FAILED);
        libc::close(file);
        if is_written {
            mapped.cast::<u8>().write_volatile(text.as_bytes()[0]);
        }
        std::slice::from_raw_parts(mapped.cast::<u8>(), text.len())
    };
    super::say(std::str::from_utf8(mapped).unwrap());
    // SAFETY: the mapping is not used any more.
    unsafe { libc::munmap(mapped.as_ptr().cast_mut().cast(), PAGE) };
}

#[inline(never)]
fn fire(address: u64) {
    sdt_probe!(super::subject::filled, address);
}

/// Registers a userfaultfd for pages. One thread fills each page when another touches it, and hits the probe `filled` before, with the
/// address of the missing page. Returns the number of filled pages, or the reason for which the system forbids it.
pub(super) fn fill_by_hand(pages: usize) -> String {
    const API: libc::Ioctl = 0xc018_aa3f_u32 as libc::Ioctl;
    const REGISTER: libc::Ioctl = 0xc020_aa00_u32 as libc::Ioctl;
    const ZERO: libc::Ioctl = 0xc020_aa04_u32 as libc::Ioctl;
    let length = pages * PAGE;
    // Ends this process if a read waits for its own thread.
    // SAFETY: SIGALRM has its default action: no handler is installed for it.
    unsafe { libc::alarm(120) };
    // SAFETY: opens a descriptor and maps new memory.
    let (faults, area) = unsafe {
        let faults = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) as libc::c_int;
        if faults < 0 {
            return format!("not possible: {}", std::io::Error::last_os_error());
        }
        let mut api = [0xaa_u64, 0, 0];
        assert_eq!(libc::ioctl(faults, API, &mut api), 0);
        let (all, how) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let area = libc::mmap(std::ptr::null_mut(), length, all, how, -1, 0);
        assert_ne!(area, libc::MAP_FAILED);
        let mut range = [area.addr() as u64, length as u64, 1, 0];
        assert_eq!(libc::ioctl(faults, REGISTER, &mut range), 0);
        (faults, area.cast::<u8>())
    };
    let (start, done) = (area.addr(), &AtomicBool::new(false));
    let filled = thread::scope(|scope| {
        let filler = scope.spawn(move || {
            let mut filled = 0;
            while filled < pages {
                let mut message = [0_u64; 4];
                // SAFETY: the buffer has room for a message.
                let read = unsafe { libc::read(faults, message.as_mut_ptr().cast(), 32) };
                assert_eq!(read, 32);
                let page = start + (message[2] as usize - start) / PAGE * PAGE;
                fire(page as u64);
                let mut range = [page as u64, PAGE as u64, 0, 0];
                // SAFETY: the kernel fills missing pages of the area.
                assert_eq!(unsafe { libc::ioctl(faults, ZERO, &mut range) }, 0);
                filled += 1;
            }
            done.store(true, Ordering::Release);
            filled
        });
        for page in 0..pages {
            // SAFETY: the address is in the area.
            unsafe { area.add(page * PAGE).write_volatile(1) };
        }
        filler.join().unwrap()
    });
    assert!(done.load(Ordering::Acquire));
    // SAFETY: no thread uses the pages any more.
    unsafe {
        libc::munmap(area.cast(), length);
        libc::close(faults);
        libc::alarm(0);
    }
    filled.to_string()
}
