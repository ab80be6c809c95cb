//! What builds, links and checks kernel modules with SDT probes, as a library, so that other tools use the same parts.

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
