//! One CPU: its number, its segments, its interrupt flag.

use alloc::boxed::Box;
use core::arch::asm;
use core::cell::UnsafeCell;

use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::registers::control::{Cr0, Cr0Flags};
use x86_64::registers::model_specific::GsBase;
use x86_64::registers::segmentation::SegmentSelector;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable};
use x86_64::structures::tss::TaskStateSegment;
use x86_64::{PrivilegeLevel, VirtAddr};

/// The maximum number of CPUs.
pub(crate) const MAX_CPUS: usize = 16;
/// Index of the interrupt stack (IST) for double faults.
pub(crate) const DOUBLE_FAULT_IST: u16 = 0;
/// Index of the interrupt stack for NMIs.
pub(crate) const NMI_IST: u16 = 1;

const IST_STACK: usize = 16 << 10;
/// GSEL(GCODE_SEL, SEL_KPL) of FreeBSD amd64 (`sys/amd64/include/segments.h`).
const KERNEL_CS: u16 = 0x20;
/// GSEL(GDATA_SEL, SEL_KPL).
const KERNEL_SS: u16 = 0x28;

/// The data that GS points to.
#[repr(C)]
struct Local {
    number: u64,
}

/// The data of a CPU to which the hardware has pointers. It is never freed.
struct Tables {
    local: Local,
    tss: TaskStateSegment,
    gdt: GlobalDescriptorTable<10>,
    stacks: [UnsafeCell<[u8; IST_STACK]>; 2],
}

/// Loads the segments, the task state and the per-CPU pointer of this CPU, and enables write protection in ring 0 (CR0.WP). Each
/// CPU calls this function once, before it enables interrupts.
pub(crate) fn init(number: usize) {
    let tables = Box::leak(Box::new(Tables {
        local: Local { number: number as u64 },
        tss: TaskStateSegment::new(),
        gdt: GlobalDescriptorTable::empty(),
        stacks: [const { UnsafeCell::new([0; IST_STACK]) }; 2],
    }));
    for (slot, stack) in tables.stacks.iter().enumerate() {
        tables.tss.interrupt_stack_table[slot] = VirtAddr::from_ptr(stack.get()) + IST_STACK as u64;
    }
    // The first entries are null, so that the selectors have the same values as on FreeBSD. Modules see them in trap frames.
    for _ in 1..KERNEL_CS / 8 {
        tables.gdt.append(Descriptor::UserSegment(0));
    }
    let code = tables.gdt.append(Descriptor::kernel_code_segment());
    let data = tables.gdt.append(Descriptor::kernel_data_segment());
    let tss = tables.gdt.append(Descriptor::tss_segment(&tables.tss));
    assert_eq!(code, SegmentSelector::new(KERNEL_CS / 8, PrivilegeLevel::Ring0));
    assert_eq!(data, SegmentSelector::new(KERNEL_SS / 8, PrivilegeLevel::Ring0));
    tables.gdt.load();
    // SAFETY: the selectors are those of the table that has just been loaded, and the table is never freed. The base of GS is set
    // last, because loading a selector could change it.
    unsafe {
        CS::set_reg(code);
        SS::set_reg(data);
        DS::set_reg(data);
        ES::set_reg(data);
        load_tss(tss);
        GsBase::write(VirtAddr::from_ptr(&tables.local));
        Cr0::update(|flags| flags.insert(Cr0Flags::WRITE_PROTECT));
    }
}

/// Number of the CPU that runs this, from 0. Probe context; valid after [`init`].
pub(crate) fn current() -> usize {
    let number: usize;
    // SAFETY: GS points to this CPU's `Local` whose first field is the number, which never changes.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) number, options(nostack, preserves_flags, readonly));
    }
    number
}

/// Returns whether interrupts are on. Probe context.
pub(crate) fn interrupts_enabled() -> bool {
    x86_64::instructions::interrupts::are_enabled()
}

/// Disables interrupts and says whether they were on. Probe context.
pub(crate) fn interrupts_off() -> bool {
    let enabled = interrupts_enabled();
    x86_64::instructions::interrupts::disable();
    enabled
}

/// Enables interrupts if `enabled`, the result of [`interrupts_off`]. Probe context.
pub(crate) fn restore_interrupts(enabled: bool) {
    if enabled {
        x86_64::instructions::interrupts::enable();
    }
}

/// Enables interrupts and sleeps until an interrupt arrives; no interrupt is missed. Called with interrupts off;
/// returns with interrupts on.
pub(crate) fn wait_for_interrupt() {
    x86_64::instructions::interrupts::enable_and_hlt();
}

/// Stops this CPU. It does not return. Any context.
pub(crate) fn halt() -> ! {
    loop {
        x86_64::instructions::interrupts::disable();
        x86_64::instructions::hlt();
    }
}

/// Clears CR0.WP on this CPU and says whether it was set: FreeBSD's `disable_wp()`
/// (`sys/amd64/amd64/machdep.c`). To be called with interrupts off.
///
/// # Safety
/// Until [`restore_wp`], this CPU can write to read-only pages. The caller must write only to pages that it may change.
pub(crate) unsafe fn disable_wp() -> bool {
    let flags = Cr0::read();
    // SAFETY: the caller guarantees its writes to read-only pages.
    unsafe { Cr0::write(flags - Cr0Flags::WRITE_PROTECT) };
    flags.contains(Cr0Flags::WRITE_PROTECT)
}

/// Sets CR0.WP again if it was set: FreeBSD's `restore_wp(bool)`.
///
/// # Safety
/// `was_set` is what [`disable_wp`] returned on this CPU.
pub(crate) unsafe fn restore_wp(was_set: bool) {
    if was_set {
        // SAFETY: setting write protection only removes the right to write to read-only pages.
        unsafe { Cr0::update(|flags| flags.insert(Cr0Flags::WRITE_PROTECT)) };
    }
}
