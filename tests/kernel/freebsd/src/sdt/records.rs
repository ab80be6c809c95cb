//! Reads the records in the SDT sets of a file out of its image.
//!
//! FreeBSD's sdt uses the records in place, and links them into its lists, after the SYSINITs of the file have run. This kernel
//! copies the records before any code of the file runs, so that it can refuse records that would crash FreeBSD, and keeps
//! separate lists. It changes only the field `id` of a probe's record.

use alloc::ffi::CString;
use alloc::vec::Vec;

use super::fault::Fault;
use super::layout::{self, PROVIDER_SIZE, argtype, tracepoint};
use super::tracepoint::Tracepoint;
use crate::loader::{Linked, Machine};
use crate::{Generation, Release};
use stand_in_base::image::Protection;

const PROVIDERS: &str = "sdt_providers_set";
const PROBES: &str = "sdt_probes_set";
const ARGTYPES: &str = "sdt_argtypes_set";
const TRACEPOINTS: &str = "sdt_tracepoint_set";

/// The records in a file's SDT sets, in their order.
#[derive(Clone, Debug, Default)]
pub struct Records {
    pub(super) providers: Vec<Provider>,
    pub(super) probes: Vec<Probe>,
    pub(super) argtypes: Vec<(u64, ArgType)>,
    pub(super) tracepoints: Vec<(u64, Tracepoint)>,
}

/// `struct sdt_provider`.
#[derive(Clone, Debug)]
pub(super) struct Provider {
    pub(super) address: u64,
    pub(super) name: CString,
}

/// `struct sdt_probe`.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) address: u64,
    /// Its `version`, if it differs from the size of this release's records. The rest of the record is not read.
    pub(super) content: Result<Content, i32>,
}

/// The content of a probe's record.
#[derive(Clone, Debug)]
pub(super) struct Content {
    /// Address of its provider's record.
    pub(super) provider: u64,
    pub(super) module: CString,
    pub(super) function: CString,
    pub(super) name: CString,
    /// Address of its `id`.
    pub(super) id: u64,
}

/// `struct sdt_argtype`. [`Records`] stores it as a pair with the address of its probe's record, like a tracepoint.
#[derive(Clone, Debug)]
pub(super) struct ArgType {
    pub(super) address: u64,
    pub(super) ndx: i32,
    pub(super) native: Option<CString>,
    pub(super) translated: Option<CString>,
}

impl Records {
    /// Creates the records of the kernel itself: one provider, whose record is at `address`.
    pub fn with_provider(address: u64, name: CString) -> Self {
        Self { providers: alloc::vec![Provider { address, name }], ..Self::default() }
    }

    /// Reads the sets of an image.
    ///
    /// # Errors
    /// If a record is outside of the file's data, or contains an invalid pointer to a name.
    pub fn read(image: &Linked, release: Release, machine: Machine) -> Result<Self, Fault> {
        let reader = Reader { image, machine };
        let layout = layout::Probe::of(release.generation());
        let mut records = Self::default();
        for address in reader.pointers(PROVIDERS)? {
            reader.data(PROVIDERS, address, PROVIDER_SIZE)?;
            let name = reader.text("provider's name", address, 0)?;
            records.providers.push(Provider { address, name });
        }
        for address in reader.pointers(PROBES)? {
            records.probes.push(reader.probe(address, &layout)?);
        }
        for address in reader.pointers(ARGTYPES)? {
            if records.argtypes.iter().any(|(_, other)| other.address == address) {
                return Err(Fault::Twice { address });
            }
            records.argtypes.push(reader.argtype(address)?);
        }
        // FreeBSD reads this set since 15.
        if release.generation() == Generation::Patched {
            records.tracepoints = reader.tracepoints()?;
        }
        Ok(records)
    }

    /// Returns whether there are no providers and no probes.
    pub fn is_empty(&self) -> bool {
        self.providers.is_empty() && self.probes.is_empty()
    }
}

struct Reader<'a> {
    image: &'a Linked,
    machine: Machine,
}

