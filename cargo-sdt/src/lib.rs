//! What builds, links and checks kernel modules with SDT probes, as a library, so that other tools use the same parts.
//!
//! # What this is
//!
//! The command is `cargo sdt`, for authors of modules for FreeBSD and illumos, in any workspace; its README has the options.
//!
//! | of the command | modules |
//! |---|---|
//! | `new` | [`template`] |
//! | `kmod` | [`project`] and [`settings`], what is to be built; [`environment`], what decides it; [`setup`] and [`toolchain`], what builds it; [`mod@module`], the build; [`mod@link`] |
//! | `check` | [`mod@check`]: for any kernel, FreeBSD's, illumos's |
//! | `dlib` | [`dlib`] |
//! | all | [`cmd`], the command lines; [`arch`], [`platform`], [`targets`]: what there is to build for; [`whole`], how files are written |
//!
//! # What it is not
//!
//! It loads nothing and traces nothing, and has no kernel, not even a stand-in. `check` finds what a kernel's loader would
//! refuse or crash over, and not what the module's code does.
//!
//! # Where to read on
//!
//! [`module::Module`] is what is built and for what; [`mod@check`] says how a file is judged. To add an architecture or a
//! system, the project's CONTRIBUTING.md names the places.

pub mod arch;
pub mod check;
pub mod cmd;
pub mod dlib;
pub mod environment;
pub mod input;
pub mod link;
pub mod module;
pub mod output;
pub mod platform;
pub mod process;
pub mod progress;
pub mod project;
pub mod settings;
pub mod setup;
pub mod targets;
pub mod template;
pub mod toolchain;
pub mod whole;
