//! Checks the functions that a consumer sends, and creates their probes.

use core::ffi::CStr;
use core::fmt;

use dtrace_abi::function::{MAX_LEN, Window};
use dtrace_abi::name::Name;
use sdt_core::ops::{FUNCTION_NAME_LEN, FrameworkError, MODULE_NAME_LEN};

use super::arch;
use super::sites::{New, OWNERS, Probe};
use super::table::Table;
use crate::base::host::Host;
use crate::control::error::ConsumerError;
use crate::control::tables::Tables;
use crate::control::{Control, find};
use crate::run::consumer::ConsumerId;

/// An instruction at the boundary of a function, as a consumer sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionSite<'a> {
    /// The module: for Rust the crate.
    pub module: &'a [u8],
    /// The name of the function.
    pub function: &'a [u8],
    /// Whether the function returns here; otherwise it begins here.
    pub is_return: bool,
    /// The address of the instruction in the file.
    pub address: u64,
    /// The offset of the instruction in the function.
    pub offset: u32,
    /// The bytes of the instruction.
    pub code: &'a [u8],
    /// The bytes around the instruction that a jump may overwrite, if the host [jumps](super::FunctionText::offer); `None` if no jump may
    /// overwrite the instruction.
    pub window: Option<Window>,
}

/// The reason why a site is refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FunctionError {
    /// The host does not let consumers trace functions.
    NotSupported,
    /// The consumer does not have the [right](crate::Rights::with_functions) to trace functions.
    NotPermitted,
    /// The functions are those of another build.
    Build,
    /// A name is empty, too long, or has a zero byte.
    Name,
    /// The kernel does not emulate this instruction, or it has another length.
    Instruction,
    /// The instruction stores further below the stack pointer than the breakpoint handler leaves free.
    Stack,
    /// The host does not let consumers trace this address.
    Address,
    /// The kernel's text has other bytes here: another tool has changed it, or this is another kernel.
    Bytes,
    /// The instruction overlaps another site.
    Overlap,
    /// There is no room for another site, probe or owner.
    NoRoom,
    /// The consumer's request is refused.
    Consumer(ConsumerError),
}

impl fmt::Display for FunctionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSupported => "the host does not let consumers trace functions, or has no build ID",
            Self::NotPermitted => {
                "this line does not have the right to trace functions; the host of the kernel grants it"
            }
            Self::Build => "the build ID of the file is not that of the running kernel",
            Self::Name => "a name is empty, too long, or has a zero byte",
            Self::Instruction => "the kernel does not emulate this instruction",
            Self::Stack => "the instruction stores below the stack that the breakpoint handler leaves free",
            Self::Address => "the kernel does not let consumers trace this address",
            Self::Bytes => "the kernel's text has other bytes here",
            Self::Overlap => "the instruction overlaps another site",
            Self::NoRoom => "the kernel has no room for more sites",
            Self::Consumer(error) => return error.fmt(f),
        })
    }
}

impl core::error::Error for FunctionError {}

impl From<ConsumerError> for FunctionError {
    fn from(error: ConsumerError) -> Self {
        Self::Consumer(error)
    }
}

impl<H: Host> Control<H> {
    /// Runs `add`, which adds sites, then enables their probes for the enablings that match them. Before, makes room: removes the sites that
    /// closed consumers had to leave.
    pub(crate) fn adding_functions<R>(&self, add: impl FnOnce() -> R) -> R {
        self.remove_abandoned();
        self.functions.batch(|| self.providing(add))
    }

    /// [`Dtrace::add_function`](crate::Dtrace::add_function).
    pub(crate) fn add_function(
        &self,
        id: ConsumerId,
        build_id: &[u8],
        wanted: &FunctionSite<'_>,
    ) -> Result<(), FunctionError> {
        let table = self.functions.get().ok_or(FunctionError::NotSupported)?;
        let shared = self.shared()?;
        let mut tables = self.tables.lock();
        let (consumer, found) = find(shared, id)?;
        if !found.rights().functions() {
            return Err(FunctionError::NotPermitted);
        }
        let module = Name::<MODULE_NAME_LEN>::new(wanted.module);
        let function = Name::<FUNCTION_NAME_LEN>::new(wanted.function);
        let (Some(module), Some(function)) = (module, function) else {
            return Err(FunctionError::Name);
        };
        if wanted.function.is_empty() {
            return Err(FunctionError::Name);
        }
        if consumer >= OWNERS {
            return Err(FunctionError::NoRoom);
        }
        let new = table.check(build_id, wanted)?;
        let name = if wanted.is_return { c"return" } else { c"entry" };
        let names = [module.as_c_str(), function.as_c_str(), name];
        self.add_site(&mut tables, table, consumer, names, &new)
    }

