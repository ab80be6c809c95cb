//! Handles hits of breakpoints. Everything here is probe context.

use core::sync::atomic::Ordering;

use sdt_core::ops::ARGS;

use super::arch;
use super::sites::Site;
use super::table::Table;
use crate::base::host::Host;
use crate::control::Control;
use crate::run::fire::Args;

impl<H: Host> Control<H> {
    /// [`Dtrace::is_function_site`](crate::Dtrace::is_function_site).
    pub(crate) fn is_function_site(&self, address: u64) -> bool {
        self.functions.get().is_some_and(|table| table.sites.at(address).next().is_some())
    }

    /// [`Dtrace::function_hit`](crate::Dtrace::function_hit).
    ///
    /// # Safety
    /// The contract of `Dtrace::function_hit`.
    pub(crate) unsafe fn function_hit(&self, registers: &mut arch::Registers) -> bool {
        let record =
            |table: &Table, registers: &arch::Registers| self.fire_functions(table, registers);
        // SAFETY: the contract of `emulate` is that of this function.
        unsafe { self.emulate(registers, record) }
    }

    /// [`Dtrace::function_skip`](crate::Dtrace::function_skip).
    ///
    /// # Safety
    /// The contract of `Dtrace::function_skip`.
    pub(crate) unsafe fn function_skip(&self, registers: &mut arch::Registers) -> bool {
        // SAFETY: the contract of `emulate` is that of `Dtrace::function_hit`, which `Dtrace::function_skip` has as
        // well.
        unsafe { self.emulate(registers, |_, _| self.count_stray()) }
    }

    /// [`Dtrace::function_emulate`](crate::Dtrace::function_emulate).
    ///
    /// # Safety
    /// The contract of `Dtrace::function_emulate`.
    pub(crate) unsafe fn function_emulate(&self, registers: &mut arch::Registers) -> bool {
        // SAFETY: the contract of `emulate` is that of `Dtrace::function_hit`, which `Dtrace::function_emulate` has as well.
        unsafe { self.emulate(registers, |_, _| {}) }
    }

    /// Records a hit, and emulates the instruction of its site. Returns `false`, and does nothing, if there is no site.
    ///
    /// # Safety
    /// The contract of `Dtrace::function_hit`.
    unsafe fn emulate(
        &self,
        registers: &mut arch::Registers,
        record: impl FnOnce(&Table, &arch::Registers),
    ) -> bool {
        let Some(table) = self.functions.get() else { return false };
        let address = arch::address(registers);
        let Some(site) = table.sites.at(address).next() else { return false };
        let code = site.code();
        let Some(instruction) = arch::Instruction::decode(code.bytes(), address) else {
            return false;
        };
        record(table, registers);
        // SAFETY: the registers are those of code that was interrupted by a breakpoint at the address. The breakpoint replaces
        // this instruction: `accept` has compared it with the text, and only then can the breakpoint be stored. `accept` has
        // also checked that the host leaves room on the stack.
        unsafe { instruction.emulate(registers) };
        true
    }

    /// [`Dtrace::function_record`](crate::Dtrace::function_record).
    pub(crate) fn function_record(&self, registers: &arch::Registers) {
        if let Some(table) = self.functions.get() {
            self.fire_functions(table, registers);
        }
    }

    /// Records a hit for each probe that has a site at the address in the registers.
    fn fire_functions(&self, table: &Table, registers: &arch::Registers) {
        let address = arch::address(registers);
        // A function that the framework calls for a hit may itself be traced: the hit in it is not recorded.
        self.hits.outermost(|| {
            for is_return in [false, true] {
                let sites = table.sites.at(address);
                sites.filter(|site| site.is_return() == is_return).for_each(|site| {
                    self.fire_function(table, site, registers);
                });
            }
        });
    }

    fn fire_function(&self, table: &Table, site: &Site, registers: &arch::Registers) {
        let Some(probe) = table.sites.probe(site.probe()) else { return };
        // Interrupts are off, so no other probe can get this id before the hit is recorded: `Host::sync` waits. Acquire, with the
        // Release of the store by `enable_function`: the probe is initialised.
        let id = probe.id.load(Ordering::Acquire);
        if id == 0 {
            // This probe is disabled: another enabled probe has a site at the same address.
            return;
        }
        let args = if site.is_return() {
            let mut args = [0; ARGS];
            [args[0], args[1]] = [site.offset().into(), arch::result(registers)];
            args
        } else {
            arch::arguments(registers)
        };
        self.record(id, Args::All(&args));
    }
}
