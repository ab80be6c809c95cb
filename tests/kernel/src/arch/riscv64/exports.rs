//! Symbols that only FreeBSD/riscv has: none that modules here want. `fence_i()` and its like are inline
//! (`sys/riscv/include/cpufunc.h`), and text is written by plain stores.

crate::exports::exports! {}

/// The exported symbols that are not functions.
pub(crate) fn variables() -> [(&'static str, u64); 0] {
    []
}
