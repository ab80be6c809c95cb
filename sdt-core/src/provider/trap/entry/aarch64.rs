//! The entry on aarch64: a synchronous exception of the current exception level.

/// Returns from a breakpoint of a site, or jumps to the handler `$other`: the body of a naked function.
#[doc(hidden)]
#[macro_export]
macro_rules! __breakpoint_entry {
    ($other:path, $resolver:path) => {
        ::core::arch::naked_asm!(
            "stp x0, x1, [sp, #-192]!",
            // ESR_EL1.EC: a BRK instruction.
            "mrs x0, esr_el1",
            "ubfx x0, x0, #26, #6",
            "sub x0, x0, #0x3c",
            "cbnz x0, 2f",
            // SPSR_EL1.M. Programs at EL0 contain no site of this image.
            "mrs x0, spsr_el1",
            "ubfx x1, x0, #2, #2",
            "cbz x1, 2f",
            "stp x2, x3, [sp, #16]",
            "stp x4, x5, [sp, #32]",
            "stp x6, x7, [sp, #48]",
            "stp x8, x9, [sp, #64]",
            "stp x10, x11, [sp, #80]",
            "stp x12, x13, [sp, #96]",
            "stp x14, x15, [sp, #112]",
            "stp x16, x17, [sp, #128]",
            "str x18, [sp, #144]",
            // A frame record with the address of the breakpoint, for stack walkers.
            "mrs x1, elr_el1",
            "stp x29, x1, [sp, #160]",
            "add x29, sp, #160",
            "stp x30, x0, [sp, #176]",
            "mov x0, x1",
            "bl {resolver}",
            // The new program counter: the result of the resolver, or the old one if the result is 0. The flags are
            // tested below.
            "cmp x0, #0",
            "ldp x29, x1, [sp, #160]",
            "csel x1, x0, x1, ne",
            "ldp x30, x0, [sp, #176]",
            "msr elr_el1, x1",
            "msr spsr_el1, x0",
            "ldr x18, [sp, #144]",
            "ldp x2, x3, [sp, #16]",
            "ldp x4, x5, [sp, #32]",
            "ldp x6, x7, [sp, #48]",
            "ldp x8, x9, [sp, #64]",
            "ldp x10, x11, [sp, #80]",
            "ldp x12, x13, [sp, #96]",
            "ldp x14, x15, [sp, #112]",
            "ldp x16, x17, [sp, #128]",
            "b.eq 2f",
            "ldp x0, x1, [sp], #192",
            "eret",
            "2:",
            "ldp x0, x1, [sp], #192",
            "b {other}",
            other = sym $other,
            resolver = sym $resolver,
        )
    };
}
