//! A complete breakpoint handler for x86_64, aarch64 and riscv64.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

/// Defines the entry of an exception: it redirects breakpoints of sites, and passes all other exceptions to the kernel's
/// own handler.
///
/// ```
/// # #[unsafe(naked)]
/// # unsafe extern "C" fn fault() {
/// #     #[cfg(target_arch = "x86_64")]
/// #     core::arch::naked_asm!("iretq");
/// #     #[cfg(target_arch = "aarch64")]
/// #     core::arch::naked_asm!("eret");
/// #     #[cfg(target_arch = "riscv64")]
/// #     core::arch::naked_asm!("sret");
/// # }
/// sdt_core::breakpoint_entry! {
///     /// The handler of the vector.
///     pub fn breakpoint() else fault;
/// }
///
/// let vector = breakpoint as *const () as usize; // into a gate, a branch of the vector table, or stvec
/// # assert_ne!(vector, 0);
/// ```
///
/// The operand of `else` is the kernel's own entry. The macro jumps to it with the stack pointer, every general-purpose
/// register and the registers of the exception as the CPU left them. It can be a naked function, a label in assembly,
/// any `extern "C" fn() -> !`, or on x86_64 an `extern "x86-interrupt"` function (unstable).
///
/// | | x86_64 | aarch64 | riscv64 |
/// |---|---|---|---|
/// | the entry belongs | into the gate of vector 3: an interrupt gate, no shared IST stack | behind a branch (`b`) in the synchronous vector of the current level, with SP_EL0, SP_ELx or both | into `stvec` (direct mode), or behind a jump from there |
/// | it handles | breakpoints of the kernel | `brk` (`ESR_EL1.EC` is 0x3c) above EL0 | traps with `scause` 3 |
/// | `else` gets | breakpoints of programs, and those without a site | the same, and all other synchronous exceptions | breakpoints without a site, and all other traps |
/// | stack, besides that of the resolver | 128 bytes below the interrupted stack pointer, which the CPU aligns first | 192 bytes below `sp`, a multiple of 16 | 160 bytes below `sp`, a multiple of 16 |
/// | it saves | rax, rcx, rdx, rsi, rdi, rbp, r8 to r11 | x0 to x18, x29, x30, ELR_EL1, SPSR_EL1 | ra, t0 to t6, a0 to a7, s0, `sepc`, `sstatus` |
///
/// The called function preserves all other general-purpose registers. The entry changes the memory below the interrupted
/// stack pointer and, if `else` gets the exception, the flags (the exception saved the interrupted ones). Interrupts are
/// off from the exception to the return. The entry follows the [rules](crate::trap#rules-for-the-handler) for its own
/// code, and contains no site. It works in any nesting, if the stack has room. It does not check that: a kernel with
/// guard pages that survives a stack overflow tests the stack pointer before it branches to the entry.
///
/// - **Sites** must not be in code that runs before the entry, in the resolver, or in the code of `else` before it has
///   saved the registers of the exception. After that, the kernel's own handler may contain sites.
/// - **Vector registers** are not saved: a kernel that is compiled to use them (features `sse`, `neon`, `sve`, `v`)
///   does not compile with the entry. On riscv64, floating-point registers are not saved either: compilers use them for
///   floating-point arithmetic only, of which this crate has none.
/// - **x86_64**: the entry does not use `gs`, so it works before and after `swapgs`.
/// - **aarch64**: the entry uses no thread register. It accesses the registers of EL1, so a kernel at EL2 must set
///   `HCR_EL2.E2H`. Compile for a target without floating point, such as `aarch64-unknown-none-softfloat`.
/// - **riscv64**: the compiler aligns the entry to 4 bytes, as `stvec` requires. The entry uses `sp`, and never
///   `sscratch`. Therefore a trap from user mode must not reach it. A kernel that sets `stvec` when it enters and
///   leaves user mode uses the entry in kernel mode. A kernel with one vector for both modes first finds out the
///   mode, restores what it changed, and jumps to the entry if the trap is from supervisor mode. `else` must be
///   within 1 MiB, because a longer jump changes a register; otherwise the linker reports a relocation that is out
///   of range. Put both into one section with `#[unsafe(link_section = "...")]`.
///
/// # A resolver of the kernel
///
/// ```
/// # sdt_core::breakpoint_entry! { fn fault() else fault; }
/// extern "C" fn counted(address: usize) -> usize {
///     // Counts the breakpoint.
///     sdt_core::trap::resume_address(address).unwrap_or(0)
/// }
///
/// sdt_core::breakpoint_entry! {
///     fn breakpoint() else fault, resolver = counted;
/// }
/// ```
///
/// The entry calls the resolver with the address of the breakpoint. The resolver returns the address at which to resume,
/// or 0 if `else` shall handle the breakpoint. It runs in probe context, with interrupts off, and must use no
/// floating-point registers. Without `resolver`, the entry calls [`resume_address`](crate::trap::resume_address).
///
/// The entry does not pass registers, so it cannot serve traced functions (`Dtrace::function_hit`). `else` gets their
/// breakpoints.
#[macro_export]
macro_rules! breakpoint_entry {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident() else $other:path;) => {
        $crate::breakpoint_entry! {
            $(#[$attribute])*
            $visibility fn $name() else $other, resolver = $crate::__private::resume;
        }
    };
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident() else $other:path, resolver = $resolver:path;) => {
        const _: () = assert!(
            !cfg!(all(
                target_os = "none",
                any(
                    target_feature = "sse",
                    target_feature = "neon",
                    target_feature = "sve",
                    target_feature = "v",
                )
            )),
            "this kernel uses vector registers, which the entry does not save"
        );
        const _: extern "C" fn(usize) -> usize = $resolver;

        $(#[$attribute])*
        ///
        /// # Safety
        /// Install it as the handler of the breakpoint exception. It is not a function that code can call.
        #[unsafe(naked)]
        $visibility unsafe extern "C" fn $name() {
            $crate::__breakpoint_entry!($other, $resolver)
        }
    };
}

/// Returns the address at which to resume after a breakpoint at this address, or 0 if no site is there. Probe context.
#[doc(hidden)]
pub extern "C" fn resume(address: usize) -> usize {
    super::resume_address(address).unwrap_or(0)
}
