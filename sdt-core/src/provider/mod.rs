//! The provider route: the image's records are checked and linked at run time, its providers are registered with a framework, and
//! its sites are patched here, with functions of the host.

pub mod attach;
mod attachment;
mod changes;
pub(crate) mod declared;
pub(crate) mod fire;
pub mod frames;
pub(crate) mod group;
mod mode;
pub(crate) mod open;
pub mod patch;
pub(crate) mod record;
pub mod runtime;
pub mod site;
mod table;
pub mod trap;
