//! Defects of SDT records that FreeBSD does not check and that would crash FreeBSD.

use alloc::ffi::CString;
use alloc::string::String;

use sdt_framework::registration::RegistrationError;
use thiserror::Error;

use super::tracepoint::Tracepoint;

/// A defect of a file's SDT records, for which this kernel refuses the file. FreeBSD would load the file, and then panic or write
/// outside of the file.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Fault {
    #[error(
        "set_{set} has {size} bytes, not a whole number of records of {record}: FreeBSD would read behind its end"
    )]
    Unfinished { set: &'static str, size: usize, record: usize },
    #[error(
        "set_{set} has a record at {address:#x} whose {size} bytes are not writable data of the file: FreeBSD would panic"
    )]
    NotData { set: &'static str, address: u64, size: usize },
    #[error(
        "the {what} in the record at {record:#x} is at {pointer:#x}, where the file has no text: FreeBSD would panic"
    )]
    Text { what: &'static str, record: u64, pointer: u64 },
    #[error(
        "set_sdt_argtypes_set has the record at {address:#x} twice: FreeBSD would corrupt its list"
    )]
    Twice { address: u64 },
    #[error(
        "the tracepoint {:#x}->{:#x} is not code of the file at both ends: FreeBSD would write there",
        .tracepoint.patchpoint, .tracepoint.target
    )]
    NotCode { tracepoint: Tracepoint },
    #[error(
        "provider '{}' ({error}): FreeBSD would cut it off in listings and match nothing with it",
        .name.to_string_lossy()
    )]
    LongProviderName { name: CString, error: RegistrationError },
    #[error(
        "provider '{}' cannot be registered ({error}): FreeBSD would panic when it creates a probe",
        .name.to_string_lossy()
    )]
    ProviderName { name: CString, error: RegistrationError },
    #[error(
        "probe defined without a provider: {probe} has one at {provider:#x} that is in no set: FreeBSD would panic"
    )]
    NoProvider { probe: String, provider: u64 },
    /// `of` is `argument type` or `tracepoint`.
    #[error("the probe of an SDT {of}, at {probe:#x}, is in no set: FreeBSD would panic")]
    NoProbe { of: &'static str, probe: u64 },
}

impl Fault {
    /// Returns the fault for a provider whose name the framework refuses with `error`.
    pub(super) fn provider(name: CString, error: RegistrationError) -> Self {
        match error {
            RegistrationError::LongName => Self::LongProviderName { name, error },
            error => Self::ProviderName { name, error },
        }
    }
}
