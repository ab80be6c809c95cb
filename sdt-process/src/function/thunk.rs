//! The thunk that detours call. It preserves all registers.
//!
//! A function that is called preserves `rbx`, `rbp`, `rsp` and `r12` to `r15`; the thunk saves all others, and the flags. Compilers may know that a
//! local function leaves more registers unchanged than the ABI tells, so no register may change at a site.
//!
//! | registers | saved |
//! |---|---|
//! | `xmm0` to `xmm15` | by stores |
//! | `k0` to `k7`, `zmm16` to `zmm31` | by stores, on processors with AVX-512 |
//! | the upper parts of `zmm0` to `zmm15` | by `xsavec`, together with all others, if they have other than their initial values, which `xgetbv` tells (Intel SDM volume 1, 13.6). Functions that use them leave them in their initial state (System V ABI, 3.2.3), so without that they need not be saved |

use std::arch::global_asm;
use std::arch::is_x86_feature_detected;
use std::arch::x86_64::__cpuid_count;

use super::detour::RED_ZONE;
use super::hit::record_jump;

/// The registers of the code at a site, as the thunk saves them.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Saved {
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rdi: u64,
    rsi: u64,
    rdx: u64,
    rcx: u64,
    flags: u64,
    rax: u64,
    rbp: u64,
    detour: u64,
    /// The address of the site.
    site: u64,
}

impl Saved {
    /// Returns the registers that programs in D can read: arguments, result, stack pointer and frame pointer. The others are 0.
    pub(super) fn registers(&self) -> sdt_framework::Registers {
        let sp = std::ptr::from_ref(self).addr() + size_of::<Self>() + RED_ZONE;
        let mut registers = sdt_framework::Registers { rip: self.site, ..Default::default() };
        registers.general[..12].copy_from_slice(&[
            self.rax, self.rcx, self.rdx, 0, sp as u64, self.rbp, self.rsi, self.rdi, self.r8,
            self.r9, self.r10, self.r11,
        ]);
        registers
    }
}

/// The bits of the parts that `xsavec` saves: SSE, AVX, masks, and both parts of AVX-512.
const PARTS: u32 = 0b1110_0110;
/// The bits of the upper parts of `zmm0` to `zmm15`.
const UPPER: u32 = 0b0100_0100;
/// The size of the area of `xsavec` for [`PARTS`]: 512 bytes, a header of 64, and 256, 64, 512 and 1024.
const AREA: u32 = 2432;

/// Returns the address of the thunk for this processor. Returns `None` without `xgetbv` with 1 and `xsavec`, and with masks of 16 bits.
pub(super) fn address() -> Option<usize> {
    unsafe extern "C" {
        fn sdt_process_jump_thunk();
        fn sdt_process_jump_thunk_512();
    }
    let has_xgetbv = __cpuid_count(0xd, 1).eax & 1 << 2 != 0;
    if !has_xgetbv || !is_x86_feature_detected!("xsavec") {
        return None;
    }
    let thunk = match is_x86_feature_detected!("avx512f") {
        true if !is_x86_feature_detected!("avx512bw") => return None,
        true => sdt_process_jump_thunk_512 as *const (),
        false => sdt_process_jump_thunk as *const (),
    };
    Some(thunk as usize)
}

