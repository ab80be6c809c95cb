//! The kernel's symbols, and the declarations of its modules.

use dtrace_protocol::{Reply, Request, Why};

use super::{Client, ClientError, Symbol};
use crate::budget::{DECLARED, Use};
use crate::escape::name;

/// The maximum number of modules with declarations.
const MODULES: u32 = 4096;
/// Largest size of the declarations of a module in bytes.
const LONGEST: usize = 4 << 20;

/// The maximum number of times in a row that another module may replace the module whose declarations are being read.
const AGAIN: u32 = 64;

/// The declarations of a module for programs in D, in the format of `dtrace_compiler::declared`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The module.
    pub module: String,
    /// The text.
    pub text: Vec<u8>,
}

impl Client {
    /// Returns the symbol at an address of the kernel.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn symbol(&mut self, address: u64) -> Result<Option<Symbol>, ClientError> {
        self.call("symbol", Request::Symbol { address }, symbol)
    }

    /// Returns the variable or function of the kernel with a name, in a module or in any.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn symbol_named(
        &mut self,
        module: Option<&str>,
        name: &str,
    ) -> Result<Option<Symbol>, ClientError> {
        let module = module.unwrap_or_default();
        self.call("symbol", Request::SymbolNamed { module, name }, symbol)
    }

    /// Returns the declarations of all modules for programs in D. Modules that this consumer may not see have no name. If modules
    /// appear or disappear during the request, the result describes the modules at its end.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn declared(&mut self) -> Result<Vec<Declared>, ClientError> {
        let mut all: Vec<Declared> = Vec::new();
        let (mut at, mut part) = (0, None::<(Declared, u32)>);
        let mut again = 0;
        let mut share = self.budget.share(Use::Declarations);
        self.declared.set(0)?;
        loop {
            let index = all.len() as u32;
            let request = Request::Declared { index, at };
            let more = self.call("declared", request, |reply, _| match reply {
                Reply::Declared(found) => Some(found.map(|of| {
                    let declared = Declared { module: name(of.module), text: of.text.to_vec() };
                    (declared, of.next, of.end)
                })),
                _ => None,
            });
            let more = match more {
                // A kernel that does not support the request has no declarations.
                Err(ClientError::Refused {
                    why: Why::NotUnderstood | Why::NotPermitted, ..
                }) => None,
                more => more?,
            };
            let Some((more, next, end)) = more else {
                self.declared = share;
                return Ok(all);
            };
            share.add((size_of::<Declared>() + more.module.len()) as u64)?;
            share.add(DECLARED * more.text.len() as u64)?;
            // A piece must not be longer than the distance to the position of the next one.
            let strange = next < at
                || next == at && next != end
                || more.text.len() > (next - at) as usize
                || end as usize > LONGEST;
            if strange || index == MODULES || again > AGAIN {
                return Err(ClientError::Strange("declared"));
            }
            part = match part.take() {
                Some((mut before, size)) if before.module == more.module && size == end => {
                    before.text.extend(more.text);
                    Some((before, end))
                }
                None => Some((more, end)),
                // Another module has replaced this one.
                Some(_) => {
                    at = 0;
                    again += 1;
                    continue;
                }
            };
            at = next;
            if next == end {
                all.extend(part.take().map(|(declared, _)| declared));
                at = 0;
            }
        }
    }
}

fn symbol(reply: Reply<'_>, _: dtrace_protocol::Items<'_>) -> Option<Option<Symbol>> {
    let Reply::Symbol(symbol) = reply else { return None };
    Some(symbol.map(|of| Symbol {
        module: name(of.module),
        name: name(of.name),
        address: of.address,
        size: of.size,
    }))
}
