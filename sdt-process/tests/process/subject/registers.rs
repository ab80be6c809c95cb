//! A function that is traced while all registers have known values, on aarch64 and riscv64.

use std::arch::global_asm;

/// The size of the largest set of registers.
const LARGEST: usize = 16 << 10;
/// The number of doublewords that `subject_keep` stores.
const STORED: usize = if cfg!(target_arch = "aarch64") { 64 + 27 } else { 32 + 25 };

unsafe extern "C" {
    /// Loads general and floating-point registers from `from`, calls `subject_kept`, which leaves all of them, and stores them to `to`.
    fn subject_keep(from: *const u8, to: *mut u8);
    /// As `subject_keep`, with the registers of vectors of variable length.
    fn subject_keep_vectors(from: *const u8, to: *mut u8);
    /// Returns the number of bytes that `subject_keep_vectors` stores.
    fn subject_vectors() -> usize;
}

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .text.subject_kept, \"ax\", @progbits",
    ".globl subject_kept",
    ".type subject_kept, @function",
    "subject_kept:",
    "sub sp, sp, #16",
    "add sp, sp, #16",
    "ret",
    ".size subject_kept, . - subject_kept",
    ".macro subject_begin",
    "stp x29, x30, [sp, #-160]!",
    "stp x19, x20, [sp, #16]",
    "stp x21, x22, [sp, #32]",
    "stp x23, x24, [sp, #48]",
    "stp x25, x26, [sp, #64]",
    "stp x27, x28, [sp, #80]",
    "stp d8, d9, [sp, #96]",
    "stp d10, d11, [sp, #112]",
    "stp d12, d13, [sp, #128]",
    "stp d14, d15, [sp, #144]",
    "mov x19, x0",
    "mov x20, x1",
    ".endm",
    ".macro subject_end",
    "ldp x19, x20, [sp, #16]",
    "ldp x21, x22, [sp, #32]",
    "ldp x23, x24, [sp, #48]",
    "ldp x25, x26, [sp, #64]",
    "ldp x27, x28, [sp, #80]",
    "ldp d8, d9, [sp, #96]",
    "ldp d10, d11, [sp, #112]",
    "ldp d12, d13, [sp, #128]",
    "ldp d14, d15, [sp, #144]",
    "ldp x29, x30, [sp], #160",
    "ret",
    ".endm",
    ".globl subject_keep",
    "subject_keep:",
    "subject_begin",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "ldr q\\n, [x19, #16 * \\n]",
    ".endr",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,21,22,23,24,25,26,27,28",
    "ldr x\\n, [x19, #512 + 8 * \\n]",
    ".endr",
    "bl subject_kept",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "str q\\n, [x20, #16 * \\n]",
    ".endr",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,21,22,23,24,25,26,27,28",
    "str x\\n, [x20, #512 + 8 * \\n]",
    ".endr",
    "subject_end",
    ".arch_extension sve",
    ".globl subject_keep_vectors",
    "subject_keep_vectors:",
    "subject_begin",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "ldr z\\n, [x19, #\\n, mul vl]",
    ".endr",
    "addvl x21, x19, #16",
    "addvl x21, x21, #16",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "ldr p\\n, [x21, #\\n, mul vl]",
    ".endr",
    "bl subject_kept",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "str z\\n, [x20, #\\n, mul vl]",
    ".endr",
    "addvl x21, x20, #16",
    "addvl x21, x21, #16",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "str p\\n, [x21, #\\n, mul vl]",
    ".endr",
    "subject_end",
    ".globl subject_vectors",
    "subject_vectors:",
    // 32 vectors, and 16 predicates of an eighth of the size.
    "rdvl x0, #17",
    "rdvl x1, #17",
    "add x0, x0, x1",
    "ret",
    ".arch_extension nosve",
    ".purgem subject_begin",
    ".purgem subject_end",
    ".popsection",
);