    fn add_site(
        &self,
        tables: &mut Tables,
        table: &Table,
        consumer: usize,
        names: [&CStr; 3],
        new: &New<'_>,
    ) -> Result<(), FunctionError> {
        let existing = tables.registry.lookup(table.provider, names);
        let existing = existing.and_then(|at| {
            let (probe, _) = tables.registry.probe(at)?;
            Some(probe.parg.addr())
        });
        if let Some(index) = existing {
            let probe = table.sites.probe(index).ok_or(FunctionError::NoRoom)?;
            if table.sites.of(probe).any(|site| site.address() == new.address) {
                self.offer(table, new);
            } else {
                let site = table.sites.add(index, new).ok_or(FunctionError::NoRoom)?;
                self.offer(table, new);
                self.enable_new_site(table, probe, site);
            }
            probe.own(consumer);
            return Ok(());
        }
        if table.sites.left() == 0 {
            return Err(FunctionError::NoRoom);
        }
        let index = table.sites.take_probe().ok_or(FunctionError::NoRoom)?;
        let probe = table.sites.probe(index).ok_or(FunctionError::NoRoom)?;
        let parg = core::ptr::without_provenance_mut(index);
        // First the site, because the probe may be enabled when it is created.
        if table.sites.add(index, new).is_none() {
            table.sites.free_probe(index);
            return Err(FunctionError::NoRoom);
        }
        self.offer(table, new);
        let created = tables.registry.create(&mut tables.arena, table.provider, names, 0, parg);
        match created {
            Ok(at) => {
                probe.own(consumer);
                self.match_created(tables, at);
                Ok(())
            }
            Err(error) => {
                table.retire(index);
                table.sites.free_probe(index);
                Err(match error {
                    FrameworkError::Invalid => FunctionError::Name,
                    _ => FunctionError::NoRoom,
                })
            }
        }
    }

    /// Offers a site to the host, after it was added: so the host gets no offer of a site that is refused.
    fn offer(&self, table: &Table, new: &New<'_>) {
        if table.text.offer(new.address, new.code, new.window) {
            self.functions.stored();
        }
    }

    /// Removes the consumer with this index as an owner of probes, and destroys the probes that have no owner and are not
    /// enabled. The caller has removed the consumer's enablings already, so the text is restored.
    pub(crate) fn forget_functions(&self, tables: &mut Tables, consumer: usize) {
        let Some(table) = self.functions.get() else { return };
        if consumer >= OWNERS {
            return;
        }
        let mut any = false;
        for (_, probe) in table.sites.probes() {
            any |= probe.disown(consumer);
        }
        if !any {
            return;
        }
        let is_left = |index| table.sites.probe(index).is_some_and(Probe::is_left);
        let Tables { registry, arena, .. } = tables;
        registry.destroy_some(
            arena,
            table.provider,
            |parg| is_left(parg.addr()),
            || self.hits.host.sync(),
        );
        // The op `destroy` has removed the sites from their buckets. This waits until no breakpoint handler reads them.
        self.hits.host.sync();
        table.sites.reclaim();
    }
}

impl Table {
    /// Checks a site against the text of this kernel.
    fn check<'a>(
        &self,
        build_id: &[u8],
        wanted: &FunctionSite<'a>,
    ) -> Result<New<'a>, FunctionError> {
        let slide = self.text.slide_of(build_id).ok_or(FunctionError::Build)?;
        let FunctionSite { is_return, offset, code, window, .. } = *wanted;
        let address = wanted.address.wrapping_add(slide);
        if code.is_empty() || code.len() > MAX_LEN {
            return Err(FunctionError::Instruction);
        }
        // Decodes with the kernel's own decoder, so that a consumer cannot make the kernel emulate another instruction.
        let instruction = arch::Instruction::decode(code, address)
            .filter(|instruction| instruction.length() == code.len())
            .ok_or(FunctionError::Instruction)?;
        if instruction.below_stack() > self.text.free_stack() {
            return Err(FunctionError::Stack);
        }
        let fits = address.checked_add(code.len() as u64).is_some()
            && usize::try_from(address).is_ok()
            && self.text.is_traceable(address, code.len());
        let head = arch::breakpoint(code).len();
        if !fits || !self.text.patcher().is_writable(address as usize, head) {
            return Err(FunctionError::Address);
        }
        if self.overlaps(address, code.len()) {
            return Err(FunctionError::Overlap);
        }
        let same = match self.sites.at(address).next() {
            // A known site: the text may contain its breakpoint, so compare with the saved instruction.
            Some(site) => site.code().bytes() == code,
            None => {
                let mut original = [0; MAX_LEN];
                let original = original.get_mut(..code.len()).ok_or(FunctionError::Instruction)?;
                for (at, byte) in (address..).zip(original.iter_mut()) {
                    // SAFETY: `is_traceable` returned true, so this is mapped, readable text of the image (contract of
                    // `FunctionText`).
                    *byte = unsafe { text_at(at) };
                }
                // A jump at a site nearby may overwrite the instruction.
                self.text.restore(address, original);
                original == code
            }
        };
        if !same {
            return Err(FunctionError::Bytes);
        }
        Ok(New { address, code, window, offset, is_return })
    }

    /// Returns whether an instruction overlaps a site of `sdt-core`, or a function's site at another address.
    fn overlaps(&self, address: u64, length: usize) -> bool {
        let below = (1..MAX_LEN as u64).any(|distance| {
            let mut before = self.sites.at(address.wrapping_sub(distance));
            before.any(|site| site.code().bytes().len() as u64 > distance)
        });
        let inside = (1..length as u64)
            .any(|distance| self.sites.at(address.wrapping_add(distance)).next().is_some());
        below || inside || sdt_core::trap::overlaps(address as usize, length)
    }
}

/// Returns whether the text at an address has these bytes.
///
/// # Safety
/// The text is mapped and readable.
pub(super) unsafe fn text_is(address: u64, code: &[u8]) -> bool {
    // SAFETY: by the contract of this function.
    (address..).zip(code).all(|(at, &byte)| unsafe { text_at(at) } == byte)
}

/// Returns the byte of the text at an address.
///
/// # Safety
/// The text is mapped and readable.
unsafe fn text_at(address: u64) -> u8 {
    let text = core::ptr::with_exposed_provenance::<u8>(address as usize);
    // SAFETY: by the contract of this function. Volatile, because text changes.
    unsafe { text.read_volatile() }
}
