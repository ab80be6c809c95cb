//! serde's data model in JSON.
//!
//! No existing crate that serialises to JSON without an allocator continues after a value that does not fit, and the
//! maintained one panics on characters and tuple variants. Neither is acceptable in a kernel.

use core::fmt::{self, Display, Write};

use serde::Serialize;
use serde::ser::{
    self, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};

use super::text::Text;
use crate::arg::Shown;

/// The reason why a value was not written completely.
#[derive(Debug)]
pub(super) enum Error {
    /// The value does not fit.
    NoRoom,
    /// Its `Serialize` returned this error.
    Failed(Shown<64>),
}

impl Error {
    pub(super) fn new(why: &str) -> Self {
        Self::Failed(Shown::new(why))
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoom => "the value does not fit",
            Self::Failed(why) => why.as_str(),
        })
    }
}

impl core::error::Error for Error {}

impl ser::Error for Error {
    fn custom<T: Display>(why: T) -> Self {
        Self::Failed(Shown::new(&why))
    }
}

type Result = core::result::Result<(), Error>;

/// Writes the digits of a number.
macro_rules! digits {
    ($text:ident, $value:expr, $is_negative:expr) => {{
        // The digits of a `u128`, and a sign.
        let mut digits = [0; 40];
        let mut rest = $value;
        let mut count = 0;
        for place in digits.iter_mut().rev() {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
            count += 1;
            if rest == 0 {
                break;
            }
        }
        if $is_negative && let Some(place) = digits.iter_mut().rev().nth(count) {
            *place = b'-';
            count += 1;
        }
        let start = digits.len().saturating_sub(count);
        $text.scalar(digits.get(start..).unwrap_or_default())
    }};
}

/// Writes the characters of a string.
struct Letters<'t, 'b>(&'t mut Text<'b>);

impl Write for Letters<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| self.0.character(c)).map_err(|_| fmt::Error)
    }
}

/// A list or an object that is being written.
pub(super) struct Compound<'t, 'b> {
    text: &'t mut Text<'b>,
    is_first: bool,
    /// In a map: a key was written, and its value is missing.
    is_keyed: bool,
    /// Whether it is wrapped in an object, under the name of an enum variant.
    is_variant: bool,
}

impl<'t, 'b> Compound<'t, 'b> {
    fn begin(text: &'t mut Text<'b>, is_object: bool) -> core::result::Result<Self, Error> {
        text.open(is_object)?;
        Ok(Self { text, is_first: true, is_keyed: false, is_variant: false })
    }

    fn variant(
        text: &'t mut Text<'b>,
        variant: &str,
        is_object: bool,
    ) -> core::result::Result<Self, Error> {
        let mut around = Self::begin(text, true)?;
        around.key(variant)?;
        let Self { text, .. } = around;
        Ok(Self { is_variant: true, ..Self::begin(text, is_object)? })
    }

    fn comma(&mut self) -> Result {
        if !self.is_first {
            self.text.part(b",")?;
        }
        self.is_first = false;
        Ok(())
    }

    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result {
        self.comma()?;
        self.text.is_key = true;
        let result = self.part(key);
        self.text.is_key = false;
        result?;
        self.text.part(b":")
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
        self.comma()?;
        self.part(value)
    }

    fn member<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result {
        self.key(key)?;
        self.part(value)
    }

    /// Records the failure of a part, because the caller's `Serialize` may ignore it and continue.
    fn part<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
        value.serialize(&mut *self.text).inspect_err(|error| {
            if let Error::Failed(why) = error {
                self.text.failed.get_or_insert_with(|| why.clone());
            }
        })
    }

    fn close(self) -> Result {
        self.text.close()?;
        if self.is_variant { self.text.close() } else { Ok(()) }
    }
}

macro_rules! numbers {
    ($($method:ident $type:ty, |$value:ident| $magnitude:expr, $is_negative:expr;)*) => {$(
        fn $method(self, $value: $type) -> Result {
            digits!(self, $magnitude, $is_negative)
        }
    )*};
}

