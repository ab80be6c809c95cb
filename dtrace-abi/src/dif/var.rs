//! The kernel's variables, and the ranges of variable numbers.

use crate::Platform;

/// The first array of a program (`DIF_VAR_ARRAY_UBASE`); no compiler uses such arrays.
pub const VAR_ARRAY_USER: u16 = 0x0080;
/// The highest array (`DIF_VAR_ARRAY_MAX`): `ldga` and `ldta` have eight bits for it.
pub const VAR_ARRAY_MAX: u16 = 0x00ff;
/// The lowest variable that is not an array (`DIF_VAR_OTHER_MIN`).
pub const VAR_OTHER_MIN: u16 = 0x0100;
/// The first variable of a program (`DIF_VAR_OTHER_UBASE`).
pub const VAR_OTHER_USER: u16 = 0x0500;
/// The highest variable (`DIF_VAR_OTHER_MAX`).
pub const VAR_OTHER_MAX: u16 = 0xffff;

numbered! {
    /// A variable of the kernel (`DIF_VAR_*`), by its name in D. Numbers from 0x121 on are those of FreeBSD; on illumos
    /// 0x121 is `threadname`, the last variable, and array 3 is `vmregs`.
    pub enum Builtin: u16 {
        Args = 0x0000, "args";
        Regs = 0x0001, "regs";
        Uregs = 0x0002, "uregs";
        Curthread = 0x0100, "curthread";
        Timestamp = 0x0101, "timestamp";
        Vtimestamp = 0x0102, "vtimestamp";
        Ipl = 0x0103, "ipl";
        Epid = 0x0104, "epid";
        Id = 0x0105, "id";
        Arg0 = 0x0106, "arg0";
        Arg1 = 0x0107, "arg1";
        Arg2 = 0x0108, "arg2";
        Arg3 = 0x0109, "arg3";
        Arg4 = 0x010a, "arg4";
        Arg5 = 0x010b, "arg5";
        Arg6 = 0x010c, "arg6";
        Arg7 = 0x010d, "arg7";
        Arg8 = 0x010e, "arg8";
        Arg9 = 0x010f, "arg9";
        Stackdepth = 0x0110, "stackdepth";
        Caller = 0x0111, "caller";
        Probeprov = 0x0112, "probeprov";
        Probemod = 0x0113, "probemod";
        Probefunc = 0x0114, "probefunc";
        Probename = 0x0115, "probename";
        Pid = 0x0116, "pid";
        Tid = 0x0117, "tid";
        Execname = 0x0118, "execname";
        Zonename = 0x0119, "zonename";
        Walltimestamp = 0x011a, "walltimestamp";
        Ustackdepth = 0x011b, "ustackdepth";
        Ucaller = 0x011c, "ucaller";
        Ppid = 0x011d, "ppid";
        Uid = 0x011e, "uid";
        Gid = 0x011f, "gid";
        Errno = 0x0120, "errno";
        /// FreeBSD only.
        Execargs = 0x0121, "execargs";
        /// FreeBSD only, since 13.0.
        Jid = 0x0122, "jid";
        /// FreeBSD only, since 13.0.
        Jailname = 0x0123, "jailname";
        /// FreeBSD only.
        Cpu = 0x0200, "cpu";
        /// Hosts of `sdt-framework` only, with a number that neither kernel uses. On illumos it has the number of
        /// [`Execargs`](Self::Execargs), and FreeBSD has no such variable.
        Threadname = 0x0480, "threadname";
    }
}

impl Builtin {
    /// Returns whether the kernel of a platform has it.
    pub const fn is_on(self, platform: Platform) -> bool {
        match self {
            Self::Execargs | Self::Jid | Self::Jailname | Self::Cpu | Self::Threadname => {
                matches!(platform, Platform::Freebsd)
            }
            _ => true,
        }
    }
}
