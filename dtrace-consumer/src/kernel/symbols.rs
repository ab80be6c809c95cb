//! The symbols of a kernel, with a cache of its answers.

use std::cell::RefCell;
use std::collections::HashMap;

use dtrace_protocol::Why;

use super::Kernel;
use crate::budget::{SYMBOLS, Share};
use crate::client::{self, ClientError};
use crate::objects::Found;
use crate::render::{Module, Symbol, Symbols};

/// Size of an entry of the cache without the symbol, in bytes.
const ENTRY: u64 = 64;

/// The symbols that the kernel was asked for.
#[derive(Debug)]
pub(super) struct SymbolCache {
    /// Symbols by module (or an empty text) and name.
    named: RefCell<HashMap<[String; 2], Option<client::Symbol>>>,
    /// Symbols by address.
    at: RefCell<HashMap<u64, Option<client::Symbol>>>,
    /// The first requested address of each module, which represents the module.
    modules: RefCell<HashMap<String, u64>>,
    /// The memory of symbols by address, and of modules.
    memory: RefCell<Share>,
}

impl SymbolCache {
    /// Creates an empty cache, which charges its memory to a share of the budget.
    pub(super) fn new(memory: Share) -> Self {
        Self {
            named: RefCell::default(),
            at: RefCell::default(),
            modules: RefCell::default(),
            memory: memory.into(),
        }
    }

    /// Adds an answer. Empties the cache before that if it is full.
    fn insert(&self, address: u64, symbol: Option<client::Symbol>) {
        // The symbol, and a copy of its module's name.
        let bytes = symbol.as_ref().map_or(0, |symbol| 2 * symbol.bytes()) + ENTRY;
        let mut memory = self.memory.borrow_mut();
        if memory.bytes() + bytes > SYMBOLS || memory.add(bytes).is_err() {
            memory.release(u64::MAX);
            self.at.borrow_mut().clear();
            self.modules.borrow_mut().clear();
            // The answer fits a frame.
            let _ = memory.add(bytes);
        }
        self.at.borrow_mut().insert(address, symbol);
    }
}

impl Kernel {
    pub(super) fn symbol_named(&self, module: Option<&str>, name: &str) -> Option<client::Symbol> {
        let key = [module.unwrap_or_default().to_owned(), name.to_owned()];
        if let Some(symbol) = self.symbols.named.borrow().get(&key) {
            return symbol.clone();
        }
        let symbol = self.known(|client| match client.symbol_named(module, name) {
            // A consumer without the right to see symbols gets none.
            Err(ClientError::Refused {
                why: Why::NotPermitted | Why::NotUnderstood | Why::Other,
                ..
            }) => Ok(None),
            symbol => symbol,
        });
        self.symbols.named.borrow_mut().insert(key, symbol.clone());
        symbol
    }

    fn symbol_at(&self, address: u64) -> Option<client::Symbol> {
        if let Some(symbol) = self.symbols.at.borrow().get(&address) {
            return symbol.clone();
        }
        let symbol = self.known(|client| client.symbol(address));
        self.symbols.insert(address, symbol.clone());
        symbol
    }
}

impl Symbols for Kernel {
    fn symbol(&self, address: u64) -> Option<Symbol> {
        if let Some(found) = self.symbol_at(address) {
            let client::Symbol { module, name, address, .. } = found;
            return Some(Symbol { module, name, address });
        }
        let Found { module, name, address } = self.objects.as_ref()?.symbol(address)?;
        Some(Symbol { module, name, address })
    }

    /// The last name is the function that has a symbol.
    fn inlined(&self, address: u64) -> Vec<String> {
        let Some(objects) = &self.objects else { return Vec::new() };
        let names = objects.functions(address);
        let inlined = names.split_last().map_or(&[][..], |(_, inlined)| inlined);
        inlined.iter().flatten().cloned().collect()
    }

    fn module(&self, address: u64) -> Option<Module> {
        let name = Symbols::symbol(self, address)?.module;
        let mut modules = self.symbols.modules.borrow_mut();
        let address = *modules.entry(name.clone()).or_insert(address);
        Some(Module { name, address })
    }

    fn note_stack(&self, frames: &[u64]) {
        if let Some(objects) = &self.objects {
            objects.note_stack(frames);
        }
    }

    /// A process that hosts its probes answers for its own addresses. A kernel has no symbols of processes.
    fn user_symbol(&self, _: u64, address: u64) -> Option<Symbol> {
        Symbols::symbol(self, address)
    }

    fn user_module(&self, _: u64, address: u64) -> Option<Module> {
        Symbols::module(self, address)
    }
}
