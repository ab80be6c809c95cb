//! The enabled probes of a framework in a dump, and their names.

use dtrace_abi::postmortem::{BLOCK_SHIFT, BLOCK_UNIT, CLAUSE_UNIT};
use dtrace_abi::reader::{Field, Reader};

use super::find::Memory;
use crate::client::Probe;
use crate::escape;

/// An enabling of a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enabled {
    /// The position of its consumer in the header's list, from 0.
    pub(super) consumer: u32,
    /// The number of the enabling within this consumer.
    pub(super) epid: u32,
    /// The number of the probe, from 1.
    pub(super) probe: u32,
    /// The position of its clause, in units of [`CLAUSE_UNIT`]: the `id` of the clause's note.
    pub(super) clause: u32,
    /// The position of the probe's provider, from 1, and of its names: module, function and name.
    provider: u32,
    names: [u32; 3],
}

/// Reads a number in a structure.
fn field<T: Field>(bytes: &[u8], at: u32) -> Option<T> {
    T::read(&mut Reader::new(bytes.get(at as usize..)?)).ok()
}

/// Returns the entry of an array of structures of this size.
fn entry(all: &[u8], size: u32, index: usize) -> Option<&[u8]> {
    all.chunks_exact(size as usize).nth(index)
}

/// Returns all enablings; `None` if the probes or the enablings are not in the dump. A chain that is not consistent ends.
pub(super) fn enabled(memory: &Memory<'_>) -> Option<Vec<Enabled>> {
    let header = &memory.header;
    if header.probe_size == 0 || header.ecb_size == 0 {
        return None;
    }
    let list = |at, count: u32, size: u32| memory.bytes(at, u64::from(count) * u64::from(size));
    let probes = list(header.probes_at, header.probes, header.probe_size)?;
    let ecbs = list(header.ecbs_at, header.ecbs, header.ecb_size)?;
    let mut all = Vec::new();
    for (number, probe) in (1..).zip(probes.chunks_exact(header.probe_size as usize)) {
        let mut next: u32 = field(probe, header.probe_ecb)?;
        // Each enabling is in one chain, so the dump is forged or was changing if there are more.
        while next != 0 && all.len() < header.ecbs as usize {
            let Some(ecb) = entry(&ecbs, header.ecb_size, next as usize - 1) else { break };
            let name = |index: u32| field(probe, header.probe_names.checked_add(4 * index)?);
            let clause = if memory.word() == 4 {
                field::<u32>(ecb, header.ecb_clause)?.into()
            } else {
                field::<u64>(ecb, header.ecb_clause)?
            };
            all.push(Enabled {
                consumer: field(ecb, header.ecb_consumer)?,
                epid: field(ecb, header.ecb_epid)?,
                probe: number,
                clause: (clause.wrapping_sub(header.address) / CLAUSE_UNIT as u64) as u32,
                provider: field::<u32>(probe, header.probe_provider)? & header.provider_bits,
                names: [name(0)?, name(1)?, name(2)?],
            });
            next = field(ecb, 0)?;
        }
    }
    Some(all)
}

impl Enabled {
    /// Returns the probe, if its names are in the dump.
    pub(super) fn probe(&self, memory: &Memory<'_>) -> Option<Probe> {
        let header = &memory.header;
        let provider = self.provider.checked_sub(1).filter(|index| *index < header.providers)?;
        let size = u64::from(header.provider_size);
        let provider =
            memory.bytes(header.providers_at.checked_add(u64::from(provider) * size)?, size)?;
        let provider = provider.split(|byte| *byte == 0).next()?;
        let [module, function, name] = self.names;
        Some(Probe {
            id: self.probe,
            provider: escape::name(provider),
            module: name_at(memory, module)?,
            function: name_at(memory, function)?,
            name: name_at(memory, name)?,
        })
    }
}

/// Returns a name by its page and its place in it.
fn name_at(memory: &Memory<'_>, block: u32) -> Option<String> {
    let header = &memory.header;
    let (page, unit) = (block >> BLOCK_SHIFT, block % (1 << BLOCK_SHIFT));
    if page >= header.pages {
        return None;
    }
    let place = u64::from(page) * memory.word() as u64;
    let page = memory.get_word(header.pages_at.checked_add(place)?)?;
    let at = page.wrapping_sub(header.address).checked_add(u64::from(unit) * BLOCK_UNIT as u64)?;
    let length: u8 = memory.get(at.checked_add(header.name_length.into())?)?;
    let text = memory.bytes(at.checked_add(header.name_text.into())?, length.into())?;
    Some(escape::name(&text))
}
