//! The kernel's descriptions of records, for rendering.

use std::collections::BTreeMap;

use dtrace_abi::record::RecordDesc;
use dtrace_compiler::surroundings::Description;
use dtrace_protocol::Datum;

use super::{Kernel, OWN, description};
use crate::render::{AggDescription, Descriptions, Eprobe};

/// Size of the description of a datum in memory, in bytes.
const DATUM: usize = 256;
/// Size in memory of each byte of a format, in bytes.
const FORMAT: usize = 64;

/// The kernel's descriptions of records, with the names of aggregations, which only the compiler has.
pub(crate) struct DescriptionSource<'a> {
    pub kernel: &'a Kernel,
    pub names: &'a BTreeMap<u32, String>,
}

impl Descriptions for DescriptionSource<'_> {
    fn eprobe(&mut self, epid: u32) -> Option<Eprobe> {
        self.kernel.known(|client| {
            let Some(found) = client.eprobe(epid)? else { return Ok(None) };
            self.kernel.describe(size_of::<Eprobe>() + DATUM * found.data.len())?;
            let probe = client.probe(found.probe)?.map(|probe| description(&probe));
            // A probe may disappear before its records are read.
            let gone = Description { id: found.probe, ..Description::default() };
            let records = records(found.data);
            let error = records.first().is_some_and(|record| record.uarg > OWN);
            Ok(Some(Eprobe {
                probe: probe.unwrap_or(gone),
                error,
                size: found.size as usize,
                records,
            }))
        })
    }

    fn aggregation(&mut self, id: u32) -> Option<AggDescription> {
        self.kernel.known(|client| {
            let found = client.aggregation(id)?;
            let size = found.as_ref().map_or(0, |of| DATUM * of.data.len());
            self.kernel.describe(size_of::<AggDescription>() + size)?;
            Ok(found.map(|of| AggDescription {
                id,
                variable: of.variable,
                name: self.names.get(&of.variable).cloned().unwrap_or_default(),
                epid: of.epid,
                size: of.size as usize,
                records: records(of.data),
                names: Vec::new(),
                variables: Vec::new(),
            }))
        })
    }

    fn format(&mut self, number: u16) -> Option<Vec<u8>> {
        self.kernel.known(|client| {
            let text = client.format(number)?;
            // The cache has the text and its parsed form.
            self.kernel.describe(FORMAT * text.as_ref().map_or(0, Vec::len))?;
            Ok(text)
        })
    }
}

fn records(data: Vec<Datum>) -> Vec<RecordDesc> {
    let record = |of: Datum| {
        let Datum { action, size, offset, alignment, format, arg, uarg } = of;
        RecordDesc { action, pad: 0, size, offset, alignment, format, arg, uarg }
    };
    data.into_iter().map(record).collect()
}
