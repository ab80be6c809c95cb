//! Data as text: numbers, strings, places, types and formats.

pub(super) mod argument;
pub(super) mod bits;
pub(super) mod bytes;
pub(super) mod cprintf;
pub(super) mod error;
pub(super) mod format;
pub(super) mod place;
pub(super) mod symbol;
pub(super) mod time;
pub(super) mod typed;
pub(super) mod view;
