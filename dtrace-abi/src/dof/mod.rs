//! DOF, the DTrace object format: a program on its way into a kernel.
//!
//! It consists of a header, section headers, the data of loaded sections, and the data of the other sections. Sections
//! refer to each other by their index, and to strings by a section and an offset.
//!
//! [`Dof::parse`] checks the header and all section headers once. The result returns only data within its bytes, trusts
//! no count, and allocates nothing by a count. Whether a DIFO is safe to run is checked by the validator, not here.

mod error;
mod header;
mod records;
mod section;
mod view;

pub use error::{DofError, Problem};
pub use header::{ENCODING_LSB, Header, MAGIC, MODEL_LP64, VERSION, VERSION_1};
pub use records::{
    ActDesc, EcbDesc, OptDesc, ProbeDesc, ProbeSites, ProviderDesc, Reloc, RelocHeader, RelocKind,
};
pub use section::{LOAD, NO_SECTION, NO_STRING, Section, SectionKind};
pub use view::{Difo, Dof, Items};
