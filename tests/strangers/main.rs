//! What strangers do: modules built from the packages that are published, outside of this workspace, and the guides of
//! `docs/`, command by command. The modules run in the stand-in kernel.

mod guide;
mod guides;
mod modules;
mod packages;
