//! Types: those of C on a 64-bit machine, and D's own.

mod intrinsic;
mod layout;
mod name;
mod printed;
mod relation;
mod rooms;
mod store;
mod ty;

pub(crate) use relation::MemberInfo;
pub(crate) use rooms::DEBUG;
pub use store::Types;
pub(crate) use store::split_stars;
pub(crate) use ty::DEEPEST;
pub use ty::{Member, Text, Type, TypeId};

#[cfg(test)]
mod tests;
