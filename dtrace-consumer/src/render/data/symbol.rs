//! Addresses and numbers as names.

use std::fmt::Write as _;

use crate::escape;

/// A symbol with its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The module or object file that it is in.
    pub module: String,
    /// Its name, as in the file.
    pub name: String,
    /// Its address.
    pub address: u64,
}

/// A module or object file with the address of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: u64,
}

/// Resolves addresses to symbols, and numbers to names. Unknown ones are shown as numbers.
pub trait Symbols {
    /// Returns the kernel symbol that contains an address.
    fn symbol(&self, address: u64) -> Option<Symbol> {
        let _ = address;
        None
    }

    /// Returns the functions that the compiler has inlined at an address of the kernel, the innermost first, without the function that
    /// contains them: names as in the file.
    fn inlined(&self, address: u64) -> Vec<String> {
        let _ = address;
        Vec::new()
    }

    /// Returns the kernel module that contains an address.
    fn module(&self, address: u64) -> Option<Module> {
        let _ = address;
        None
    }

    /// Returns the symbol of a process that contains an address.
    fn user_symbol(&self, pid: u64, address: u64) -> Option<Symbol> {
        let _ = (pid, address);
        None
    }

    /// Returns the object file of a process that contains an address.
    fn user_module(&self, pid: u64, address: u64) -> Option<Module> {
        let _ = (pid, address);
        None
    }

    /// Receives the frames of each stack that is shown, the innermost first, without a last frame whose caller may be cut off.
    fn note_stack(&self, frames: &[u64]) {
        let _ = frames;
    }

    /// Returns the name of the service at a port (`%P`).
    fn service(&self, port: u16) -> Option<String> {
        let _ = port;
        None
    }

    /// Returns the name of the host with an internet address (`%I`).
    fn host(&self, address: &str) -> Option<String> {
        let _ = address;
        None
    }
}

/// A source of symbols that finds none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbols for NoSymbols {}

/// Formats addresses by their symbols. With `raw`, names of Rust functions are printed as in the file; otherwise they
/// are demangled.
#[derive(Clone, Copy)]
pub(in crate::render) struct Names<'a> {
    pub symbols: &'a dyn Symbols,
    pub raw: bool,
}

impl Names<'_> {
    fn name(&self, symbol: &Symbol) -> String {
        match rustc_demangle::try_demangle(&symbol.name) {
            // A name may hold any character once it is demangled.
            Ok(name) if !self.raw => {
                format!("{}`{}", symbol.module, escape::line(&format!("{name:#}")))
            }
            _ => format!("{}`{}", symbol.module, symbol.name),
        }
    }

    fn place(&self, symbol: Option<Symbol>, module: Option<Module>, address: u64) -> String {
        match (symbol, module) {
            (Some(symbol), _) => {
                let mut name = self.name(&symbol);
                if address > symbol.address {
                    let _ = write!(name, "+{:#x}", address - symbol.address);
                }
                name
            }
            (None, Some(module)) => format!("{}`{address:#x}", module.name),
            (None, None) => format!("{address:#x}"),
        }
    }

    /// Returns an address in the kernel as symbol and offset (`dtrace_addr2str`, dt_subr.c).
    pub fn address(&self, address: u64) -> String {
        let symbol = self.symbols.symbol(address);
        self.place(symbol, self.symbols.module(address), address)
    }

    /// Returns the names of a frame of a stack: the functions that are inlined at its address, the innermost first, then the
    /// function that contains them, with an offset. `named` is the name of that function.
    pub fn frame(&self, address: u64, named: String) -> Vec<String> {
        // The address of a frame is the return address after a call. It may already belong to another function.
        let call = address.saturating_sub(1);
        let inlined = self.symbols.inlined(call);
        let module = match inlined.is_empty() {
            true => None,
            false => self.symbols.symbol(call),
        };
        let Some(Symbol { module, .. }) = module else { return vec![named] };
        let name = |name| self.name(&Symbol { module: module.clone(), name, address });
        inlined.into_iter().map(name).chain([named]).collect()
    }

    /// Returns the symbol of an address, without an offset (`sym`).
    pub fn symbol(&self, address: u64) -> String {
        let symbol = self.symbols.symbol(address);
        let begin = symbol.as_ref().map_or(address, |symbol| symbol.address);
        self.place(symbol, self.symbols.module(address), begin)
    }

    /// Returns the module that contains an address (`mod`).
    pub fn module(&self, address: u64) -> String {
        let module = self.symbols.module(address);
        module.map_or_else(|| format!("{address:#x}"), |module| module.name)
    }

    /// Returns an address in a process as symbol and offset (`uaddr`; `dtrace_uaddr2str`, dt_subr.c).
    pub fn user_address(&self, pid: u64, address: u64) -> String {
        let symbol = self.symbols.user_symbol(pid, address);
        self.place(symbol, self.symbols.user_module(pid, address), address)
    }

    /// Returns the symbol of an address in a process, without an offset (`usym`).
    pub fn user_symbol(&self, pid: u64, address: u64) -> String {
        let symbol = self.symbols.user_symbol(pid, address);
        let begin = symbol.as_ref().map_or(address, |symbol| symbol.address);
        self.place(symbol, self.symbols.user_module(pid, begin), begin)
    }

    /// Returns the object file of a process that contains an address (`umod`).
    pub fn user_module(&self, pid: u64, address: u64) -> String {
        let module = self.symbols.user_module(pid, address);
        module.map_or_else(|| format!("{address:#x}"), |module| module.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;

    impl Symbols for One {
        fn symbol(&self, address: u64) -> Option<Symbol> {
            (0x1000..0x1100).contains(&address).then(|| Symbol {
                module: "kernel".into(),
                name: "_ZN4core3fmt5Write9write_str17h0123456789abcdefE".into(),
                address: 0x1000,
            })
        }

        fn module(&self, address: u64) -> Option<Module> {
            (0x1000..0x2000)
                .contains(&address)
                .then(|| Module { name: "kernel".into(), address: 0x1000 })
        }
    }

    #[test]
    fn names_of_addresses() {
        let names = Names { symbols: &One, raw: false };
        assert_eq!(names.address(0x1000), "kernel`core::fmt::Write::write_str");
        assert_eq!(names.address(0x1010), "kernel`core::fmt::Write::write_str+0x10");
        assert_eq!(names.symbol(0x1010), "kernel`core::fmt::Write::write_str");
        assert_eq!(names.address(0x1200), "kernel`0x1200");
        assert_eq!((names.module(0x1200), names.module(1)), ("kernel".into(), "0x1".into()));
        assert_eq!(names.user_address(1, 0x1000), "0x1000");
        let raw = Names { raw: true, ..names };
        assert_eq!(raw.symbol(0x1000), "kernel`_ZN4core3fmt5Write9write_str17h0123456789abcdefE");
    }
}
