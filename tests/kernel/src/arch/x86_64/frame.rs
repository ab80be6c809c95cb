//! The registers of code that has trapped: FreeBSD's `struct trapframe` (`sys/x86/include/frame.h`). The kernel passes it to
//! breakpoint handlers of modules.

use static_assertions::const_assert_eq;

/// `struct trapframe` of FreeBSD amd64, 192 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct TrapFrame {
    pub(crate) rdi: u64,
    pub(crate) rsi: u64,
    pub(crate) rdx: u64,
    pub(crate) rcx: u64,
    pub(crate) r8: u64,
    pub(crate) r9: u64,
    pub(crate) rax: u64,
    pub(crate) rbx: u64,
    pub(crate) rbp: u64,
    pub(crate) r10: u64,
    pub(crate) r11: u64,
    pub(crate) r12: u64,
    pub(crate) r13: u64,
    pub(crate) r14: u64,
    pub(crate) r15: u64,
    pub(crate) trapno: u32,
    pub(crate) fs: u16,
    pub(crate) gs: u16,
    pub(crate) addr: u64,
    pub(crate) flags: u32,
    pub(crate) es: u16,
    pub(crate) ds: u16,
    pub(crate) err: u64,
    pub(crate) rip: u64,
    pub(crate) cs: u64,
    pub(crate) rflags: u64,
    pub(crate) rsp: u64,
    pub(crate) ss: u64,
}

const_assert_eq!(size_of::<TrapFrame>(), 192);
const_assert_eq!(core::mem::offset_of!(TrapFrame, trapno), 120);
const_assert_eq!(core::mem::offset_of!(TrapFrame, flags), 136);
const_assert_eq!(core::mem::offset_of!(TrapFrame, err), 144);
const_assert_eq!(core::mem::offset_of!(TrapFrame, rip), 152);
const_assert_eq!(core::mem::offset_of!(TrapFrame, rsp), 176);

/// The number of the breakpoint exception.
pub(crate) const BREAKPOINT: u32 = 3;