impl<'t, 'b> ser::Serializer for &'t mut Text<'b> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Compound<'t, 'b>;
    type SerializeTuple = Compound<'t, 'b>;
    type SerializeTupleStruct = Compound<'t, 'b>;
    type SerializeTupleVariant = Compound<'t, 'b>;
    type SerializeMap = Compound<'t, 'b>;
    type SerializeStruct = Compound<'t, 'b>;
    type SerializeStructVariant = Compound<'t, 'b>;

    numbers! {
        serialize_u8 u8, |value| value, false;
        serialize_u16 u16, |value| value, false;
        serialize_u32 u32, |value| value, false;
        serialize_u64 u64, |value| value, false;
        serialize_u128 u128, |value| value, false;
        serialize_i8 i8, |value| value.unsigned_abs(), value < 0;
        serialize_i16 i16, |value| value.unsigned_abs(), value < 0;
        serialize_i32 i32, |value| value.unsigned_abs(), value < 0;
        serialize_i64 i64, |value| value.unsigned_abs(), value < 0;
        serialize_i128 i128, |value| value.unsigned_abs(), value < 0;
    }

    fn serialize_bool(self, value: bool) -> Result {
        self.scalar(if value { b"true" } else { b"false" })
    }

    fn serialize_f32(self, value: f32) -> Result {
        if !value.is_finite() {
            return self.serialize_unit();
        }
        self.scalar(Shown::<40>::debug(&value).as_str().as_bytes())
    }

    fn serialize_f64(self, value: f64) -> Result {
        if !value.is_finite() {
            return self.serialize_unit();
        }
        self.scalar(Shown::<40>::debug(&value).as_str().as_bytes())
    }

    fn serialize_char(self, value: char) -> Result {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result {
        self.begin_string()?;
        value.chars().try_for_each(|c| self.character(c))?;
        self.end_string();
        Ok(())
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result {
        self.begin_string()?;
        match write!(Letters(&mut *self), "{value}") {
            Ok(()) => {
                self.end_string();
                Ok(())
            }
            Err(fmt::Error) if self.is_cut() => Err(Error::NoRoom),
            Err(fmt::Error) => Err(Error::new("the Display implementation returned an error")),
        }
    }

    fn serialize_bytes(self, value: &[u8]) -> Result {
        let mut list = Compound::begin(self, false)?;
        value.iter().try_for_each(|byte| list.element(byte))?;
        list.close()
    }

    fn serialize_none(self) -> Result {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result {
        self.scalar(b"null")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result {
        let mut object = Compound::begin(self, true)?;
        object.member(variant, value)?;
        object.close()
    }

    fn serialize_seq(self, _: Option<usize>) -> core::result::Result<Self::SerializeSeq, Error> {
        Compound::begin(self, false)
    }

    fn serialize_tuple(self, _: usize) -> core::result::Result<Self::SerializeTuple, Error> {
        Compound::begin(self, false)
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> core::result::Result<Self::SerializeTupleStruct, Error> {
        Compound::begin(self, false)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> core::result::Result<Self::SerializeTupleVariant, Error> {
        Compound::variant(self, variant, false)
    }

    fn serialize_map(self, _: Option<usize>) -> core::result::Result<Self::SerializeMap, Error> {
        Compound::begin(self, true)
    }

    fn serialize_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> core::result::Result<Self::SerializeStruct, Error> {
        Compound::begin(self, true)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> core::result::Result<Self::SerializeStructVariant, Error> {
        Compound::variant(self, variant, true)
    }
}

macro_rules! lists {
    ($($trait:ident $method:ident;)*) => {$(
        impl $trait for Compound<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
                self.element(value)
            }

            fn end(self) -> Result {
                self.close()
            }
        }
    )*};
}

lists! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

macro_rules! objects {
    ($($trait:ident)*) => {$(
        impl $trait for Compound<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result {
                self.member(key, value)
            }

            fn end(self) -> Result {
                self.close()
            }
        }
    )*};
}

objects! { SerializeStruct SerializeStructVariant }

impl SerializeMap for Compound<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result {
        if self.is_keyed {
            return Err(Error::new("a map has a key without a value"));
        }
        self.key(key)?;
        self.is_keyed = true;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
        if !self.is_keyed {
            return Err(Error::new("a map has a value without a key"));
        }
        self.is_keyed = false;
        self.part(value)
    }

    fn end(self) -> Result {
        if self.is_keyed {
            return Err(Error::new("a map has a key without a value"));
        }
        self.close()
    }
}
