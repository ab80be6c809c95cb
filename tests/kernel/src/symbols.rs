//! The kernel's own symbols, which the bench puts into memory beside the kernel, as a boot loader does.

use sdt_framework::kernel::Symbol;
use sdt_protocol::symbols::Table;

use crate::arch::SYMBOLS;
use crate::paging;

/// Passes the symbol at an address of the kernel to `show`. Any context.
pub(crate) fn at(address: u64, show: &mut dyn FnMut(Symbol<'_>)) {
    let from = paging::direct(SYMBOLS) as *const u8;
    // SAFETY: the range is RAM in the direct map that only the table uses: the heap ends before it.
    let memory = unsafe { core::slice::from_raw_parts(from, Table::ROOM) };
    if let Some(symbol) = Table::new(memory).and_then(|table| table.at(address)) {
        let (name, address, size) = (symbol.name, symbol.address, symbol.size);
        show(Symbol { module: b"kernel", name, address, size });
    }
}
