//! The part of the machine that the linkers of both systems use.

use core::fmt;

use crate::image::Image;

/// The operations of the machine that the linkers use: memory for modules, and the console.
pub trait Memory {
    /// Reserves `size` bytes of addresses for a module and returns their start; `size` is a multiple of
    /// [`PAGE`](crate::image::PAGE).
    fn reserve(&self, size: usize) -> Option<u64>;

    /// Maps an image at its base, which is reserved, with its protections; code is writable as well if `writable_code`. Returns
    /// `false` if there is not enough memory, and maps nothing then.
    fn map(&self, image: &Image, writable_code: bool) -> bool;

    /// Unmaps an image. No CPU can reach it afterwards.
    fn unmap(&self, base: u64, size: usize);

    /// Gives reserved addresses back.
    fn give_back(&self, base: u64);

    /// Prints a line on the console.
    fn print(&self, line: fmt::Arguments<'_>);
}
