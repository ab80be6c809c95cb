//! Argument type names, built at compile time.

use crate::ops::ARG_TYPE_LEN;

/// The C name of an argument's type, as D sees it: at most 127 bytes, NUL-terminated in memory.
///
/// Names are created and joined at compile time, so a name that is too long is a compile error. `heapless::CString`
/// cannot do this in constants. The bytes have the layout of `dtrace_argdesc_t`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct TypeName {
    bytes: [u8; ARG_TYPE_LEN],
}

impl TypeName {
    /// Returns the name `text`.
    ///
    /// # Panics
    /// If `text` contains a NUL or is longer than 127 bytes. In a constant, this is an error at compile time.
    pub const fn new(text: &str) -> Self {
        Self { bytes: [0; ARG_TYPE_LEN] }.with(text)
    }

    /// Returns the name of a pointer to this type: for `struct proc` it is `struct proc *`, for `char *` it is `char
    /// **`.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[must_use]
    pub const fn pointer(self) -> Self {
        if self.bytes[self.len() - 1] == b'*' { self.with("*") } else { self.with(" *") }
    }

    /// Returns the name with `_` and a number appended: for `struct block` and 2 it is `struct block_2`.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[must_use]
    pub const fn with_number(self, number: u64) -> Self {
        let mut digits = [0; 20];
        let (mut start, mut rest) = (digits.len(), number);
        loop {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let (_, digits) = digits.split_at(start);
        match core::str::from_utf8(digits) {
            Ok(digits) => self.with("_").with(digits),
            Err(_) => panic!("digits are text"),
        }
    }

    /// The name as text.
    pub const fn as_str(&self) -> &str {
        let (name, _) = self.bytes.split_at(self.len());
        match core::str::from_utf8(name) {
            Ok(name) => name,
            Err(_) => panic!("made of whole strings"),
        }
    }

    /// Returns the name with the NULs that fill its buffer, as in `dtrace_argdesc_t`.
    pub const fn as_bytes(&self) -> &[u8; ARG_TYPE_LEN] {
        &self.bytes
    }

    /// Returns eight letters of the name as a number, in the order of memory, for assembly that can only use numeric
    /// constants.
    pub(crate) const fn letters(&self, index: usize) -> u64 {
        u64::from_ne_bytes(self.bytes.as_chunks().0[index])
    }

    /// Returns whether the name is empty.
    #[cfg(all(target_os = "freebsd", sdt_route = "native"))]
    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes[0] == 0
    }

    const fn len(&self) -> usize {
        let mut len = 0;
        while self.bytes[len] != 0 {
            len += 1;
        }
        len
    }

    const fn with(mut self, text: &str) -> Self {
        let start = self.len();
        let text = text.as_bytes();
        assert!(start + text.len() < ARG_TYPE_LEN, "a type name has at most 127 bytes");
        let mut i = 0;
        while i < text.len() {
            assert!(text[i] != 0, "a type name holds no NUL");
            self.bytes[start + i] = text[i];
            i += 1;
        }
        self
    }
}

impl core::fmt::Debug for TypeName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "TypeName({:?})", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::TypeName;

    #[test]
    fn pointers_read_as_c_writes_them() {
        assert_eq!(TypeName::new("struct proc").pointer().as_str(), "struct proc *");
        assert_eq!(TypeName::new("char").pointer().pointer().as_str(), "char **");
    }

    #[test]
    fn numbers_stand_behind() {
        let name = TypeName::new("struct block");
        assert_eq!(name.with_number(0).as_str(), "struct block_0");
        assert_eq!(
            name.with_number(u64::MAX).with_number(10).as_str(),
            "struct block_18446744073709551615_10"
        );
    }

    #[test]
    fn the_longest_name_is_still_terminated() {
        let name = TypeName::new(&"x".repeat(127));
        assert_eq!(name.as_bytes()[127], 0);
        assert_eq!(name.as_str().len(), 127);
    }

    #[test]
    #[should_panic(expected = "at most 127 bytes")]
    fn a_longer_name_is_refused() {
        let _ = TypeName::new(&"x".repeat(126)).pointer();
    }
}
