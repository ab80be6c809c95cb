//! The entry on x86_64: the handler of vector 3.

/// Returns from a breakpoint of a site, or jumps to the handler `$other`: the body of a naked function.
#[doc(hidden)]
#[macro_export]
macro_rules! __breakpoint_entry {
    ($other:path, $resolver:path) => {
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
            "dec rdi",
            "call {resolver}",
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

    /// Takes the exception's frame away and goes on where `enter` waits.
    #[unsafe(naked)]
    extern "C" fn to_other() {
        naked_asm!("jmp sdt_test_to_other");
    }

    breakpoint_entry! {
        /// Under test.
        fn entry() else to_other, resolver = resolve;
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
        for (code, resolved) in [(0x08, 0x1000), (0x33, 0)] {
            let before = OTHERS.get();
            RESOLVED.set(0);
            // SAFETY: the stack is as an exception makes it, and is taken down again.
            unsafe { sdt_test_enter(entry, code, 0x1001) };
            assert_eq!(OTHERS.get(), before + 1, "{code:#x}");
            assert_eq!(RESOLVED.get(), resolved, "{code:#x}");
        }
    }
}
