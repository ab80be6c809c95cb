//! `cargo sdt`: builds, links and checks kernel modules with SDT probes, for FreeBSD and illumos. The README has its options.
//!
//! # Public surface
//!
//! cargo-sdt is a command. Its library is one function, [`main`], so that other crates depend on the command line and not on
//! the modules behind it. The tests and the `xtask` of this repository build and check modules as the command does, in the
//! same process; for them alone, the hidden module `internal` lists the items that they call. It is no interface, and
//! changes without notice.
//!
//! # Modules
//!
//! | command | modules |
//! |---|---|
//! | `new` | `template` |
//! | `kmod` | `project` and `settings`: the package to build; `environment`: the variables that decide how; `setup` and `toolchain`: the compiler and the linker; `module`: the build; `link` |
//! | `check` | `check`: the view of the file (`elf`), the table of rules (`rules`), and the checks of both systems |
//! | `dlib` | `dlib` |
//! | all | `cmd`: the command lines; `arch`, `platform`, `targets`: the kernels to build for; `whole`: how files are written |
//!
//! The command loads and traces nothing. `check` finds what a kernel's loader would refuse or crash on; it does not analyse
//! what the module's code does. To add an architecture or a system, the project's CONTRIBUTING.md lists the places.
//!
//! `tests/unit` has the unit tests, each file those of the module at the same path below `src`.
#![allow(missing_docs, reason = "the names of fields are enough where nothing is public")]

mod arch;
mod check;
mod cmd;
mod dlib;
mod environment;
mod input;
mod link;
mod module;
mod output;
mod platform;
mod process;
mod progress;
mod project;
mod settings;
mod setup;
mod targets;
mod template;
mod toolchain;
mod whole;

pub use cmd::main;

/// Internals for the tests and the `xtask` of this repository. Not an interface.
#[doc(hidden)]
pub mod internal {
    pub mod arch {
        pub use crate::arch::{Arch, ModuleKind};
    }
    pub mod check {
        pub use crate::check::{
            Against, DRIVER, Finding, FreeBsdSummary, Kernel, Place, Rule, fbt, freebsd_module,
            illumos_module, module,
        };
    }
    pub mod cmd {
        pub use crate::cmd::{check, dlib, kmod};
    }
    pub mod dlib {
        pub use crate::dlib::{read, render};
    }
    pub mod link {
        pub use crate::link::{LinkError, SEAL, seal};
        pub mod freebsd {
            pub use crate::link::freebsd::module;
        }
        pub mod illumos {
            pub use crate::link::illumos::module;
        }
    }
    pub mod module {
        pub use crate::module::{
            BuildError, Module, compile_apart, create_dir, linker_variable, lock, run_cargo,
            run_cargo_rustc,
        };
    }
    pub mod output {
        pub use crate::output::{CLOSED_STATUS, failure, line, print, say};
    }
    pub mod platform {
        pub use crate::platform::{FreeBsd, Os, Patch, Route};
    }
    pub mod process {
        pub use crate::process::{
            ProcessError, clean_cargo_env, command_line, find, run, run_visibly, show_command_lines,
        };
    }
    pub mod progress {
        pub use crate::progress::{call_us, note, step};
    }
    pub mod project {
        pub use crate::project::{Found, Project, ProjectError};
    }
    pub mod setup {
        pub use crate::setup::{
            SetupError, clippy, install, lld, program, toolchain, update_lists,
        };
    }
    pub mod targets {
        pub use crate::targets::{CODE_SHAPE, Target, write};
    }
    pub mod toolchain {
        pub use crate::toolchain::{Toolchain, profile_flags};
    }
    pub mod whole {
        pub use crate::whole::write;
    }
}
