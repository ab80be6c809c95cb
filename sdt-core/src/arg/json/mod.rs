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

/// A value as JSON. In D it is a string of at most `SIZE` bytes, including the NUL:
///
/// | | |
/// |---|---|
/// | `{"ok":VALUE}` | the value |
/// | `{"ok":VALUE,"truncated":true}` | as much of the value as there is room for: the last members of structs, elements of lists and characters of strings are missing |
/// | `{"err":"MESSAGE"}` | its `Serialize` has failed |
///
/// It is always valid JSON, so that D can query it: `json(stringof(arg0), "ok.header.len")`. `SIZE` is 256 by default,
/// the default of option `strsize`.
///
/// [`json`] creates it, or [`new`](Self::new) with another size. As an argument of a probe it is created only if the
/// probe is enabled, on the stack of the firing thread, which must have room for it. A value that does not fit is
/// serialised twice. `Serialize` runs in the context of the function that fires: it must not panic, block or allocate.
/// Values nested more than 100 levels deep are omitted.
///
/// Lists of bytes are lists of numbers. Keys that are numbers, `bool`s or unit variants are in quotes. Infinite numbers
/// and NaN are `null`. Numbers of 128 bits are written in full, and D's `json` returns them as text.
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

/// Returns a value as JSON, in 256 bytes.
pub fn json<T: Serialize + ?Sized>(value: &T) -> Json {
    Json::new(value)
}

/// The smallest size in bytes: that of `{"ok":null,"truncated":true}` and the NUL.
const LEAST: usize = 32;

impl<const SIZE: usize> Json<SIZE> {
    /// Returns a value as JSON.
    pub fn new<T: Serialize + ?Sized>(value: &T) -> Self {
        const { assert!(SIZE >= LEAST, "the buffer of a `Json` must have at least 32 bytes") };
        let mut bytes = [0; SIZE];
        let len = write(&mut bytes, value);
        Self { bytes, len }
    }

    /// Returns the text, without the NUL.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.bytes.get(..self.len).unwrap_or_default()).unwrap_or_default()
    }
}

/// Writes a value, or the part of it that fits. Returns the number of written bytes. At least the last byte of the
/// buffer is a NUL.
fn write<T: Serialize + ?Sized>(bytes: &mut [u8], value: &T) -> usize {
    // The first attempt assumes that the value fits. The second one reserves room for the mark of truncation.
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
        // The provenance is exposed, because the framework or a D program turns the address back into a pointer.
        [self.bytes.as_ptr().expose_provenance() as u64]
    }
}

impl<const SIZE: usize> Argument for Json<SIZE> {
    const TYPES: &'static [ArgType] = Shown::<SIZE>::TYPES;
}
