//! The reasons for which the linker refuses to load or to unload a file.

use alloc::format;
use alloc::string::String;

use thiserror::Error;

use crate::errno;
use crate::linker::BadRecord;
use crate::loader::{LoadError, Machine};
use crate::sdt::Fault;

/// Why kldload or kldunload failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Refusal {
    #[error("module already loaded or in kernel")]
    AlreadyLoaded,
    #[error(transparent)]
    File(#[from] LoadError),
    #[error(transparent)]
    Record(#[from] BadRecord),
    #[error(transparent)]
    Sdt(#[from] Fault),
    /// The kernel has too little free memory, or too few free addresses.
    #[error("no memory for the module")]
    OutOfMemory,
    #[error("depends on {interface} - not available or version mismatch")]
    Dependency { interface: String },
    #[error("interface {interface}.{version} already present in the KLD '{container}'!")]
    InterfacePresent { interface: String, version: i32, container: String },
    #[error("module {module} is already loaded from {container}")]
    ModulePresent { module: String, container: String },
    #[error("module {module} is in the file twice")]
    ModuleTwice { module: String },
    #[error("a SYSINIT starts a module at {record:#x} that the file does not declare")]
    UnknownModule { record: u64 },
    #[error("two SYSINITs start the module at {record:#x}")]
    StartedTwice { record: u64 },
    #[error("a SYSUNINIT starts the module at {record:#x}, after all modules were unloaded")]
    StartedAtUnload { record: u64 },
    #[error("the constructor or destructor at {function:#x} is not the start of a function")]
    Constructor { function: u64 },
    #[error("all its modules refused to load, the last with error {error}")]
    ModulesRefused { error: i32 },
    #[error("can't find file {file}")]
    NoSuchFile { file: String },
    #[error("files of one release are loaded; unload them before choosing another")]
    ReleaseInUse,
    #[error("can't unload file: {}", errno::text(*.error))]
    Unload { error: i32 },
}

impl Refusal {
    /// Returns whether FreeBSD, which does not check this, would have panicked or corrupted memory.
    pub fn would_have_panicked(&self) -> bool {
        match self {
            Self::File(error) => error.would_have_panicked(),
            Self::Record(_)
            | Self::Sdt(_)
            | Self::UnknownModule { .. }
            | Self::StartedTwice { .. }
            | Self::Constructor { .. }
            | Self::StartedAtUnload { .. } => true,
            _ => false,
        }
    }

    /// The error number that kldload(2) or kldunload(2) returns.
    pub fn errno(&self) -> i32 {
        match self {
            Self::AlreadyLoaded => errno::EEXIST,
            Self::NoSuchFile { .. } => errno::ENOENT,
            Self::ReleaseInUse => errno::EBUSY,
            Self::Unload { error } => *error,
            // linker_load_file() returns ENOEXEC for every file that was found and not loaded.
            _ => errno::ENOEXEC,
        }
    }

    /// Returns the line that the kernel prints about a file that it does not load.
    pub(super) fn console_line(&self, file: &str, machine: Machine) -> String {
        match self {
            Self::File(LoadError::Undefined { .. }) => {
                format!("{}: {self}", machine.linker())
            }
            Self::File(LoadError::Relocation { .. }) => format!("kldload: {self}"),
            Self::Dependency { .. } => format!("KLD {file}: {self}"),
            Self::InterfacePresent { .. } => format!("{self}"),
            Self::ModulePresent { module, container } => format!(
                "module_register: cannot register {module} from {file}; already loaded from \
                 {container}"
            ),
            // The message of a fault in SDT records already says how FreeBSD behaves.
            Self::Sdt(_) => format!("kldload: {file}: {self}"),
            _ if self.would_have_panicked() => {
                format!("kldload: {file}: {self} (FreeBSD would have panicked)")
            }
            _ => format!("kldload: {file}: {self}"),
        }
    }
}
