//! Actions of an enabling, which run when its probe fires.

numbered! {
    /// An action, aggregations included (`DTRACEACT_*`, `DTRACEAGG_*`). The names are those of D.
    ///
    /// The upper byte is the class, see [`class`](Action::class).
    pub enum Action: u16 {
        None = 0, "none";
        /// The value of a DIFO; nothing is recorded if its type has no size.
        DifExpr = 1, "trace";
        Exit = 2, "exit";
        Printf = 3, "printf";
        Printa = 4, "printa";
        /// An action that the consumer performs; the argument is its [`LibAction`].
        LibAct = 5, "library action";
        Tracemem = 6, "tracemem";
        /// The size for the `tracemem` that follows.
        TracememDynsize = 7, "tracemem size";
        /// FreeBSD only.
        Printm = 8, "printm";
        Ustack = 0x0101, "ustack";
        Jstack = 0x0102, "jstack";
        Usym = 0x0103, "usym";
        Umod = 0x0104, "umod";
        Uaddr = 0x0105, "uaddr";
        Stop = 0x0201, "stop";
        Raise = 0x0202, "raise";
        System = 0x0203, "system";
        Freopen = 0x0204, "freopen";
        Stack = 0x0401, "stack";
        Sym = 0x0402, "sym";
        Mod = 0x0403, "mod";
        Breakpoint = 0x0501, "breakpoint";
        Panic = 0x0502, "panic";
        Chill = 0x0503, "chill";
        Speculate = 0x0601, "speculate";
        Commit = 0x0602, "commit";
        Discard = 0x0603, "discard";
        Count = 0x0701, "count";
        Min = 0x0702, "min";
        Max = 0x0703, "max";
        Avg = 0x0704, "avg";
        Sum = 0x0705, "sum";
        Stddev = 0x0706, "stddev";
        Quantize = 0x0707, "quantize";
        Lquantize = 0x0708, "lquantize";
        Llquantize = 0x0709, "llquantize";
    }
}

/// The class of an action: the upper byte of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActionClass {
    /// Records a value of the program.
    Plain,
    /// Records data of the process (`DTRACEACT_PROC`).
    Process,
    /// Changes the process (`DTRACEACT_PROC_DESTRUCTIVE`).
    ProcessDestructive,
    /// Records data of the kernel (`DTRACEACT_KERNEL`).
    Kernel,
    /// Changes the kernel (`DTRACEACT_KERNEL_DESTRUCTIVE`).
    KernelDestructive,
    /// Speculation (`DTRACEACT_SPECULATIVE`).
    Speculative,
    /// Aggregation (`DTRACEACT_AGGREGATION`).
    Aggregation,
}

impl Action {
    /// Returns the class of the action.
    pub const fn class(self) -> ActionClass {
        match self.number() >> 8 {
            1 => ActionClass::Process,
            2 => ActionClass::ProcessDestructive,
            4 => ActionClass::Kernel,
            5 => ActionClass::KernelDestructive,
            6 => ActionClass::Speculative,
            7 => ActionClass::Aggregation,
            _ => ActionClass::Plain,
        }
    }

    /// Returns whether the action is destructive, so that it needs dtrace's `-w` (`DTRACEACT_ISDESTRUCTIVE`).
    pub const fn is_destructive(self) -> bool {
        matches!(self.class(), ActionClass::ProcessDestructive | ActionClass::KernelDestructive)
    }

    /// Returns whether it is an aggregating action (`DTRACEACT_ISAGG`).
    pub const fn is_aggregation(self) -> bool {
        matches!(self.class(), ActionClass::Aggregation)
    }

    /// Returns whether it has a format (`DTRACEACT_ISPRINTFLIKE`).
    pub const fn is_printf_like(self) -> bool {
        matches!(self, Self::Printf | Self::Printa | Self::System | Self::Freopen)
    }
}

numbered! {
    /// The argument of [`Action::LibAct`]: the action that the consumer performs for each record (`DT_ACT_*`, libdtrace's
    /// `dt_impl.h`).
    ///
    /// libdtrace numbers them after the highest subroutine, so the numbers depend on platform and release; only the
    /// library that wrote them reads them. These are the numbers of FreeBSD 13.
    pub enum LibAction: u16 {
        Clear = 69, "clear";
        Normalize = 70, "normalize";
        Denormalize = 71, "denormalize";
        Trunc = 72, "trunc";
        Ftruncate = 75, "ftruncate";
        Setopt = 82, "setopt";
    }
}

/// The argument of `ustack` and `jstack`: the number of frames, and the size of names (`DTRACE_USTACK_ARG`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UstackArg {
    /// The number of frames; 0 selects the value of the option `ustackframes` or `jstackframes`.
    pub frames: u32,
    /// The size in bytes of the names of frames.
    pub string_size: u32,
}

impl UstackArg {
    /// Returns the argument of the action.
    pub const fn encode(self) -> u64 {
        (self.string_size as u64) << 32 | self.frames as u64
    }

    /// Decodes the argument of the action.
    pub const fn decode(argument: u64) -> Self {
        Self { frames: argument as u32, string_size: (argument >> 32) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        assert!(Action::Panic.is_destructive() && Action::System.is_destructive());
        assert!(!Action::Stack.is_destructive());
        assert!(Action::Llquantize.is_aggregation());
        assert_eq!(Action::DifExpr.class(), ActionClass::Plain);
    }

    #[test]
    fn ustack() {
        let argument = UstackArg { frames: 20, string_size: 500 };
        assert_eq!(argument.encode(), 500 << 32 | 20);
        assert_eq!(UstackArg::decode(argument.encode()), argument);
    }
}
