//! Why a file is not loaded or not unloaded.

use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::errno;
use crate::linker::BadRecord;
use crate::loader::{LoadError, Machine};
use crate::sdt::Fault;

/// Why kldload or kldunload failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A file of that name is there.
    AlreadyLoaded,
    /// The file itself is no good.
    File(LoadError),
    /// Its linker sets are no good.
    Record(BadRecord),
    /// Its SDT records are no good.
    Sdt(Fault),
    /// No memory, or no addresses.
    OutOfMemory,
    /// It needs an interface that is not there, or not in a version that will do.
    Dependency {
        /// The interface.
        interface: String,
    },
    /// It is an interface that somebody else is already.
    InterfacePresent {
        /// The interface.
        interface: String,
        /// Its version.
        version: i32,
        /// Who is it.
        container: String,
    },
    /// A module of that name is there.
    ModulePresent {
        /// The module.
        module: String,
        /// In which file.
        container: String,
    },
    /// Two modules of the file have one name.
    ModuleTwice {
        /// The name.
        module: String,
    },
    /// A SYSINIT wants a module started that the file does not have.
    UnknownModule {
        /// Where its `moduledata_t` would be.
        record: u64,
    },
    /// Two SYSINITs start the same module.
    StartedTwice {
        /// Where its `moduledata_t` is.
        record: u64,
    },
    /// A SYSUNINIT starts a module, when all are gone.
    StartedAtUnload {
        /// Where its `moduledata_t` would be.
        record: u64,
    },
    /// A function to be called at the start or the end is none of the file's.
    Constructor {
        /// Where it would be.
        function: u64,
    },
    /// All its modules answered MOD_LOAD with an error.
    ModulesRefused {
        /// The last one's.
        error: i32,
    },
    /// There is no file of that name.
    NoSuchFile {
        /// The name.
        file: String,
    },
    /// The kernel cannot become another release's while files are loaded.
    ReleaseInUse,
    /// Somebody does not want it unloaded.
    Unload {
        /// Their error number.
        error: i32,
    },
}

impl Refusal {
    /// Whether FreeBSD would have panicked, or gone on with spoilt memory, where this refuses: as it would by records
    /// that are not what it takes them for.
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
            // Whatever happened to a file that was found: linker_load_file() makes it ENOEXEC.
            _ => errno::ENOEXEC,
        }
    }

    /// What the kernel prints about a file that it does not load.
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
            // Those say themselves what FreeBSD would do.
            Self::Sdt(_) => format!("kldload: {file}: {self}"),
            _ if self.would_have_panicked() => {
                format!("kldload: {file}: {self} (FreeBSD would have panicked)")
            }
            _ => format!("kldload: {file}: {self}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyLoaded => f.write_str("module already loaded or in kernel"),
            Self::File(error) => error.fmt(f),
            Self::Record(error) => error.fmt(f),
            Self::Sdt(fault) => fault.fmt(f),
            Self::OutOfMemory => f.write_str("no memory for the module"),
            Self::Dependency { interface } => {
                write!(f, "depends on {interface} - not available or version mismatch")
            }
            Self::InterfacePresent { interface, version, container } => write!(
                f,
                "interface {interface}.{version} already present in the KLD '{container}'!"
            ),
            Self::ModulePresent { module, container } => {
                write!(f, "module {module} is already loaded from {container}")
            }
            Self::UnknownModule { record } => {
                write!(f, "a SYSINIT starts a module at {record:#x} that the file does not declare")
            }
            Self::ModuleTwice { module } => write!(f, "module {module} is in the file twice"),
            Self::StartedTwice { record } => {
                write!(f, "two SYSINITs start the module at {record:#x}")
            }
            Self::StartedAtUnload { record } => {
                write!(f, "a SYSUNINIT starts a module at {record:#x}, when all are gone")
            }
            Self::Constructor { function } => {
                write!(f, "no function starts at {function:#x}, which is to be called")
            }
            Self::ModulesRefused { error } => {
                write!(f, "all its modules refused to load, the last with error {error}")
            }
            Self::NoSuchFile { file } => write!(f, "can't find file {file}"),
            Self::ReleaseInUse => {
                f.write_str("files of one release are loaded; unload them before choosing another")
            }
            Self::Unload { error } => write!(f, "can't unload file: {}", errno::text(*error)),
        }
    }
}

impl core::error::Error for Refusal {}

impl From<LoadError> for Refusal {
    fn from(error: LoadError) -> Self {
        Self::File(error)
    }
}

impl From<BadRecord> for Refusal {
    fn from(error: BadRecord) -> Self {
        Self::Record(error)
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Sdt(fault)
    }
}