#[cfg(target_arch = "riscv64")]
global_asm!(
    ".pushsection .text.subject_kept, \"ax\", @progbits",
    ".option push",
    ".option arch, +d",
    ".globl subject_kept",
    ".type subject_kept, @function",
    "subject_kept:",
    "addi sp, sp, -16",
    "addi sp, sp, 16",
    "ret",
    ".size subject_kept, . - subject_kept",
    ".macro subject_begin",
    "addi sp, sp, -208",
    "sd ra, 0(sp)",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11",
    "sd s\\n, 8 + 8 * \\n(sp)",
    "fsd fs\\n, 104 + 8 * \\n(sp)",
    ".endr",
    "mv s1, a0",
    "mv s2, a1",
    ".endm",
    ".macro subject_end",
    "ld ra, 0(sp)",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11",
    "ld s\\n, 8 + 8 * \\n(sp)",
    "fld fs\\n, 104 + 8 * \\n(sp)",
    ".endr",
    "addi sp, sp, 208",
    "ret",
    ".endm",
    ".globl subject_keep",
    "subject_keep:",
    "subject_begin",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "fld f\\n, 8 * \\n(s1)",
    ".endr",
    ".irp n, 5,6,7,8,10,11,12,13,14,15,16,17,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "ld x\\n, 256 + 8 * \\n(s1)",
    ".endr",
    "jal subject_kept",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "fsd f\\n, 8 * \\n(s2)",
    ".endr",
    ".irp n, 5,6,7,8,10,11,12,13,14,15,16,17,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "sd x\\n, 256 + 8 * \\n(s2)",
    ".endr",
    "subject_end",
    ".option arch, +v",
    ".globl subject_keep_vectors",
    "subject_keep_vectors:",
    "subject_begin",
    "vsetvli s3, zero, e8, m8, ta, ma",
    ".irp n, 0,8,16,24",
    "vle8.v v\\n, (s1)",
    "add s1, s1, s3",
    ".endr",
    "jal subject_kept",
    ".irp n, 0,8,16,24",
    "vse8.v v\\n, (s2)",
    "add s2, s2, s3",
    ".endr",
    "subject_end",
    ".globl subject_vectors",
    "subject_vectors:",
    "csrr a0, vlenb",
    "slli a0, a0, 5",
    "ret",
    ".option pop",
    ".purgem subject_begin",
    ".purgem subject_end",
    ".popsection",
);

/// Returns whether this processor has vectors of variable length.
fn has_vectors() -> bool {
    // SAFETY: returns a number that never changes.
    let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP) };
    // HWCAP_SVE; the letter `v`.
    let bit = if cfg!(target_arch = "aarch64") { 22 } else { 21 };
    capabilities >> bit & 1 != 0
}

/// Calls `subject_kept` this often with random registers. Returns how many calls kept all of them, and the size of the vectors, 0 if there are
/// none.
pub(super) fn kept(times: u64) -> [u64; 2] {
    // SAFETY: the processor has the register that the function reads.
    let vectors = if has_vectors() { unsafe { subject_vectors() } } else { 0 };
    let mut state = 1_u64;
    let (mut from, mut to) = ([0_u64; LARGEST / 8], [0_u64; LARGEST / 8]);
    let good = (0..times).filter(|n| {
        for word in &mut from {
            // xorshift64*
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            *word = state.wrapping_mul(0x2545_f491_4f6c_dd1d);
        }
        to.fill(0);
        let are_vectors = vectors != 0 && n % 2 == 1;
        let keep = if are_vectors { subject_keep_vectors } else { subject_keep };
        // SAFETY: the processor has the registers, and the arrays have room for them.
        unsafe { keep(from.as_ptr().cast(), to.as_mut_ptr().cast()) };
        let equal = to.iter().zip(&from).filter(|(to, from)| to == from).count();
        equal == if are_vectors { vectors / 8 } else { STORED }
    });
    [good.count() as u64, vectors as u64]
}
