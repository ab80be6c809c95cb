//! Only `unsafe` code can make the promise of the hidden macros, so safe code cannot add records to the sets.

sdt_core::__sdt_leave! { @probe pub WRONG = [0x41usize; 11] }

const __SDT_PROMISE: sdt_core::__private::Promise = sdt_core::__private::Promise::made();

fn main() {
    sdt_core::__sdt_asm!(("nop",));
}
