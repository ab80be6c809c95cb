//! The entry on riscv64: a trap in supervisor mode.

/// Returns from a breakpoint of a site, or jumps to the handler `$other`: the body of a naked function.
#[doc(hidden)]
#[macro_export]
macro_rules! __breakpoint_entry {
    ($other:path, $resolver:path) => {
        ::core::arch::naked_asm!(
            "addi sp, sp, -160",
            "sd t0, 8(sp)",
            "sd t1, 16(sp)",
            // The exception of `ebreak` and `c.ebreak`.
            "csrr t0, scause",
            "addi t0, t0, -3",
            "bnez t0, 3f",
            "sd ra, 0(sp)",
            "sd t2, 24(sp)",
            "sd t3, 32(sp)",
            "sd t4, 40(sp)",
            "sd t5, 48(sp)",
            "sd t6, 56(sp)",
            "sd a0, 64(sp)",
            "sd a1, 72(sp)",
            "sd a2, 80(sp)",
            "sd a3, 88(sp)",
            "sd a4, 96(sp)",
            "sd a5, 104(sp)",
            "sd a6, 112(sp)",
            "sd a7, 120(sp)",
            "csrr t0, sstatus",
            "sd t0, 128(sp)",
            // A frame record with the address of the breakpoint, for stack walkers.
            "csrr a0, sepc",
            "sd s0, 144(sp)",
            "sd a0, 152(sp)",
            "addi s0, sp, 160",
            "call {resolver}",
            // The new program counter: the result of the resolver, or the old one if the result is 0. t1 is tested
            // below.
            "mv t1, a0",
            "ld t0, 128(sp)",
            "csrw sstatus, t0",
            "ld t0, 152(sp)",
            "beqz t1, 2f",
            "mv t0, t1",
            "2:",
            "csrw sepc, t0",
            "ld s0, 144(sp)",
            "ld ra, 0(sp)",
            "ld t2, 24(sp)",
            "ld t3, 32(sp)",
            "ld t4, 40(sp)",
            "ld t5, 48(sp)",
            "ld t6, 56(sp)",
            "ld a0, 64(sp)",
            "ld a1, 72(sp)",
            "ld a2, 80(sp)",
            "ld a3, 88(sp)",
            "ld a4, 96(sp)",
            "ld a5, 104(sp)",
            "ld a6, 112(sp)",
            "ld a7, 120(sp)",
            "beqz t1, 3f",
            "ld t0, 8(sp)",
            "ld t1, 16(sp)",
            "addi sp, sp, 160",
            "sret",
            "3:",
            "ld t0, 8(sp)",
            "ld t1, 16(sp)",
            "addi sp, sp, 160",
            "j {other}",
            other = sym $other,
            resolver = sym $resolver,
        )
    };
}
