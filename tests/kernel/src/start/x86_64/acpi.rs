//! The I/O APIC and the CPUs, from the ACPI table MADT.

use alloc::vec::Vec;
use core::ptr::NonNull;

use acpi::madt::{Madt, MadtEntry};
use acpi::{AcpiHandler, AcpiTables, PhysicalMapping};

use crate::paging;

/// Flag of a local APIC entry: the CPU can be used.
const ENABLED: u32 = 1;

/// The content of the MADT that this kernel uses.
#[derive(Debug)]
pub(super) struct Controllers {
    /// Physical address of the first I/O APIC.
    pub(super) io_apic: u64,
    /// Local APIC ids of the usable CPUs.
    pub(super) processors: Vec<u8>,
}

/// Reads the MADT of the machine whose root pointer is at the physical address `rsdp`.
///
/// # Panics
/// If a table is missing or damaged.
pub(super) fn controllers(rsdp: u64) -> Controllers {
    // SAFETY: the boot protocol passed the address; the crate checks signature and checksum of every table.
    let tables = unsafe { AcpiTables::from_rsdp(DirectMap, rsdp as usize) };
    let madt = tables.and_then(|tables| tables.find_table::<Madt>());
    let madt = madt.unwrap_or_else(|error| panic!("ACPI: no MADT: {error:?}"));
    let (mut io_apics, mut processors) = (Vec::new(), Vec::new());
    for entry in madt.get().entries() {
        match entry {
            MadtEntry::IoApic(of) => io_apics.push(of.io_apic_address),
            MadtEntry::LocalApic(of) if of.flags & ENABLED != 0 => processors.push(of.apic_id),
            _ => {}
        }
    }
    let io_apic = *io_apics.first().expect("ACPI: the MADT lists no I/O APIC");
    Controllers { io_apic: io_apic.into(), processors }
}

/// Lets the crate `acpi` access physical memory through the direct map.
#[derive(Clone, Copy)]
struct DirectMap;

impl AcpiHandler for DirectMap {
    unsafe fn map_physical_region<T>(&self, at: usize, size: usize) -> PhysicalMapping<Self, T> {
        let end = at.checked_add(size).map(|end| end as u64);
        assert!(end.is_some_and(|end| end <= paging::DIRECT_MAP_SIZE), "ACPI: a table at {at:#x}");
        let start = NonNull::new(paging::direct(at as u64) as *mut T);
        let start = start.expect("the direct map is not at 0");
        // SAFETY: the range is in the direct map, which stays mapped.
        unsafe { PhysicalMapping::new(at, start, size, size, *self) }
    }

    fn unmap_physical_region<T>(_: &PhysicalMapping<Self, T>) {}
}
