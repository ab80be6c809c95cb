//! Faults during the execution of DIF.

numbered! {
    /// The reason why a program of an enabling was aborted, the fourth argument of `dtrace:::ERROR` (`DTRACEFLT_*`).
    /// The names are those that dtrace(1) prints (dt_error.c).
    pub enum Fault: u16 {
        Unknown = 0, "unknown fault";
        BadAddress = 1, "invalid address";
        BadAlignment = 2, "invalid alignment";
        IllegalOperation = 3, "illegal operation";
        DivideByZero = 4, "divide-by-zero";
        NoScratch = 5, "out of scratch space";
        KernelPrivilege = 6, "invalid kernel access";
        UserPrivilege = 7, "invalid user access";
        TupleOverflow = 8, "tuple stack overflow";
        BadStack = 9, "bad stack";
        Library = 1000, "library-level fault";
    }
}
