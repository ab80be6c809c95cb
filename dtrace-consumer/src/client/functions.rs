//! Requests about functions to trace.

use dtrace_abi::function::Window;
use dtrace_protocol::frame::decoded_len;
use dtrace_protocol::{
    FunctionProbe, FunctionWindow, RefusedFunction, Reply, Request, WhyNoFunction,
};

use super::{Client, ClientError};

/// Size of a request in bytes: it fits the shortest frame that a framework accepts.
const REQUEST: usize = decoded_len(512);

/// The machine code (text) of a kernel whose functions this connection may trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionText {
    /// The build ID of the kernel.
    pub build_id: Vec<u8>,
    /// The number of further sites for which there is room.
    pub left: u32,
    /// The number of bytes below the stack pointer to which a traced instruction may store.
    pub free_stack: u32,
    /// The addresses in the file of the functions that the breakpoint handler calls.
    pub handlers: Vec<u64>,
}

/// An instruction at the boundary of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionSite<'a> {
    /// The module.
    pub module: &'a str,
    /// The function.
    pub function: &'a str,
    /// Whether the function returns here; otherwise it begins here.
    pub is_return: bool,
    /// The address of the instruction in the file.
    pub address: u64,
    /// The offset of the instruction in the function.
    pub offset: u32,
    /// The bytes of the instruction.
    pub code: &'a [u8],
    /// The bytes around it that a jump may overwrite; `None` if no jump may overwrite the instruction.
    pub window: Option<Window>,
}

const fn window(Window { before, after }: Window) -> FunctionWindow {
    FunctionWindow { before, after }
}

impl Client {
    /// Returns a description of the machine code whose functions the kernel lets this connection trace.
    ///
    /// # Errors
    /// The kernel does not let consumers trace functions; and those of [`open`](Self::open).
    pub fn function_text(&mut self) -> Result<FunctionText, ClientError> {
        self.call("function text", Request::FunctionText, |reply, items| {
            let Reply::FunctionText { build_id, left, free_stack } = reply else { return None };
            let handlers = items.iter().collect::<Result<_, _>>().ok()?;
            Some(FunctionText { build_id: build_id.to_vec(), left, free_stack, handlers })
        })
    }

    /// Returns whether the kernel lets this connection trace functions of the file with this build ID.
    ///
    /// # Errors
    /// The connection failed.
    pub fn knows_functions(&mut self, build_id: &[u8]) -> Result<bool, ClientError> {
        let request = Request::Functions { build_id };
        let seq = self.send_items("functions", &request, REQUEST, |_| {})?;
        let known =
            self.answer("functions", seq, |reply, _| (reply == Reply::Functions).then_some(()));
        match known {
            Ok(()) => Ok(true),
            Err(ClientError::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends sites to trace, after [`open`](Self::open). Returns the indexes of those that the kernel refuses, with the reason.
    ///
    /// # Errors
    /// The build ID is not that of the kernel; and those of [`open`](Self::open).
    pub fn functions(
        &mut self,
        build_id: &[u8],
        sites: &[FunctionSite<'_>],
    ) -> Result<Vec<(usize, WhyNoFunction)>, ClientError> {
        let mut all = Vec::new();
        let mut sent = 0;
        while sent < sites.len() {
            let from = sent;
            let request = Request::Functions { build_id };
            let seq = self.send_items("functions", &request, REQUEST, |writer| {
                let mut before = None;
                for site in &sites[from..] {
                    let FunctionSite { module, function, is_return, .. } = *site;
                    let (module, function) = (module.as_bytes(), function.as_bytes());
                    let probe = FunctionProbe { module, function, is_return };
                    let item = dtrace_protocol::FunctionSite {
                        probe: (before != Some(probe)).then_some(probe),
                        address: site.address,
                        offset: site.offset,
                        code: site.code,
                        window: site.window.map(window),
                    };
                    if writer.push(&item).is_err() {
                        break;
                    }
                    before = Some(probe);
                    sent += 1;
                }
            })?;
            if sent == from {
                return Err(ClientError::Strange("functions"));
            }
            let count = sent - from;
            let refused = self.answer("functions", seq, |reply, items| {
                if reply != Reply::Functions {
                    return None;
                }
                let pairs = items.iter().map(|item| {
                    let RefusedFunction { index, why } = item.ok()?;
                    let index = usize::try_from(index).ok().filter(|index| *index < count)?;
                    Some((from + index, why))
                });
                pairs.collect::<Option<Vec<_>>>()
            })?;
            all.extend(refused);
        }
        Ok(all)
    }
}
