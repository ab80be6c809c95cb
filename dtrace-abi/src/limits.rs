//! All limits: of names, arguments, DIF and DOF.

use static_assertions::const_assert_eq;

/// The size of a provider's name in bytes, including the terminating zero (`DTRACE_PROVNAMELEN`).
pub const PROVIDER_NAME: usize = 64;
/// The size of a module's name (`DTRACE_MODNAMELEN`).
pub const MODULE_NAME: usize = 64;
/// The size of a function's name: 128 on illumos, 192 on FreeBSD and elsewhere (`DTRACE_FUNCNAMELEN`).
pub const FUNCTION_NAME: usize = if cfg!(target_os = "illumos") { 128 } else { 192 };
/// The size of a probe's name (`DTRACE_NAMELEN`).
pub const PROBE_NAME: usize = 64;
/// The size of the name of an argument's type (`DTRACE_ARGTYPELEN`).
pub const ARGUMENT_TYPE: usize = 128;
/// The length in bytes of the longest name of a provider or of a probe, without the terminating zero.
pub const MAX_NAME: usize = PROBE_NAME - 1;
const_assert_eq!(PROBE_NAME, PROVIDER_NAME);

/// The most argument words of a hit: D names them `arg0` to `arg9` (`DIF_VAR_ARG0` to `DIF_VAR_ARG9`).
pub const ARGS: usize = 10;

/// The greatest size of a string in bytes, with its terminating zero (`strsize`).
pub const STRING: u32 = 16 * 1024;
/// The greatest number of frames of a stack whose number is an option (`stackframes`).
pub const FRAMES: u32 = 1024;

/// The number of integer registers of DIF, including `%r0`, which is always zero (`DIF_DIR_NREGS`).
pub const INTEGER_REGISTERS: u8 = 8;
/// The number of entries of the tuple stack (`DIF_DTR_NREGS`).
pub const TUPLE_REGISTERS: u8 = 8;
/// The highest index into an integer table (`DIF_INTOFF_MAX`).
pub const INTEGER_OFFSET: u32 = 0xffff;
/// The highest offset into a string table (`DIF_STROFF_MAX`).
pub const STRING_OFFSET: u32 = 0xffff;
/// The highest target of a branch.
pub const LABEL: u32 = 0x00ff_ffff;

/// The exclusive limit of the size of a DOF in bytes, the default of illumos and FreeBSD (`dtrace_dof_maxsize`,
/// dtrace.c).
pub const DOF_SIZE: u64 = 8 * 1024 * 1024;
/// The greatest number of sections of a DOF.
pub const DOF_SECTIONS: u32 = 65_536;
/// The greatest size in bytes of the sections of one DIFO (`dtrace_difo_maxsize`, dtrace.c).
pub const DIFO_SIZE: u64 = 256 * 1024;
/// The greatest number of instructions of one DIFO.
pub const DIFO_INSTRUCTIONS: u64 = 64 * 1024;
/// The greatest number of actions of one enabling control block (`dtrace_actions_max`, dtrace.c).
pub const ACTIONS: u64 = 16 * 1024;
