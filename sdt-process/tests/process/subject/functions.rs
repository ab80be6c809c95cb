//! Functions without a declared probe.

use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The calls of [`twice`], as it counts them itself.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Returns twice a number.
#[inline(never)]
pub(super) fn twice(n: u64) -> u64 {
    CALLS.fetch_add(1, Ordering::Relaxed);
    black_box(n) * 2
}

// Stores to the red zone in its first instruction, as functions without calls do.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.subject_low, \"ax\", @progbits",
    ".globl subject_low",
    ".type subject_low, @function",
    "subject_low:",
    "mov [rsp - 8], rdi",
    "mov dword ptr [rsp - 128], 7",
    "mov eax, [rsp - 128]",
    "and rax, [rsp - 8]",
    "ret",
    ".size subject_low, . - subject_low",
    ".popsection",
);

// Stores as far below the stack pointer as an instruction can.
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.subject_low, \"ax\", @progbits",
    ".globl subject_low",
    ".type subject_low, @function",
    "subject_low:",
    "stp x29, x0, [sp, #-512]!",
    "ldr x0, [sp, #8]",
    "add sp, sp, #512",
    "and x0, x0, #7",
    "ret",
    ".size subject_low, . - subject_low",
    ".popsection",
);

// Has a first instruction of two bytes, which is not aligned to four.
#[cfg(target_arch = "riscv64")]
std::arch::global_asm!(
    ".pushsection .text.subject_low, \"ax\", @progbits",
    ".option push",
    ".option arch, +c",
    ".balign 4",
    "c.nop",
    ".globl subject_low",
    ".type subject_low, @function",
    "subject_low:",
    "c.addi sp, -16",
    "sd a0, 8(sp)",
    "ld a0, 8(sp)",
    "c.addi sp, 16",
    "andi a0, a0, 7",
    "ret",
    ".option pop",
    ".size subject_low, . - subject_low",
    ".popsection",
);

unsafe extern "C" {
    /// Returns the low bits of a number.
    safe fn subject_low(n: u64) -> u64;
}

/// Calls itself `n` times, and panics at the end if `n` is odd.
#[inline(never)]
fn deep(n: u64, of: u64) -> u64 {
    assert!(n != 0 || of.is_multiple_of(2));
    if n == 0 { 0 } else { 1 + deep(black_box(n - 1), of) }
}

/// Makes four threads call [`twice`] and [`subject_low`] with 1 to `times` each. Returns the number of correct results, and the number of
/// calls of `twice` since the start.
pub(super) fn calls(times: u64) -> [u64; 2] {
    let right = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 1..=times {
                    let is_right = twice(n) == 2 * n && subject_low(black_box(n)) == n % 8;
                    right.fetch_add(is_right.into(), Ordering::Relaxed);
                }
            });
        }
    });
    [right.into_inner(), CALLS.load(Ordering::Relaxed)]
}

static CALLING: AtomicBool = AtomicBool::new(false);

/// Starts threads that call `twice` until [`stop_calling`], and return the number of wrong results.
pub(super) fn keep_calling() -> Vec<thread::JoinHandle<u64>> {
    CALLING.store(true, Ordering::Release);
    let call = || {
        let (mut n, mut wrong) = (0, 0);
        while CALLING.load(Ordering::Acquire) {
            n += 1;
            wrong += u64::from(twice(n) != 2 * n);
            // Lets other threads run.
            if n % 1024 == 0 {
                thread::sleep(Duration::from_micros(50));
            }
        }
        wrong
    };
    (0..2).map(|_| thread::spawn(call)).collect()
}

pub(super) fn stop_calling() {
    CALLING.store(false, Ordering::Release);
}

/// Calls `deep` with 0 to `times` - 1. Returns how many of these calls panicked.
pub(super) fn unwound(times: u64) -> u64 {
    std::panic::set_hook(Box::new(|_| {}));
    let panics = (0..times).filter(|n| std::panic::catch_unwind(|| deep(*n, *n)).is_err()).count();
    let _ = std::panic::take_hook();
    panics as u64
}

/// Starts this many detached threads and programs. Returns how many of these ended well.
pub(super) fn spawned(times: u64) -> u64 {
    let ended = &*Box::leak(Box::new(AtomicU64::new(0)));
    let good = (0..times).filter(|_| {
        thread::spawn(|| {
            let text = black_box(vec![1_u8; 100]);
            ended.fetch_add(text.len() as u64 / 100, Ordering::Release);
        });
        Command::new("true").status().is_ok_and(|status| status.success())
    });
    let good = good.count() as u64;
    while ended.load(Ordering::Acquire) < times {
        thread::yield_now();
    }
    good
}