impl Reader<'_> {
    /// The records of a set of pointers.
    fn pointers(&self, set: &'static str) -> Result<Vec<u64>, Fault> {
        let (_, contents) = self.image.set_contents(set);
        let (pointers, rest) = contents.as_chunks();
        if !rest.is_empty() {
            return Err(Fault::Unfinished { set, size: contents.len(), record: size_of::<u64>() });
        }
        Ok(pointers.iter().map(|&pointer| u64::from_le_bytes(pointer)).collect())
    }

    /// Checks that a record is in writable data of the file, because FreeBSD's sdt writes to records.
    fn data(&self, set: &'static str, address: u64, size: usize) -> Result<(), Fault> {
        if self.image.holds(address, size, Protection::Write) {
            return Ok(());
        }
        Err(Fault::NotData { set, address, size })
    }

    /// Returns a word of a record that [`data`](Self::data) has checked.
    fn word(&self, record: u64, field: usize) -> u64 {
        self.image.read(record + field as u64).map_or(0, |&bytes| u64::from_le_bytes(bytes))
    }

    fn int(&self, record: u64, field: usize) -> i32 {
        self.image.read(record + field as u64).map_or(0, |&bytes| i32::from_le_bytes(bytes))
    }

    /// The text that a pointer in a record points to.
    fn text(&self, what: &'static str, record: u64, field: usize) -> Result<CString, Fault> {
        let pointer = self.word(record, field);
        let text = self.image.c_str(pointer).ok_or(Fault::Text { what, record, pointer })?;
        Ok(text.into())
    }

    fn probe(&self, address: u64, layout: &layout::Probe) -> Result<Probe, Fault> {
        self.data(PROBES, address, size_of::<i32>())?;
        let version = self.int(address, layout::Probe::VERSION);
        if usize::try_from(version) != Ok(layout.size) {
            return Ok(Probe { address, content: Err(version) });
        }
        self.data(PROBES, address, layout.size)?;
        let text = |what, field| self.text(what, address, field);
        let content = Content {
            provider: self.word(address, layout::Probe::PROVIDER),
            module: text("probe's module", layout.module)?,
            function: text("probe's function", layout.function)?,
            name: text("probe's name", layout.name)?,
            id: address + layout.id as u64,
        };
        Ok(Probe { address, content: Ok(content) })
    }

    fn argtype(&self, address: u64) -> Result<(u64, ArgType), Fault> {
        self.data(ARGTYPES, address, argtype::SIZE)?;
        let text = |what, field: usize| match self.word(address, field) {
            0 => Ok(None),
            _ => self.text(what, address, field).map(Some),
        };
        let record = ArgType {
            address,
            ndx: self.int(address, argtype::NDX),
            native: text("argument's type", argtype::TYPE)?,
            translated: text("argument's translated type", argtype::XTYPE)?,
        };
        Ok((self.word(address, argtype::PROBE), record))
    }

    /// Reads the tracepoints. Their set is an array of records, not of pointers to records.
    fn tracepoints(&self) -> Result<Vec<(u64, Tracepoint)>, Fault> {
        let (start, contents) = self.image.set_contents(TRACEPOINTS);
        let (set, size) = (TRACEPOINTS, contents.len());
        if !size.is_multiple_of(tracepoint::SIZE) {
            return Err(Fault::Unfinished { set, size, record: tracepoint::SIZE });
        }
        if size != 0 {
            self.data(set, start, size)?;
        }
        let records = (0..size).step_by(tracepoint::SIZE).map(|at| start + at as u64);
        records.map(|record| self.tracepoint(record)).collect()
    }

    /// Reads a tracepoint. Fails if FreeBSD would patch it but it is not in code of the file.
    ///
    /// FreeBSD patches every site that meets its rules for distance and alignment; it skips all other sites when it
    /// loads the file. (arm64 also skips sites that it cannot write to; this kernel refuses them, like every site that
    /// is not code of the file.)
    fn tracepoint(&self, record: u64) -> Result<(u64, Tracepoint), Fault> {
        let tracepoint = Tracepoint {
            patchpoint: self.word(record, tracepoint::PATCHPOINT),
            target: self.word(record, tracepoint::TARGET),
        };
        let is_code = |address, size| self.image.holds(address, size, Protection::Execute);
        let code = is_code(tracepoint.patchpoint, Tracepoint::len(self.machine))
            && is_code(tracepoint.target, 1);
        if tracepoint.is_valid(self.machine) && !code {
            return Err(Fault::NotCode { tracepoint });
        }
        Ok((self.word(record, tracepoint::PROBE), tracepoint))
    }
}
