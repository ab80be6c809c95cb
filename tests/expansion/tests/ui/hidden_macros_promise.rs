//! The promise to which the hidden macros refer is made by `unsafe` only, and what is no probe is in no set.

sdt_core::__sdt_leave! { @probe pub WRONG = [0x41usize; 11] }

const __SDT_PROMISE: sdt_core::__private::Promise = sdt_core::__private::Promise::made();

fn main() {
    sdt_core::__sdt_asm!(("nop",));
}
