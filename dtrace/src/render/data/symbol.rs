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
    /// The kernel symbol that contains an address.
    fn symbol(&self, address: u64) -> Option<Symbol> {
        let _ = address;
        None
    }

    /// The kernel module that contains an address.
    fn module(&self, address: u64) -> Option<Module> {
        let _ = address;
        None
    }

    /// The symbol of a process's that an address is in.
    fn user_symbol(&self, pid: u64, address: u64) -> Option<Symbol> {
        let _ = (pid, address);
        None
    }

    /// The object file of a process's that an address is in.
    fn user_module(&self, pid: u64, address: u64) -> Option<Module> {
        let _ = (pid, address);
        None
    }

    /// The service of a port (`%P`).
    fn service(&self, port: u16) -> Option<String> {
        let _ = port;
        None
    }

    /// The host of an internet address (`%I`).
    fn host(&self, address: &str) -> Option<String> {
        let _ = address;
        None
    }
}

/// A source of symbols that finds none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbols for NoSymbols {}

/// Symbols with the choice whether Rust's names are shown as people write them.
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

    /// An address in the kernel: symbol and offset (`dtrace_addr2str`, dt_subr.c).
    pub fn address(&self, address: u64) -> String {
        let symbol = self.symbols.symbol(address);
        self.place(symbol, self.symbols.module(address), address)
    }

    /// The symbol alone (`sym`).
    pub fn symbol(&self, address: u64) -> String {
        let symbol = self.symbols.symbol(address);
        let begin = symbol.as_ref().map_or(address, |symbol| symbol.address);
        self.place(symbol, self.symbols.module(address), begin)
    }

    /// The module alone (`mod`).
    pub fn module(&self, address: u64) -> String {
        let module = self.symbols.module(address);
        module.map_or_else(|| format!("{address:#x}"), |module| module.name)
    }

    /// An address of a process's (`uaddr`; `dtrace_uaddr2str`, dt_subr.c).
    pub fn user_address(&self, pid: u64, address: u64) -> String {
        let symbol = self.symbols.user_symbol(pid, address);
        self.place(symbol, self.symbols.user_module(pid, address), address)
    }

    /// The symbol alone (`usym`).
    pub fn user_symbol(&self, pid: u64, address: u64) -> String {
        let symbol = self.symbols.user_symbol(pid, address);
        let begin = symbol.as_ref().map_or(address, |symbol| symbol.address);
        self.place(symbol, self.symbols.user_module(pid, begin), begin)
    }

    /// The object file alone (`umod`).
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
