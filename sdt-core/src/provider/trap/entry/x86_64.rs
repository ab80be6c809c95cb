//! The entry on x86_64: the handler of vector 3.

/// Returns from a breakpoint of a site, or jumps to the handler `$other`: the body of a naked function.
#[doc(hidden)]
#[macro_export]
macro_rules! __breakpoint_entry {
    ($other:path, $resolver:path) => {
        ::core::arch::naked_asm!(
            // The privilege level in the saved code segment. User programs contain no site of this image.
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
            "dec rdi",
            "call {resolver}",
            "add rsp, 8",
            // The new program counter: the result of the resolver, or the old one if the result is 0. The zero flag is
            // tested below.
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
            resolver = sym $resolver,
        )
    };
}

#[cfg(test)]
mod tests {
    use core::arch::{global_asm, naked_asm};
    use std::cell::Cell;

    use crate::breakpoint_entry;

    thread_local! {
        static OTHERS: Cell<u32> = const { Cell::new(0) };
        static RESOLVED: Cell<usize> = const { Cell::new(0) };
    }

    /// Finds no site.
    extern "C" fn resolve(address: usize) -> usize {
        RESOLVED.set(address);
        0
    }

    extern "C" fn other() {
        OTHERS.set(OTHERS.get() + 1);
    }

    /// Leaves the frame of the exception, and continues in `sdt_test_enter`.
    #[unsafe(naked)]
    extern "C" fn to_other() {
        naked_asm!("jmp sdt_test_to_other");
    }

    breakpoint_entry! {
        /// The entry under test.
        fn entry() else to_other, resolver = resolve;
    }

    global_asm!(
        // Jumps to the entry like a breakpoint exception. rdi: the entry; rsi: the code segment; rdx: the address after
        // the breakpoint.
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

    /// The kernel's handler finds all registers unchanged. (Tests in kernels check that sites are redirected.)
    #[test]
    fn what_is_no_site_finds_everything_as_it_was() {
        for (code, resolved) in [(0x08, 0x1000), (0x33, 0)] {
            let before = OTHERS.get();
            RESOLVED.set(0);
            // SAFETY: `sdt_test_enter` builds the stack of an exception, and `sdt_test_to_other` restores the previous
            // stack.
            unsafe { sdt_test_enter(entry, code, 0x1001) };
            assert_eq!(OTHERS.get(), before + 1, "{code:#x}");
            assert_eq!(RESOLVED.get(), resolved, "{code:#x}");
        }
    }
}
