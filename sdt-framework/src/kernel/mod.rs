//! The interface of D programs to the kernel.

mod costs;
mod readable;

use core::sync::atomic::AtomicU32;

pub use costs::Costs;
use dtrace_abi::System;
pub use readable::Readable;

/// A number that describes the current thread or process: a variable of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of D's variables")]
pub enum Number {
    Curthread,
    Vtimestamp,
    Walltimestamp,
    Ipl,
    Stackdepth,
    Caller,
    Ustackdepth,
    Ucaller,
    Pid,
    Tid,
    Ppid,
    Uid,
    Gid,
    Errno,
    Jid,
}

/// A text that describes the current process or thread: a variable of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of D's variables")]
pub enum Text {
    Execname,
    Zonename,
    Jailname,
    Execargs,
    Threadname,
}

/// A question about a lock: a subroutine of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of D's subroutines")]
pub enum LockQuestion {
    MutexOwned,
    MutexOwner,
    MutexTypeAdaptive,
    MutexTypeSpin,
    RwReadHeld,
    RwWriteHeld,
    RwIswriter,
    SxSharedHeld,
    SxExclusiveHeld,
    SxIsexclusive,
}

/// A symbol of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its module.
    pub module: &'a [u8],
    /// Its name, as in the file.
    pub name: &'a [u8],
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// The declarations of a module for D programs: structs, enums and translators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleText<'a> {
    /// The module, as its probes have it.
    pub module: &'a [u8],
    /// Text as `sdt_core::layout` documents it.
    pub text: &'a [u8],
}

/// A destructive action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destruction {
    /// Stops the process that runs.
    Stop,
    /// Sends it a signal.
    Raise(u64),
    /// Enters the kernel's debugger.
    Breakpoint,
    /// Panics.
    Panic,
    /// Spins for this number of nanoseconds.
    Chill(u64),
}

/// A kernel without the optional functions and without readable memory. The framework stops programs that need either.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unknown;

impl Kernel for Unknown {
    fn timestamp(&self) -> u64 {
        0
    }

    fn load(&self, _address: u64, _into: &mut [u8]) -> bool {
        false
    }
}

/// The interface of D programs to the kernel. All functions run in probe context, unless they state otherwise: they take no
/// lock, allocate nothing, do not fault, and call nothing that can have a probe.
///
/// Two functions are required, the others are optional. A program that uses a function that the kernel does not implement is
/// stopped with an illegal operation, as in DTrace.
///
/// Memory safety does not depend on the results: a wrong result makes a wrong trace. A function of the framework that waits or
/// frees memory returns an error if it is called here ([`ProbeContext`](crate::ProbeContext)).
pub trait Kernel {
    /// Returns the nanoseconds since boot.
    fn timestamp(&self) -> u64;

    /// Copies kernel memory to all of `into`; returns `false` if it cannot be read, and then the content of `into` does not
    /// matter. A program computes the address, so this function checks it by a list of ranges, or by a load whose fault the
    /// kernel catches. The framework does not read [toxic](Self::is_toxic) memory, such as device memory.
    fn load(&self, address: u64, into: &mut [u8]) -> bool;

    /// Returns the costs of the functions below that programs can call often. Called when a consumer first starts, not in
    /// probe context.
    fn costs(&self) -> Costs {
        Costs::DEFAULT
    }

    /// Returns the operating system whose numbers programs in D can name: `EAGAIN`, `SIGKILL`, `O_RDONLY`. The default is the
    /// system for which the framework is compiled. Not called in probe context.
    fn system(&self) -> System {
        System::TARGET
    }

    /// Returns whether any byte of a range of kernel memory must not be read.
    fn is_toxic(&self, _address: u64, _length: u64) -> bool {
        false
    }

    /// Returns whether loads of 2, 4 and 8 bytes must be aligned; unaligned loads are faults then. As in DTrace, false on x86.
    fn aligned(&self) -> bool {
        cfg!(not(any(target_arch = "x86", target_arch = "x86_64")))
    }

    /// Returns the identity of the current thread, from 1 to 2^61 - 1, which no other thread has at the same time.
    /// Thread-local variables belong to it.
    fn thread(&self) -> u64 {
        1
    }

    /// Returns the number of nested interrupts, which have their own thread-local variables. The framework uses 3 bits.
    fn interrupts(&self) -> u8 {
        0
    }

    /// Returns a number. For `Caller` and `Stackdepth`, `None` makes the framework call [`stack`](Self::stack).
    fn number(&self, _which: Number) -> Option<u64> {
        None
    }

    /// Returns a text without a zero byte. It does not change while the probe fires.
    fn text(&self, _which: Text) -> Option<&[u8]> {
        None
    }

    /// Returns an argument that the hit does not contain; 0 if there is none.
    fn argument(&self, _index: u64) -> u64 {
        0
    }

    /// Returns a register of the process (`uregs[]`).
    fn user_register(&self, _index: u64) -> Option<u64> {
        None
    }

    /// Copies memory of the current process, without waiting for a page that is not present.
    fn copyin(&self, _address: u64, _into: &mut [u8]) -> bool {
        false
    }

    /// Copies to memory of the current process, without waiting for a page that is not present.
    fn copyout(&self, _from: &[u8], _address: u64) -> bool {
        false
    }

    /// Answers a question about the lock at an address that a program has computed.
    fn lock(&self, _question: LockQuestion, _address: u64) -> Option<u64> {
        None
    }

    /// Returns whether the current process is the process with this number, or one of its descendants.
    fn progenyof(&self, _process: u64) -> Option<bool> {
        None
    }

    /// Writes the return addresses of the kernel's stack, as many as fit, beginning with the function that fired. `_own` is
    /// the number of frames of the provider on top of it. Returns the number of addresses.
    fn stack(&self, _own: u32, _frames: &mut [u64]) -> usize {
        0
    }

    /// Writes the return addresses of the process's stack, beginning with the program counter. Returns their number.
    fn ustack(&self, _frames: &mut [u64]) -> usize {
        0
    }

    /// Passes the symbol at a kernel address to `_show`, for consumers. Not called in probe context.
    fn symbol(&self, _address: u64, _show: &mut dyn FnMut(Symbol<'_>)) {}

    /// Passes a variable or function with this name to `_show`, for consumers; only of this module, if one is given. Not called
    /// in probe context.
    fn symbol_named(
        &self,
        _module: Option<&[u8]>,
        _name: &[u8],
        _show: &mut dyn FnMut(Symbol<'_>),
    ) {
    }

    /// Passes the declarations of a module to `show`, for consumers. Not called in probe context. `index` counts the modules that
    /// declare anything from 0. By default, passes only the declarations of the image that contains this framework. A kernel that
    /// loads modules keeps the content of the section `.sdt_types` of their files.
    fn declared(&self, index: usize, show: &mut dyn FnMut(ModuleText<'_>)) {
        if let Some(sdt_core::Declared { module, text }) =
            sdt_core::declared().filter(|_| index == 0)
        {
            show(ModuleText { module: module.to_bytes(), text });
        }
    }

    /// Performs a destructive action. Returns whether this kernel supports it.
    fn destroy(&self, _how: Destruction) -> bool {
        false
    }

    /// Returns a word of the current thread for the number of the predicate that was false last (`t_predcache`). The kernel
    /// sets it to 0 when it creates the thread and when the name of the process changes, and does not change it otherwise.
    fn predicate_cache(&self) -> Option<&AtomicU32> {
        None
    }

    /// Returns the number of a free speculation, 0 if there is none, or `None` if there are no speculations.
    fn speculation(&self) -> Option<u64> {
        None
    }
}
