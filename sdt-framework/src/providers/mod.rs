//! The framework's own providers: `dtrace` and `profile`.

mod own;
mod profile;

pub(crate) use own::{Own, OwnProbes};
pub(crate) use profile::Profiles;
