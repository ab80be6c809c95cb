//! A complete breakpoint handler for x86_64, where breakpoints have a vector of their own.

/// Defines the entry of vector 3: it redirects breakpoints of sites, and passes all others to the kernel's own handler.
///
/// ```
/// # #[unsafe(naked)]
/// # unsafe extern "C" fn debugger() { core::arch::naked_asm!("iretq") }
/// sdt_core::breakpoint_entry! {
///     /// Vector 3.
///     pub fn breakpoint() else debugger;
/// }
///
/// let gate = breakpoint as *const () as u64; // into an interrupt gate
/// # assert_ne!(gate, 0);
/// ```
///
/// The operand of `else` is also an entry, a function that a gate can point to: the macro jumps to it with every
/// register and the stack in the state in which the CPU entered the gate. It can be an `extern "x86-interrupt"`
/// function (unstable), a naked function, a label in assembly, or any `extern "C" fn() -> !`. It gets all breakpoints
/// in user mode, and those without a site of this image.
///
/// The entry follows the [rules](crate::trap#rules-for-the-handler) for its own code: it contains no site, saves every
/// register that a function may change, clears the direction flag, and aligns the stack. It does not use `gs`, so it
/// works before and after `swapgs`. The kernel must provide an interrupt gate, no shared IST stack, and no red zone, on
/// every CPU. The entry does not save vector registers: kernels that use them do not compile with it.
#[macro_export]
macro_rules! breakpoint_entry {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident() else $other:path;) => {
        const _: () = assert!(
            !cfg!(all(target_os = "none", target_feature = "sse")),
            "this kernel uses vector registers, which the entry does not save"
        );

        $(#[$attribute])*
        ///
        /// # Safety
        /// For a gate of the interrupt descriptor table, not to be called.
        #[unsafe(naked)]
        $visibility unsafe extern "C" fn $name() {
            ::core::arch::naked_asm!(
                // The saved code segment's privilege: that of a program has no site.
                "test byte ptr [rsp + 8], 3",
                "jnz {other}",
                "push rbp",
                "mov rbp, rsp",
                "push rax",
                "push rcx",
                "push rdx",
                "push rsi",
                "push rdi",
                "push r8",
                "push r9",
                "push r10",
                "push r11",
                "cld",
                // The CPU aligns the stack to 16 bytes before it pushes five words; there are 15 now.
                "sub rsp, 8",
                "mov rdi, [rbp + 8]",
                "call {resume}",
                "add rsp, 8",
                // The saved program counter, if it is a site's.
                "test rax, rax",
                "cmovz rax, [rbp + 8]",
                "mov [rbp + 8], rax",
                "pop r11",
                "pop r10",
                "pop r9",
                "pop r8",
                "pop rdi",
                "pop rsi",
                "pop rdx",
                "pop rcx",
                "pop rax",
                "pop rbp",
                "jz {other}",
                "iretq",
                other = sym $other,
                resume = sym $crate::__private::resume,
            )
        }
    };
}

/// Returns the address at which to resume after a breakpoint that has left this program counter, or 0 if no site is there. Probe context.
#[doc(hidden)]
pub extern "C" fn resume(behind: usize) -> usize {
    super::resume_address(behind.wrapping_sub(super::BREAKPOINT_LEN)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use core::arch::{global_asm, naked_asm};
    use std::cell::Cell;

    thread_local! {
        static OTHERS: Cell<u32> = const { Cell::new(0) };
    }

    extern "C" fn other() {
        OTHERS.set(OTHERS.get() + 1);
    }

    /// Takes the exception's frame away and goes on where `enter` waits.
    #[unsafe(naked)]
    extern "C" fn to_other() {
        naked_asm!("jmp sdt_test_to_other");
    }

    breakpoint_entry! {
        /// Under test.
        fn entry() else to_other;
    }

    global_asm!(
        // As a breakpoint would: (rdi) entry, (rsi) code segment, (rdx) address behind the breakpoint.
        ".global sdt_test_enter",
        "sdt_test_enter:",
        "push rbp",
        "mov rbp, rsp",
        "push rbx",
        "push r12",
        "mov r12, 0x1234",
        "mov rbx, rsp",
        "and rsp, -16",
        "push 0",
        "push rbx",
        "pushfq",
        "push rsi",
        "push rdx",
        "mov rcx, 0x77",
        "std",
        "jmp rdi",
        ".global sdt_test_to_other",
        "sdt_test_to_other:",
        "cld",
        "mov rax, [rsp]",
        "cmp rax, rdx",
        "jne 2f",
        "cmp rcx, 0x77",
        "jne 2f",
        "mov rsp, [rsp + 24]",
        "cmp rsp, rbx",
        "jne 2f",
        "mov rbx, rsp",
        "and rsp, -16",
        "call {other}",
        "mov rsp, rbx",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        "2: ud2",
        other = sym other,
    );

    unsafe extern "C" {
        fn sdt_test_enter(entry: unsafe extern "C" fn(), code: u64, behind: usize);
    }

    /// That sites are sent on is seen in kernels; here, what the kernel's own handler finds.
    #[test]
    fn what_is_no_site_finds_everything_as_it_was() {
        for code in [0x08, 0x33] {
            let before = OTHERS.get();
            // SAFETY: the stack is as an exception makes it, and is taken down again.
            unsafe { sdt_test_enter(entry, code, 0x1001) };
            assert_eq!(OTHERS.get(), before + 1, "{code:#x}");
        }
    }
}