/// Defines a thunk that calls `$record`. `$save` and `$restore` are the instructions for `$more` bytes on the stack, above the 256 bytes of the
/// vector registers.
macro_rules! thunk {
    ($name:literal, $record:path, $more:literal, [$($save:literal,)*], [$($restore:literal,)*]) => {
        global_asm!(
            concat!(".pushsection .text.", $name, ", \"ax\", @progbits"),
            ".balign 16",
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            // Unwinders stop here: the detour has no caller.
            ".cfi_startproc",
            ".cfi_undefined rip",
            "push rbp",
            "mov rbp, rsp",
            "push rax",
            "lahf",
            "seto al",
            "push rax",
            "push rcx",
            "push rdx",
            "push rsi",
            "push rdi",
            "push r8",
            "push r9",
            "push r10",
            "push r11",
            "mov rdi, rsp",
            // Functions are called with the direction flag clear (System V ABI, 3.2.1), but hand-written code may have set it.
            "pushfq",
            "cld",
            "mov ecx, 1",
            "xgetbv",
            "test eax, {upper}",
            "jnz 2f",
            concat!("sub rsp, 256 + ", $more),
            "and rsp, -64",
            "movaps [rsp], xmm0",
            "movaps [rsp + 16], xmm1",
            "movaps [rsp + 32], xmm2",
            "movaps [rsp + 48], xmm3",
            "movaps [rsp + 64], xmm4",
            "movaps [rsp + 80], xmm5",
            "movaps [rsp + 96], xmm6",
            "movaps [rsp + 112], xmm7",
            "movaps [rsp + 128], xmm8",
            "movaps [rsp + 144], xmm9",
            "movaps [rsp + 160], xmm10",
            "movaps [rsp + 176], xmm11",
            "movaps [rsp + 192], xmm12",
            "movaps [rsp + 208], xmm13",
            "movaps [rsp + 224], xmm14",
            "movaps [rsp + 240], xmm15",
            $($save,)*
            "call {record}",
            $($restore,)*
            "movaps xmm0, [rsp]",
            "movaps xmm1, [rsp + 16]",
            "movaps xmm2, [rsp + 32]",
            "movaps xmm3, [rsp + 48]",
            "movaps xmm4, [rsp + 64]",
            "movaps xmm5, [rsp + 80]",
            "movaps xmm6, [rsp + 96]",
            "movaps xmm7, [rsp + 112]",
            "movaps xmm8, [rsp + 128]",
            "movaps xmm9, [rsp + 144]",
            "movaps xmm10, [rsp + 160]",
            "movaps xmm11, [rsp + 176]",
            "movaps xmm12, [rsp + 192]",
            "movaps xmm13, [rsp + 208]",
            "movaps xmm14, [rsp + 224]",
            "movaps xmm15, [rsp + 240]",
            "3:",
            "test byte ptr [rbp - 87], 4",
            "jz 4f",
            "std",
            "4:",
            "lea rsp, [rbp - 80]",
            "pop r11",
            "pop r10",
            "pop r9",
            "pop r8",
            "pop rdi",
            "pop rsi",
            "pop rdx",
            "pop rcx",
            "pop rax",
            // Sets the overflow flag if it was set: 1 + 127 overflows.
            "add al, 127",
            "sahf",
            "pop rax",
            "pop rbp",
            "ret",
            // `xsavec` leaves the last 48 bytes of its header as they are, and `xrstor` wants them to be zero.
            "2:",
            "sub rsp, {area}",
            "and rsp, -64",
            "xor eax, eax",
            "mov [rsp + 528], rax",
            "mov [rsp + 536], rax",
            "mov [rsp + 544], rax",
            "mov [rsp + 552], rax",
            "mov [rsp + 560], rax",
            "mov [rsp + 568], rax",
            "xor edx, edx",
            "mov eax, {parts}",
            "xsavec [rsp]",
            "call {record}",
            "xor edx, edx",
            "mov eax, {parts}",
            "xrstor [rsp]",
            "jmp 3b",
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            parts = const PARTS,
            upper = const UPPER,
            area = const AREA,
            record = sym $record,
        );
    };
}

