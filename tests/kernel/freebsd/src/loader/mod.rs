//! The module loader: converts the bytes of a file to an image that can be mapped.
//!
//! The rules are those of FreeBSD's `sys/kern/link_elf_obj.c` (ET_REL, amd64) and `sys/kern/link_elf.c`
//! (ET_DYN, other machines). In addition, this loader checks the offsets, indices and ranges that FreeBSD does not check. The
//! loader does not change the state of the kernel, so a refused file has no effect.

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

/// A file whose headers and tables have been checked, and the layout of its image.
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
    /// The first defect of the file.
    pub fn parse(data: &'a [u8], machine: Machine) -> Result<Self, LoadError> {
        Ok(Self(if machine.has_shared_objects() {
            Kind::Shared(Shared::parse(data, machine)?)
        } else {
            Kind::Relocatable(Relocatable::parse(data, machine)?)
        }))
    }

    /// Makes [`link`](Self::link) refuse `R_X86_64_PLT32`, as linkers do that do not support it.
    #[must_use]
    pub fn without_plt32(mut self) -> Self {
        if let Kind::Relocatable(file) = &mut self.0 {
            file.knows_plt32 = false;
        }
        self
    }

    /// Returns the size of the image in bytes, a multiple of [`PAGE`](stand_in_base::image::PAGE).
    pub fn size(&self) -> usize {
        match &self.0 {
            Kind::Relocatable(file) => file.size(),
            Kind::Shared(file) => file.size(),
        }
    }

    /// Creates the image for the address `base` and applies all relocations. `lookup` returns the address of a symbol that the
    /// file does not define.
    ///
    /// # Errors
    /// If a symbol is undefined or outside of the loaded sections, or a relocation cannot be applied.
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
