//! A value as JSON, as a string for D.

use core::fmt;

use serde::Serialize;

use super::{ArgType, Argument, Shown, Value};

mod serializer;
#[cfg(test)]
mod tests;
mod text;

use serializer::Error;
use text::Text;

/// A value as JSON, for D a string of `SIZE` bytes at most with the NUL at its end:
///
/// | | |
/// |---|---|
/// | `{"ok":VALUE}` | the value |
/// | `{"ok":VALUE,"truncated":true}` | as much of the value as there is room for: the last members of structs, elements of lists and characters of strings are missing |
/// | `{"err":"MESSAGE"}` | its `Serialize` has failed |
///
/// It is valid JSON always, so that D finds its way in it: `json(stringof(arg0), "ok.header.len")`. `SIZE` is 256 if it
/// is not said, which is what D keeps of a string if option `strsize` says nothing else.
///
/// Made by [`json`], or by [`new`](Self::new) with another size. In an argument it is made when the probe is enabled, on
/// the stack of the firing thread, on which there must be room for it. What does not fit is serialised twice. The value's
/// `Serialize` runs in the context of the function that fires; it must not panic, block or allocate, and values that are nested
/// more than 100 levels deep are left out.
///
/// Lists of bytes are lists of numbers; numbers, `bool`s and unit variants that are keys are in quotes; an infinite
/// number and NaN are `null`. A number of 128 bits is written in full, which D's `json` hands on as text.
///
/// ```
/// use sdt_core::arg::{Json, json};
/// use serde::Serialize;
///
/// #[derive(Serialize)]
/// struct Header {
///     len: u32,
/// }
///
/// sdt_core::sdt_provider!(net);
///
/// fn received(header: &Header) {
///     sdt_core::sdt_probe!(net::received, json(header));
///     sdt_core::sdt_probe!(net::parsed, Json::<1024>::new(header));
/// }
/// # fn main() {
/// # received(&Header { len: 1 });
/// assert_eq!(json(&Header { len: 20 }).as_str(), r#"{"ok":{"len":20}}"#);
/// # }
/// ```
#[derive(Clone)]
pub struct Json<const SIZE: usize = 256> {
    bytes: [u8; SIZE],
    len: usize,
}

/// A value as JSON, in 256 bytes.
pub fn json<T: Serialize + ?Sized>(value: &T) -> Json {
    Json::new(value)
}

/// Bytes for which there is room in any case: those of `{"ok":null,"truncated":true}` and of the NUL.
const LEAST: usize = 32;

impl<const SIZE: usize> Json<SIZE> {
    /// A value as JSON.
    pub fn new<T: Serialize + ?Sized>(value: &T) -> Self {
        const { assert!(SIZE >= LEAST, "JSON has at least 32 bytes") };
        let mut bytes = [0; SIZE];
        let len = write(&mut bytes, value);
        Self { bytes, len }
    }

    /// The text, without the NUL.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.bytes.get(..self.len).unwrap_or_default()).unwrap_or_default()
    }
}

/// Writes a value, or as much of it as there is room for. Returns how many bytes that are. Of those there are, at least
/// the last one is a NUL.
fn write<T: Serialize + ?Sized>(bytes: &mut [u8], value: &T) -> usize {
    // First for a value that fits; where it does not, there has to be room to say so.
    for is_cut in [false, true] {
        let mut text = Text::begin(bytes, is_cut);
        let result = value.serialize(&mut text);
        match (result, text.failed.take()) {
            (Err(Error::Failed(why)), _) | (_, Some(why)) => {
                return Text::fail(bytes, why.as_str());
            }
            _ if text.is_cut() && !is_cut => {}
            _ => return text.end(),
        }
    }
    Text::fail(bytes, "")
}

impl<const SIZE: usize> fmt::Debug for Json<SIZE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Json").field(&self.as_str()).finish()
    }
}

impl<const SIZE: usize> Value for Json<SIZE> {
    type Words = [u64; 1];

    #[inline(always)]
    fn words(&self) -> [u64; 1] {
        // Exposed, because the framework or a program in D makes a pointer of it again.
        [self.bytes.as_ptr().expose_provenance() as u64]
    }
}

impl<const SIZE: usize> Argument for Json<SIZE> {
    const TYPES: &'static [ArgType] = Shown::<SIZE>::TYPES;
}
