//! The meaning of records: the kernel's descriptions, and the programs of this run that decide about them.

pub(super) mod catalog;
pub(super) mod compiled;
pub(super) mod description;
pub(super) mod effect;
pub(super) mod origin;
