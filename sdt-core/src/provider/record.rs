//! The records of firing sites and declarations in the linker sets.
//!
//! | set | section | element |
//! |---|---|---|
//! | [`PROVIDERS`] | `linkme_SDT_PROVIDERS` | [`Provider`] |
//! | [`PROBES`] | `linkme_SDT_PROBES` | [`Probe`] |
//! | [`sites`] | `sdt_sites` | [`Site`] |
//! | [`arg_lists`] | `sdt_arg_lists` | [`ArgList`] |
//!
//! The crate linkme collects the first two sets. Inline assembly emits sites and argument lists, with their addresses, into
//! separate sections. The retain flag keeps both through `--gc-sections`, and the linker's `__start_` and `__stop_` symbols are
//! their bounds.

mod declare;
mod linked;
mod probe;
mod provider;
mod set;
mod site;

pub(crate) use linked::{is_linked, set_linked};
pub use probe::Probe;
pub use provider::Provider;
pub(crate) use set::all;
pub use set::{
    RaggedSet, Records, SDT_PROBES, SDT_PROBES as PROBES, SDT_PROVIDERS,
    SDT_PROVIDERS as PROVIDERS, arg_lists, sites,
};
pub use site::{ArgList, Site, find};

pub use crate::arg::{ArgTypes, Args};

/// The assembler's directive for words as long as a pointer.
#[cfg(target_pointer_width = "64")]
macro_rules! word {
    ($($words:literal)*) => { concat!(".quad", $($words)*) };
}

/// The assembler's directive for words as long as a pointer, on targets with 32-bit pointers.
#[cfg(target_pointer_width = "32")]
macro_rules! word {
    ($($words:literal)*) => { concat!(".long", $($words)*) };
}

pub(crate) use word;
