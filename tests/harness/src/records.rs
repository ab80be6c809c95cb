//! Records of the arguments of probes, made by a D program.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;

use dtrace_abi::Platform;
use dtrace_abi::reader::Reader;
use dtrace_abi::record::RecordHeader;
use dtrace_consumer::ClientError;
use dtrace_consumer::client::Client;
use dtrace_protocol::SnapshotOf;

use crate::torture::dof;

/// The number of arguments of a probe.
const ARGS: usize = 10;
/// The offset of the first argument in a record.
const FIRST: usize = RecordHeader::SIZE.next_multiple_of(8);
/// The size of a record in bytes.
const SIZE: usize = FIRST + 8 * ARGS;

/// The record of one hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The id of the probe.
    pub probe: u32,
    /// The time of the hit in nanoseconds since boot.
    pub timestamp: u64,
    /// `arg0` to `arg9`.
    pub args: [u64; ARGS],
}

/// The records of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// The number of the CPU.
    pub cpu: u32,
    /// The number of records that were dropped since the last read.
    pub drops: u64,
    /// The records, oldest first.
    pub records: Vec<Record>,
}

/// Compiles a clause that records all arguments of the probes that a description matches, to DOF.
///
/// # Panics
/// The text is not a description.
pub fn program(spec: &str) -> Vec<u8> {
    let mut text = format!("{spec} {{ ");
    for n in 0..ARGS {
        write!(text, "trace(arg{n}); ").expect("a string takes any text");
    }
    text.push('}');
    dof(Platform::Freebsd, &text)
}

/// Reads and empties the buffers of all CPUs. CPUs without records and drops are left out.
///
/// # Errors
/// The kernel refuses, or the kernel or the connection failed; [`ClientError::Strange`] if the consumer has enabled anything other
/// than [`program`].
pub fn read(client: &mut Client, cpus: u32) -> Result<Vec<Records>, ClientError> {
    let mut all = Vec::new();
    let mut probes = BTreeMap::new();
    for cpu in 0..cpus {
        let snapshot = client.snapshot(cpu, SnapshotOf::Records)?;
        let mut records = Vec::new();
        for bytes in snapshot.data.chunks(SIZE) {
            let header = RecordHeader::read(&mut Reader::new(bytes));
            let header = header.map_err(|_| ClientError::Strange("snapshot"))?;
            let probe = match probes.entry(header.epid) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let found = client.eprobe(header.epid)?.filter(|of| of.size as usize == SIZE);
                    *new.insert(found.ok_or(ClientError::Strange("eprobe"))?.probe)
                }
            };
            let words = bytes.get(FIRST..).unwrap_or_default().as_chunks().0;
            let words = <&[[u8; 8]; ARGS]>::try_from(words);
            let words = words.map_err(|_| ClientError::Strange("snapshot"))?;
            let args = words.map(u64::from_le_bytes);
            records.push(Record { probe, timestamp: header.time(), args });
        }
        if snapshot.drops != 0 || !records.is_empty() {
            all.push(Records { cpu, drops: snapshot.drops, records });
        }
    }
    Ok(all)
}
