//! The module loader: from the bytes of a file to an image that is ready to be mapped.
//!
//! The rules are those of FreeBSD's `sys/kern/link_elf_obj.c` (ET_REL, amd64) and `sys/kern/link_elf.c`
//! (ET_DYN, the others); where those trust the file (offsets, indices, ranges), this one checks. Nothing
//! here touches the kernel: a file that is refused has changed nothing.

mod elf;
mod error;
mod linked;
mod machine;
mod relocatable;
mod relocate;
mod section;
mod shared;
#[cfg(test)]
mod tests;

pub use error::{LoadError, SegmentError};
pub use linked::{Function, Linked, SiteRecord, Symbol};
pub use machine::Machine;
pub use relocate::RelocationError;
pub use section::section;

use relocatable::Relocatable;
use shared::Shared;

/// A file that has been found sound, with a place for everything in it.
#[derive(Debug)]
pub struct File<'a>(Kind<'a>);

#[derive(Debug)]
enum Kind<'a> {
    Relocatable(Relocatable<'a>),
    Shared(Shared<'a>),
}

impl<'a> File<'a> {
    /// Checks a file's headers and tables and lays its contents out.
    ///
    /// # Errors
    /// The first thing that is wrong with the file.
    pub fn parse(data: &'a [u8], machine: Machine) -> Result<Self, LoadError> {
        Ok(Self(if machine.has_shared_objects() {
            Kind::Shared(Shared::parse(data, machine)?)
        } else {
            Kind::Relocatable(Relocatable::parse(data, machine)?)
        }))
    }

    /// The file as linkers see it that do not know `R_X86_64_PLT32`.
    #[must_use]
    pub fn without_plt32(mut self) -> Self {
        if let Kind::Relocatable(file) = &mut self.0 {
            file.knows_plt32 = false;
        }
        self
    }

    /// Bytes that the image takes, a multiple of [`PAGE`](stand_in_base::image::PAGE).
    pub fn size(&self) -> usize {
        match &self.0 {
            Kind::Relocatable(file) => file.size(),
            Kind::Shared(file) => file.size(),
        }
    }

    /// The image for the address `base`: everything in its place and relocated, with symbols that the
    /// file does not define coming from `lookup`.
    ///
    /// # Errors
    /// When a symbol is undefined or out of place, or a relocation cannot be done.
    pub fn link(
        &self,
        base: u64,
        lookup: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Linked, LoadError> {
        match &self.0 {
            Kind::Relocatable(file) => file.link(base, lookup),
            Kind::Shared(file) => file.link(base, lookup),
        }
    }
}
