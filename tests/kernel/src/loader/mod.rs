//! The module loader: from the bytes of an ET_REL file to an image that is ready to be mapped.
//!
//! The rules are those of FreeBSD's `sys/kern/link_elf_obj.c`; where that one trusts the file (offsets,
//! indices, ranges), this one checks. Nothing here touches the kernel: a file that is refused has
//! changed nothing.

mod elf;
mod error;
mod image;
mod relocate;
#[cfg(test)]
mod tests;

pub use elf::Object;
pub use error::LoadError;
pub use image::{Image, PAGE, Protection, Segment, Symbol};
pub use relocate::{Relocation, RelocationError, x86_64};