thunk!("sdt_process_jump_thunk", record_jump, 0, [], []);
thunk!(
    "sdt_process_jump_thunk_512",
    record_jump,
    1088,
    [
        "vmovdqa64 [rsp + 256], zmm16",
        "vmovdqa64 [rsp + 320], zmm17",
        "vmovdqa64 [rsp + 384], zmm18",
        "vmovdqa64 [rsp + 448], zmm19",
        "vmovdqa64 [rsp + 512], zmm20",
        "vmovdqa64 [rsp + 576], zmm21",
        "vmovdqa64 [rsp + 640], zmm22",
        "vmovdqa64 [rsp + 704], zmm23",
        "vmovdqa64 [rsp + 768], zmm24",
        "vmovdqa64 [rsp + 832], zmm25",
        "vmovdqa64 [rsp + 896], zmm26",
        "vmovdqa64 [rsp + 960], zmm27",
        "vmovdqa64 [rsp + 1024], zmm28",
        "vmovdqa64 [rsp + 1088], zmm29",
        "vmovdqa64 [rsp + 1152], zmm30",
        "vmovdqa64 [rsp + 1216], zmm31",
        "kmovq [rsp + 1280], k0",
        "kmovq [rsp + 1288], k1",
        "kmovq [rsp + 1296], k2",
        "kmovq [rsp + 1304], k3",
        "kmovq [rsp + 1312], k4",
        "kmovq [rsp + 1320], k5",
        "kmovq [rsp + 1328], k6",
        "kmovq [rsp + 1336], k7",
    ],
    [
        "vmovdqa64 zmm16, [rsp + 256]",
        "vmovdqa64 zmm17, [rsp + 320]",
        "vmovdqa64 zmm18, [rsp + 384]",
        "vmovdqa64 zmm19, [rsp + 448]",
        "vmovdqa64 zmm20, [rsp + 512]",
        "vmovdqa64 zmm21, [rsp + 576]",
        "vmovdqa64 zmm22, [rsp + 640]",
        "vmovdqa64 zmm23, [rsp + 704]",
        "vmovdqa64 zmm24, [rsp + 768]",
        "vmovdqa64 zmm25, [rsp + 832]",
        "vmovdqa64 zmm26, [rsp + 896]",
        "vmovdqa64 zmm27, [rsp + 960]",
        "vmovdqa64 zmm28, [rsp + 1024]",
        "vmovdqa64 zmm29, [rsp + 1088]",
        "vmovdqa64 zmm30, [rsp + 1152]",
        "vmovdqa64 zmm31, [rsp + 1216]",
        "kmovq k0, [rsp + 1280]",
        "kmovq k1, [rsp + 1288]",
        "kmovq k2, [rsp + 1296]",
        "kmovq k3, [rsp + 1304]",
        "kmovq k4, [rsp + 1312]",
        "kmovq k5, [rsp + 1320]",
        "kmovq k6, [rsp + 1328]",
        "kmovq k7, [rsp + 1336]",
    ]
);

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The direction flag.
    const DIRECTION: u64 = 1 << 10;

    thread_local! {
        /// The flags with which the thunk has called `record`.
        static FLAGS: Cell<u64> = const { Cell::new(u64::MAX) };
    }

    thunk!("sdt_process_test_thunk", record, 0, [], []);

    // Sets the direction flag, calls the thunk, and returns the flags behind it.
    global_asm!(
        ".pushsection .text.sdt_process_test_direction, \"ax\", @progbits",
        ".globl sdt_process_test_direction",
        ".hidden sdt_process_test_direction",
        ".type sdt_process_test_direction, @function",
        "sdt_process_test_direction:",
        "std",
        "push 0",
        "call sdt_process_test_thunk",
        "pushfq",
        "cld",
        "pop rax",
        "pop rcx",
        "ret",
        ".size sdt_process_test_direction, . - sdt_process_test_direction",
        ".popsection",
    );

    extern "C" fn record(_: *const Saved) {
        let flags: u64;
        // SAFETY: reads the flags, by the stack; clears the direction flag, as Rust expects it.
        unsafe { std::arch::asm!("pushfq", "pop {}", "cld", out(reg) flags) };
        FLAGS.set(flags);
    }

    /// Functions are called with the direction flag clear, and code at a site may have set it.
    #[test]
    fn the_direction_flag_is_cleared_and_kept() {
        unsafe extern "C" {
            safe fn sdt_process_test_direction() -> u64;
        }
        if address().is_none() {
            // The thunk needs `xgetbv` with 1.
            return;
        }
        let flags = sdt_process_test_direction();
        assert_eq!((FLAGS.get() & DIRECTION, flags & DIRECTION), (0, DIRECTION));
    }
}
