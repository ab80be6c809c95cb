//! The one ACPI table the kernel needs: the MADT, which lists CPUs and interrupt controllers.
//!
//! ACPI 6.5, sections 5.2.5 to 5.2.12. Every table's length and checksum is checked.

use alloc::vec::Vec;

/// Physical memory.
pub trait Memory {
    /// `length` bytes at a physical address, `None` when they are out of reach.
    fn bytes(&self, physical: u64, length: usize) -> Option<&[u8]>;
}

/// What the MADT says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Madt {
    /// Physical address of every CPU's local APIC.
    pub local_apic: u64,
    /// Physical address of the first I/O APIC.
    pub io_apic: u64,
    /// Local APIC ids of the CPUs that can be used.
    pub processors: Vec<u8>,
}

/// Why there is no MADT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcpiError {
    /// The boot protocol gave no root pointer, or what is there is none.
    NoRoot,
    /// A table lies out of reach or is shorter than its own header.
    Truncated,
    /// A table's checksum is wrong.
    Checksum,
    /// The table is not there.
    NoMadt,
    /// It lists no I/O APIC.
    NoIoApic,
}

impl core::fmt::Display for AcpiError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NoRoot => "no root pointer",
            Self::Truncated => "a table is truncated",
            Self::Checksum => "a table's checksum is wrong",
            Self::NoMadt => "no MADT",
            Self::NoIoApic => "the MADT lists no I/O APIC",
        })
    }
}

impl core::error::Error for AcpiError {}

const HEADER: usize = 36;
const MADT_ENTRIES: usize = 44;
const LOCAL_APIC_ENTRY: u8 = 0;
const IO_APIC_ENTRY: u8 = 1;
const PROCESSOR_ENABLED: u32 = 1;

fn sum_is_zero(bytes: &[u8]) -> Result<(), AcpiError> {
    let sum = bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
    if sum == 0 { Ok(()) } else { Err(AcpiError::Checksum) }
}

fn u32_at(bytes: &[u8], offset: usize) -> Result<u32, AcpiError> {
    let field = bytes.get(offset..).and_then(|rest| rest.first_chunk());
    field.map(|&field| u32::from_le_bytes(field)).ok_or(AcpiError::Truncated)
}

fn table(memory: &impl Memory, physical: u64) -> Result<&[u8], AcpiError> {
    let header = memory.bytes(physical, HEADER).ok_or(AcpiError::Truncated)?;
    let length = u32_at(header, 4)? as usize;
    if length < HEADER {
        return Err(AcpiError::Truncated);
    }
    let table = memory.bytes(physical, length).ok_or(AcpiError::Truncated)?;
    sum_is_zero(table)?;
    Ok(table)
}

/// Reads the MADT of the machine whose root pointer is at `rsdp`.
///
/// # Errors
/// When a table is missing, out of reach or damaged.
pub fn madt(memory: &impl Memory, rsdp: u64) -> Result<Madt, AcpiError> {
    let root = memory.bytes(rsdp, 20).ok_or(AcpiError::NoRoot)?;
    if &root[..8] != b"RSD PTR " {
        return Err(AcpiError::NoRoot);
    }
    sum_is_zero(root)?;
    let (address, entry_size) = if root[15] == 0 {
        (u64::from(u32_at(root, 16)?), 4)
    } else {
        let extended = memory.bytes(rsdp, 36).ok_or(AcpiError::Truncated)?;
        let low = u64::from(u32_at(extended, 24)?);
        (low | u64::from(u32_at(extended, 28)?) << 32, 8)
    };
    for entry in table(memory, address)?[HEADER..].chunks_exact(entry_size) {
        let high = if entry_size == 8 { u64::from(u32_at(entry, 4)?) << 32 } else { 0 };
        let candidate = u64::from(u32_at(entry, 0)?) | high;
        let signature = memory.bytes(candidate, 4).ok_or(AcpiError::Truncated)?;
        if signature == b"APIC" {
            return parse(table(memory, candidate)?);
        }
    }
    Err(AcpiError::NoMadt)
}

