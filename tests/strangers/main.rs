//! The steps of a new user: builds modules from the published packages, outside this workspace, and runs the guides of
//! `docs/`, command by command. The modules run in the stand-in kernel.

mod guide;
mod guides;
mod modules;
mod packages;
