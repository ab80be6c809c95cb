//! Every limit in one place: of names, arguments, DIF and DOF.

use static_assertions::const_assert_eq;

/// Room for a provider's name, its terminating zero included (`DTRACE_PROVNAMELEN`).
pub const PROVIDER_NAME: usize = 64;
/// Room for a module's name (`DTRACE_MODNAMELEN`).
pub const MODULE_NAME: usize = 64;
/// Room for a function's name: 128 on illumos, 192 on FreeBSD and everywhere else (`DTRACE_FUNCNAMELEN`).
pub const FUNCTION_NAME: usize = if cfg!(target_os = "illumos") { 128 } else { 192 };
/// Room for a probe's name (`DTRACE_NAMELEN`).
pub const PROBE_NAME: usize = 64;
/// Room for the name of an argument's type (`DTRACE_ARGTYPELEN`).
pub const ARGUMENT_TYPE: usize = 128;
/// The length in bytes of the longest name of a provider or of a probe, without the terminating zero.
pub const MAX_NAME: usize = PROBE_NAME - 1;
const_assert_eq!(PROBE_NAME, PROVIDER_NAME);

/// The most argument words of a hit: D names them `arg0` to `arg9` (`DIF_VAR_ARG0` to `DIF_VAR_ARG9`).
pub const ARGS: usize = 10;

/// Integer registers of DIF, `%r0` included, which is always zero (`DIF_DIR_NREGS`).
pub const INTEGER_REGISTERS: u8 = 8;
/// Entries of the tuple stack (`DIF_DTR_NREGS`).
pub const TUPLE_REGISTERS: u8 = 8;
/// Highest index into a table of integers (`DIF_INTOFF_MAX`).
pub const INTEGER_OFFSET: u32 = 0xffff;
/// Highest offset into a table of strings (`DIF_STROFF_MAX`).
pub const STRING_OFFSET: u32 = 0xffff;
/// Highest number of a branch's target.
pub const LABEL: u32 = 0x00ff_ffff;

/// A DOF that a kernel takes has fewer bytes, by illumos's and FreeBSD's default (`dtrace_dof_maxsize`, dtrace.c).
pub const DOF_SIZE: u64 = 8 * 1024 * 1024;
/// Sections of a DOF that are looked at.
pub const DOF_SECTIONS: u32 = 65_536;
/// Bytes of the sections of one DIFO (`dtrace_difo_maxsize`, dtrace.c).
pub const DIFO_SIZE: u64 = 256 * 1024;
/// Instructions of one DIFO.
pub const DIFO_INSTRUCTIONS: u64 = 64 * 1024;
/// Actions of one enabling control block (`dtrace_actions_max`, dtrace.c).
pub const ACTIONS: u64 = 16 * 1024;
