//! What programs in D ask of the kernel they run in, and who answers.

mod costs;
mod readable;

use core::sync::atomic::AtomicU32;

pub use costs::Costs;
pub use readable::Readable;

/// A number that the kernel knows of what runs now: variables of D.
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

/// A text that the kernel knows of what runs now: variables of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of D's variables")]
pub enum Text {
    Execname,
    Zonename,
    Jailname,
    Execargs,
}

/// What a program asks of a lock: subroutines of D.
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

/// What stands at an address of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its module.
    pub module: &'a [u8],
    /// Its name, as it is in the file.
    pub name: &'a [u8],
    /// Where it begins.
    pub address: u64,
    /// Bytes of it.
    pub size: u64,
}

/// What a module declares for programs: its structs and enums, and translators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleText<'a> {
    /// The module, as its probes have it.
    pub module: &'a [u8],
    /// Text as `sdt_core::layout` documents it.
    pub text: &'a [u8],
}

/// What destructive actions do.
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
    /// Spins for so many nanoseconds.
    Chill(u64),
}

/// A kernel of which nothing is known: programs that ask it are stopped.
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

/// The kernel, as programs see it. Everything here is called in probe context: it takes no lock, allocates
/// nothing, faults nowhere and calls nothing that can itself be probed.
///
/// Two things every kernel has; the others it may have. A program that asks for what the kernel has not is
/// stopped with an illegal operation, as in DTrace.
///
/// Nothing of this has to be believed for memory to stay safe: a wrong answer makes a wrong trace. A function of the
/// framework that waits or frees memory refuses if it is called here ([`ProbeContext`](crate::ProbeContext)).
pub trait Kernel {
    /// Nanoseconds since boot.
    fn timestamp(&self) -> u64;

    /// Copies kernel memory, all of `into`, or says that it cannot be read (then what `into` holds does not
    /// matter). The address is whatever a program has computed: this looks whether it can be read, in a list
    /// of ranges or by a load whose fault is caught. Never is anything read that reading changes: device
    /// memory and the like is [toxic](Self::is_toxic).
    fn load(&self, address: u64, into: &mut [u8]) -> bool;

    /// What the functions below cost that programs can call often. Asked when a consumer first goes, not in probe context.
    fn costs(&self) -> Costs {
        Costs::DEFAULT
    }

    /// Whether any byte of a range of kernel memory must not be read by anybody.
    fn is_toxic(&self, _address: u64, _length: u64) -> bool {
        false
    }

    /// Whether loads of 2, 4 and 8 bytes have to be aligned; others are faults then. In DTrace: not on x86.
    fn aligned(&self) -> bool {
        cfg!(not(any(target_arch = "x86", target_arch = "x86_64")))
    }

    /// Identity of the thread that runs, from 1 to 2^61 - 1, which no other thread has at the same time: what
    /// thread-local variables are of.
    fn thread(&self) -> u64 {
        1
    }

    /// How many interrupts are being handled: they have thread-local variables of their own. 3 bits count.
    fn interrupts(&self) -> u8 {
        0
    }

    /// A number of what runs now. `Caller` and `Stackdepth` are asked of [`stack`](Self::stack) if this does not know them.
    fn number(&self, _which: Number) -> Option<u64> {
        None
    }

    /// A text of what runs now, without a zero byte. It stays as it is while the probe fires.
    fn text(&self, _which: Text) -> Option<&[u8]> {
        None
    }

    /// An argument of the probe that was not brought along; 0 if there is none.
    fn argument(&self, _index: u64) -> u64 {
        0
    }

    /// A register of the process's (`uregs[]`).
    fn user_register(&self, _index: u64) -> Option<u64> {
        None
    }

    /// Copies memory of the process that runs, without waiting for a page that is not there.
    fn copyin(&self, _address: u64, _into: &mut [u8]) -> bool {
        false
    }

    /// Copies to memory of the process that runs, likewise.
    fn copyout(&self, _from: &[u8], _address: u64) -> bool {
        false
    }

    /// About a lock at an address, of which it is known only that a program has computed it.
    fn lock(&self, _question: LockQuestion, _address: u64) -> Option<u64> {
        None
    }

    /// Whether what runs is, or descends from, the process with this number.
    fn progenyof(&self, _process: u64) -> Option<bool> {
        None
    }

    /// Return addresses of the kernel's stack, the function that fired first, as many as there are and fit: of a probe
    /// whose provider says that so many frames of its own are on top. How many there are.
    fn stack(&self, _own: u32, _frames: &mut [u64]) -> usize {
        0
    }

    /// Addresses of the process's stack, its program counter first, likewise.
    fn ustack(&self, _frames: &mut [u64]) -> usize {
        0
    }

    /// What stands at an address of the kernel's, for consumers: not called in probe context.
    fn symbol(&self, _address: u64, _show: &mut dyn FnMut(Symbol<'_>)) {}

    /// A variable or function by its name, of this module if one is said, for consumers: not called in probe context.
    fn symbol_named(
        &self,
        _module: Option<&[u8]>,
        _name: &[u8],
        _show: &mut dyn FnMut(Symbol<'_>),
    ) {
    }

    /// What a module declares, for consumers: not called in probe context. Modules are counted from 0, those that declare
    /// anything; without this function there is the image that this framework is in. A kernel that loads modules keeps what
    /// their files have in section `.sdt_types`.
    fn declared(&self, index: usize, show: &mut dyn FnMut(ModuleText<'_>)) {
        if let Some(sdt_core::Declared { module, text }) =
            sdt_core::declared().filter(|_| index == 0)
        {
            show(ModuleText { module: module.to_bytes(), text });
        }
    }

    /// Does something that only programs may that are declared destructive; says whether this kernel can.
    fn destroy(&self, _how: Destruction) -> bool {
        false
    }

    /// A word of the thread that runs, which is 0 when the thread comes to be and whenever its process gets another name, and
    /// is otherwise left alone: the predicate that was false for this thread the last time (`t_predcache`).
    fn predicate_cache(&self) -> Option<&AtomicU32> {
        None
    }

    /// A speculation that is free, 0 if there is none: `None` where nobody speculates.
    fn speculation(&self) -> Option<u64> {
        None
    }
}
