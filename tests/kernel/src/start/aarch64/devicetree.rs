//! Reads the device tree: memory, CPUs, the interrupt controller.

use alloc::vec::Vec;

use fdt::Fdt;
use stand_in_kernel::memory::{BootInfo, Region};

use crate::paging;

/// Physical address at which QEMU's `virt` machine puts the device tree for a kernel in an ELF file: the start
/// of RAM (QEMU's `docs/system/arm/virt.rst`).
const ADDRESS: u64 = 0x4000_0000;

/// The device tree of the machine, if there is one at `address`.
fn tree(address: u64) -> Option<Fdt<'static>> {
    // SAFETY: the direct map maps this RAM, and no code writes to it. The crate `fdt` checks the tree's header.
    unsafe { Fdt::from_ptr(paging::direct(address) as *const u8) }.ok()
}

/// Returns the RAM regions and the address of the device tree; `None` if there is no device tree.
pub(super) fn boot_info() -> Option<BootInfo> {
    let mut boot = BootInfo { firmware: ADDRESS, ram: [Region::EMPTY; BootInfo::MAX_REGIONS] };
    let tree = tree(ADDRESS)?;
    let memory = tree.memory();
    for (slot, region) in boot.ram.iter_mut().zip(memory.regions()) {
        let start = region.starting_address as u64;
        *slot = Region { start, end: start + region.size? as u64 };
    }
    Some(boot)
}

/// The parts of the machine besides memory.
#[derive(Debug)]
pub(super) struct Machine {
    /// MPIDR affinity of every CPU, in the tree's order.
    pub(super) cpus: Vec<u64>,
    /// Physical address of the GIC's distributor.
    pub(super) distributor: u64,
    /// The physical address of the GIC's first redistributor.
    pub(super) redistributors: u64,
}

/// Reads the tree.
///
/// # Panics
/// If this kernel cannot run on the machine; the message names the requirement.
pub(super) fn machine(address: u64) -> Machine {
    let tree = tree(address).expect("no device tree");
    let gic = tree
        .find_compatible(&["arm,gic-v3"])
        .expect("no GICv3: QEMU's machine has to be virt,gic-version=3");
    let mut areas = gic.reg().into_iter().flatten().map(|area| area.starting_address as u64);
    let (Some(distributor), Some(redistributors)) = (areas.next(), areas.next()) else {
        panic!("the device tree does not say where the GIC is");
    };
    let psci = tree.find_node("/psci").expect("no PSCI, by which CPUs are started");
    let method = psci.property("method").and_then(|method| method.as_str());
    assert_eq!(method, Some("hvc"), "PSCI is not called by HVC: QEMU's machine has no EL2 or EL3");
    let cpus = tree.cpus().flat_map(|cpu| cpu.ids().all()).map(|id| id as u64).collect();
    Machine { cpus, distributor, redistributors }
}
