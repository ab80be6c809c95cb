//! DOF, the DTrace object format: a program on its way into a kernel.
//!
//! A header, section headers, then the data of the sections that are loaded, then that of the others.
//! Sections refer to each other by their index, and to strings by a section and an offset.
//!
//! [`Dof::parse`] looks at the header and all section headers once; what it gives hands out nothing
//! that is not within its bytes, and neither trusts a count nor sizes anything by one. Whether a DIFO
//! is harmless is not asked here: that is the validator's business.

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
