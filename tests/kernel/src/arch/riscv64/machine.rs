//! The machine's parts and their addresses, from the device tree.

use fdt::Fdt;
use fdt::node::FdtNode;
use spin::Once;
use stand_in_kernel::memory::{BootInfo, Region};

use super::cpu::MAX_CPUS;

/// The parts of the machine that the kernel uses. Addresses are physical.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The ids of the harts: the boot hart first, then the others, up to [`MAX_CPUS`] in total.
    harts: [usize; MAX_CPUS],
    hart_count: usize,
    /// The frequency of the time CSR in hertz.
    pub(crate) timebase: u64,
    /// The address of the registers of the 16550, the serial line to the host.
    pub(crate) uart: usize,
    /// The number of the 16550's interrupt at the PLIC.
    pub(crate) uart_interrupt: usize,
    /// The address of the registers of the platform-level interrupt controller (PLIC).
    pub(crate) plic: usize,
    /// The PLIC's context for the supervisor mode of the boot hart.
    pub(crate) plic_context: usize,
    /// The register that ends QEMU with an exit status (`sifive,test0`).
    pub(crate) test: Option<usize>,
}

impl Machine {
    /// Ids of the harts, by CPU number.
    pub(crate) fn harts(&self) -> &[usize] {
        &self.harts[..self.hart_count]
    }
}

static MACHINE: Once<Machine> = Once::new();

/// Returns the machine; `None` before [`init`]. Any context.
pub(crate) fn known() -> Option<&'static Machine> {
    MACHINE.get()
}

/// Returns the machine.
///
/// # Panics
/// If [`init`] has not been called.
pub(crate) fn get() -> &'static Machine {
    known().expect("the device tree has been read")
}

/// The highest supported hart id. Harts with a higher id do not fit into one SBI hart mask, and are not started.
const MAX_HART: usize = u64::BITS as usize - 1;
/// The interrupt by which the PLIC reaches a hart's supervisor mode.
const SUPERVISOR_EXTERNAL: u32 = 9;

/// Reads the device tree. `boot_hart` is the id of the boot hart. Returns the regions of RAM.
///
/// # Panics
/// If the device tree does not describe a part that the kernel needs.
pub(crate) fn init(tree: &Fdt<'_>, boot_hart: usize) -> [Region; BootInfo::MAX_REGIONS] {
    MACHINE.call_once(|| read(tree, boot_hart));
    let mut ram = [Region::EMPTY; BootInfo::MAX_REGIONS];
    for (slot, region) in ram.iter_mut().zip(tree.memory().regions()) {
        let start = region.starting_address as u64;
        *slot = Region { start, end: start + region.size.unwrap_or(0) as u64 };
    }
    ram
}

fn read(tree: &Fdt<'_>, boot_hart: usize) -> Machine {
    let mut harts = [boot_hart; MAX_CPUS];
    let mut hart_count = 1;
    let ids = tree.cpus().map(|cpu| cpu.ids().first());
    for id in ids.filter(|&id| id != boot_hart && id <= MAX_HART).take(MAX_CPUS - 1) {
        harts[hart_count] = id;
        hart_count += 1;
    }
    let timebase = tree
        .find_node("/cpus")
        .and_then(|cpus| cpus.property("timebase-frequency")?.as_usize())
        .expect("the device tree has no timebase-frequency");
    let uart = tree.find_compatible(&["ns16550a"]).expect("there is no 16550");
    let uart_interrupt = uart.interrupts().and_then(|mut all| all.next());
    let plic =
        tree.find_compatible(&["sifive,plic-1.0.0", "riscv,plic0"]).expect("there is no PLIC");
    Machine {
        harts,
        hart_count,
        timebase: timebase as u64,
        uart: address(uart).expect("the 16550 has no registers"),
        uart_interrupt: uart_interrupt.expect("the 16550 has no interrupt"),
        plic: address(plic).expect("the PLIC has no registers"),
        plic_context: context(tree, plic, boot_hart).expect("the PLIC does not reach the hart"),
        test: tree.find_compatible(&["sifive,test0", "sifive,test1"]).and_then(address),
    }
}

fn address(node: FdtNode<'_, '_>) -> Option<usize> {
    node.reg()?.next().map(|region| region.starting_address as usize)
}

/// Returns the number of the PLIC's context for the supervisor mode of a hart.
///
/// The number is the index in the PLIC's property `interrupts-extended`, which is a list of pairs. A pair consists of the
/// interrupt controller of a hart and the number of an interrupt of that controller.
fn context(tree: &Fdt<'_>, plic: FdtNode<'_, '_>, hart: usize) -> Option<usize> {
    let controller = tree
        .find_node("/cpus")?
        .children()
        .find(|cpu| address(*cpu) == Some(hart))?
        .children()
        .find(|child| child.property("interrupt-controller").is_some())?
        .property("phandle")?
        .as_usize()?;
    let wanted = [u32::try_from(controller).ok()?, SUPERVISOR_EXTERNAL].map(u32::to_be_bytes);
    let (pairs, _) = plic.property("interrupts-extended")?.value.as_chunks::<8>();
    pairs.iter().position(|pair| pair[..] == *wanted.as_flattened())
}
