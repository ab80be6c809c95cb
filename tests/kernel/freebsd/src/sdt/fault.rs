//! SDT records that FreeBSD would fall over.

use alloc::ffi::CString;
use alloc::string::String;
use core::fmt;

use sdt_framework::registration::RegistrationError;

use super::Tracepoint;

/// Why a file with such records is not loaded here, where FreeBSD would load it and panic, or write where it
/// must not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A set has no whole number of records.
    Unfinished {
        /// The set.
        set: &'static str,
        /// Its bytes.
        size: usize,
        /// Bytes of a record.
        record: usize,
    },
    /// A record is not writable data of the file.
    NotData {
        /// Its set.
        set: &'static str,
        /// Its address.
        address: u64,
        /// Its bytes.
        size: usize,
    },
    /// What should point to text does not.
    Text {
        /// What it is.
        what: &'static str,
        /// The record that has the pointer.
        record: u64,
        /// The pointer.
        pointer: u64,
    },
    /// An argument's record is in its set twice.
    Twice {
        /// Its address.
        address: u64,
    },
    /// A tracepoint does not lead from code of the file to code of the file.
    NotCode {
        /// The tracepoint.
        tracepoint: Tracepoint,
    },
    /// DTrace does not take a provider of this name.
    ProviderName {
        /// The name.
        name: CString,
        /// Why not.
        error: RegistrationError,
    },
    /// A probe's provider is in no set.
    NoProvider {
        /// The probe, as its record has its names.
        probe: String,
        /// Address of the provider's record.
        provider: u64,
    },
    /// An argument's or a tracepoint's probe is in no set.
    NoProbe {
        /// `argument type` or `tracepoint`.
        of: &'static str,
        /// Address of the probe's record.
        probe: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfinished { set, size, record } => write!(
                f,
                "set_{set} has {size} bytes, not a whole number of records of {record}: FreeBSD would \
                 read behind its end"
            ),
            Self::NotData { set, address, size } => write!(
                f,
                "set_{set} has a record at {address:#x} whose {size} bytes are not writable data of the \
                 file: FreeBSD would panic"
            ),
            Self::Text { what, record, pointer } => write!(
                f,
                "the {what} in the record at {record:#x} is at {pointer:#x}, where the file has no text: \
                 FreeBSD would panic"
            ),
            Self::Twice { address } => write!(
                f,
                "set_sdt_argtypes_set has the record at {address:#x} twice: FreeBSD would spoil its list"
            ),
            Self::NotCode { tracepoint: Tracepoint { patchpoint, target } } => write!(
                f,
                "the tracepoint {patchpoint:#x}->{target:#x} is not code of the file at both ends: \
                 FreeBSD would write there"
            ),
            Self::ProviderName { name, error: error @ RegistrationError::LongName } => write!(
                f,
                "provider '{}' ({error}): FreeBSD would cut it off in listings and match nothing with it",
                name.to_string_lossy()
            ),
            Self::ProviderName { name, error } => write!(
                f,
                "provider '{}' cannot be registered ({error}): FreeBSD would panic when it creates a probe",
                name.to_string_lossy()
            ),
            Self::NoProvider { probe, provider } => write!(
                f,
                "probe defined without a provider: {probe} has one at {provider:#x} that is in no set: \
                 FreeBSD would panic"
            ),
            Self::NoProbe { of, probe } => write!(
                f,
                "the probe of an SDT {of}, at {probe:#x}, is in no set: FreeBSD would panic"
            ),
        }
    }
}

impl core::error::Error for Fault {}
