//! Macros for tables of numbers and names, and for layouts, which convert in both directions.

/// An enum whose variants have a number of sys/dtrace.h and a printed name.
///
/// `from_number` and `number` convert, `name` is the printed form, `ALL` lists the table in order.
macro_rules! numbered {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident: $repr:ty {
            $($(#[$vmeta:meta])* $variant:ident = $number:literal, $text:literal;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr($repr)]
        $vis enum $name {
            $(
                #[doc = concat!("`", $text, "`, number ", stringify!($number), ".")]
                $(#[$vmeta])*
                $variant = $number,
            )*
        }

        impl $name {
            /// All variants, in the order of the numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the variant with this number, if it exists.
            pub const fn from_number(number: $repr) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Returns the number.
            pub const fn number(self) -> $repr {
                self as $repr
            }

            /// Returns the printed name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// Returns the variant with this name, if it exists.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|entry| entry.name() == name)
            }
        }
    };
}

/// A structure of fixed layout: its fields in order, without gaps, little endian.
///
/// `SIZE` is its size in bytes; `read` decodes it from a [`Reader`](crate::reader::Reader), and `to_bytes` encodes it.
macro_rules! layout {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$fmeta:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis struct $name {
            $($(#[$fmeta])* pub $field: $type,)*
        }

        impl $name {
            /// Size in bytes.
            pub const SIZE: usize = 0 $(+ <$type as $crate::reader::Field>::SIZE)*;

            /// Reads a value.
            ///
            /// # Errors
            ///
            /// If fewer than [`SIZE`](Self::SIZE) bytes are left.
            pub fn read(
                reader: &mut $crate::reader::Reader<'_>,
            ) -> Result<Self, $crate::reader::Truncated> {
                Ok(Self { $($field: <$type as $crate::reader::Field>::read(reader)?,)* })
            }

            /// Returns the bytes.
            pub fn to_bytes(&self) -> [u8; Self::SIZE] {
                let mut bytes = [0; Self::SIZE];
                let mut rest = &mut bytes[..];
                $(
                    let (head, tail) =
                        core::mem::take(&mut rest).split_at_mut(<$type as $crate::reader::Field>::SIZE);
                    $crate::reader::Field::put(&self.$field, head);
                    rest = tail;
                )*
                debug_assert!(rest.is_empty());
                bytes
            }
        }

        impl $crate::reader::Field for $name {
            const SIZE: usize = Self::SIZE;

            fn read(
                reader: &mut $crate::reader::Reader<'_>,
            ) -> Result<Self, $crate::reader::Truncated> {
                $name::read(reader)
            }

            fn put(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_bytes());
            }
        }
    };
}