fn parse(table: &[u8]) -> Result<Madt, AcpiError> {
    let local_apic = u64::from(u32_at(table, HEADER)?);
    let mut io_apic = None;
    let mut processors = Vec::new();
    let mut rest = table.get(MADT_ENTRIES..).ok_or(AcpiError::Truncated)?;
    while let [kind, length, ..] = *rest {
        let (entry, next) = rest
            .split_at_checked(length.into())
            .filter(|(entry, _)| entry.len() >= 2)
            .ok_or(AcpiError::Truncated)?;
        match kind {
            LOCAL_APIC_ENTRY if u32_at(entry, 4)? & PROCESSOR_ENABLED != 0 => {
                processors.push(entry[3]);
            }
            IO_APIC_ENTRY if io_apic.is_none() => io_apic = Some(u64::from(u32_at(entry, 4)?)),
            _ => {}
        }
        rest = next;
    }
    Ok(Madt { local_apic, io_apic: io_apic.ok_or(AcpiError::NoIoApic)?, processors })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Image(Vec<u8>);

    impl Memory for Image {
        fn bytes(&self, physical: u64, length: usize) -> Option<&[u8]> {
            let start = physical as usize;
            self.0.get(start..start.checked_add(length)?)
        }
    }

    fn seal(bytes: &mut [u8], at: usize) {
        bytes[at] = 0;
        let sum = bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
        bytes[at] = sum.wrapping_neg();
    }

    fn table(signature: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(signature);
        bytes[4..8].copy_from_slice(&((HEADER + body.len()) as u32).to_le_bytes());
        bytes.extend(body);
        seal(&mut bytes, 9);
        bytes
    }

    fn image() -> Image {
        let mut body = 0xfee0_0000u32.to_le_bytes().to_vec();
        body.extend([0; 4]);
        for (id, flags) in [(0, 1), (1, 1), (2, 0)] {
            body.extend([0, 8, id, id, flags, 0, 0, 0]);
        }
        body.extend([1, 12, 0, 0]);
        body.extend(0xfec0_0000u32.to_le_bytes());
        body.extend([0; 4]);
        let mut memory = vec![0; 0x400];
        memory[..8].copy_from_slice(b"RSD PTR ");
        memory[16..20].copy_from_slice(&0x100u32.to_le_bytes());
        seal(&mut memory[..20], 8);
        let madt = table(b"APIC", &body);
        let other = table(b"FACP", &[0; 8]);
        let list: Vec<u8> =
            [0x300u32, 0x200].iter().flat_map(|address| address.to_le_bytes()).collect();
        let root = table(b"RSDT", &list);
        memory[0x100..0x100 + root.len()].copy_from_slice(&root);
        memory[0x200..0x200 + madt.len()].copy_from_slice(&madt);
        memory[0x300..0x300 + other.len()].copy_from_slice(&other);
        Image(memory)
    }

    #[test]
    fn usable_cpus_and_controllers_are_found() {
        assert_eq!(
            madt(&image(), 0),
            Ok(Madt { local_apic: 0xfee0_0000, io_apic: 0xfec0_0000, processors: vec![0, 1] })
        );
    }

    #[test]
    fn a_flipped_byte_is_noticed() {
        for at in [0x9, 0x124, 0x22c] {
            let mut image = image();
            image.0[at] ^= 1;
            assert_eq!(madt(&image, 0), Err(AcpiError::Checksum), "byte {at:#x}");
        }
    }

    #[test]
    fn no_length_leads_out_of_memory() {
        for end in 0..0x400 {
            let mut image = image();
            image.0.truncate(end);
            if let Err(error) = madt(&image, 0) {
                assert!(matches!(error, AcpiError::NoRoot | AcpiError::Truncated));
            }
        }
        let mut image = image();
        image.0[0x200 + MADT_ENTRIES + 1] = 0;
        seal(&mut image.0[0x200..0x200 + 80], 9);
        assert_eq!(madt(&image, 0), Err(AcpiError::Truncated));
    }
}
