//! The promise to which the macros for firing refer.

/// The promise that the operands of the macros for firing are right. It costs nothing at run time.
///
/// The macros' own `unsafe` blocks count as this crate's, wherever they are expanded. Their assembly refers to a constant
/// `__SDT_PROMISE` of this type, which the caller of the macro has to define by an `unsafe` block, where the compiler and
/// `forbid(unsafe_code)` see it.
#[derive(Debug)]
pub struct Promise(());

impl Promise {
    /// Makes the promise.
    ///
    /// # Safety
    /// All macros that refer to it get the same operands as from `sdt_probe!`: the record of a probe of this image, the probe's
    /// own symbol, and `count` words. The words are those of values that have the types in the record, and that live until the
    /// hit is recorded. Templates and operands of assembly follow the calling convention of the thunks.
    pub const unsafe fn made() -> Self {
        Self(())
    }
}
