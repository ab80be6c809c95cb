//! What is answered about the kernel itself: its symbols, and what its modules declare.

use dtrace_protocol::{Declared, Reply, Symbol};
use heapless::Vec;

use super::answer::Answer;
use super::refusal::Refusal;
use super::tracer::Tracer;
use crate::{Field, Rights, Spec, dif};

/// Bytes of an answer besides those of a text that it carries: the numbers, and the longest name of a module.
const OVERHEAD: usize = 32 + sdt_core::ops::MODULE_NAME_LEN;
/// Most bytes that are carried at a time.
const PART: usize = 1024;

/// What stands at an address.
pub(super) fn at(
    tracer: &dyn Tracer,
    address: u64,
    answer: &mut Answer<'_>,
) -> Result<usize, Refusal> {
    symbol(answer, |show| tracer.symbol(address, show))
}

/// What has a name.
pub(super) fn named(
    tracer: &dyn Tracer,
    module: &str,
    name: &str,
    answer: &mut Answer<'_>,
) -> Result<usize, Refusal> {
    let module = (!module.is_empty()).then_some(module.as_bytes());
    symbol(answer, |show| tracer.symbol_named(module, name.as_bytes(), show))
}

fn symbol(
    answer: &mut Answer<'_>,
    ask: impl FnOnce(&mut dyn FnMut(dif::Symbol<'_>)),
) -> Result<usize, Refusal> {
    let mut done = None;
    ask(&mut |symbol| {
        let dif::Symbol { module, name, address, size } = symbol;
        let symbol = Symbol { module, name, address, size };
        done = Some(answer.plain(&Reply::Symbol(Some(symbol))));
    });
    done.unwrap_or_else(|| answer.plain(&Reply::Symbol(None)))
}

/// Some of what a module declares: to who may use one of its probes, as without that it is not there.
pub(super) fn declared(
    tracer: &dyn Tracer,
    rights: Rights,
    index: u32,
    at: u32,
    answer: &mut Answer<'_>,
) -> Result<usize, Refusal> {
    let room = answer.draft.len().saturating_sub(OVERHEAD).min(PART);
    let mut done = None;
    tracer.declared(index as usize, &mut |dif::ModuleText { module, text }| {
        let end = text.len();
        // NULs mean nothing, and need not go over the line.
        let mut part: Vec<u8, PART> = Vec::new();
        let mut next = at as usize;
        while part.len() < room
            && let Some(&byte) = text.get(next)
        {
            next += 1;
            if byte != 0 {
                // There is room.
                let _ = part.push(byte);
            }
        }
        let text = if may_see(tracer, rights, module) { &part[..] } else { &[] };
        let next = if text.is_empty() { end } else { next };
        let found = Declared { module, text, next: next as u32, end: end as u32 };
        done = Some(answer.plain(&Reply::Declared(Some(found))));
    });
    done.unwrap_or_else(|| answer.plain(&Reply::Declared(None)))
}

/// Whether a line with these rights may use any probe of a module.
fn may_see(tracer: &dyn Tracer, rights: Rights, module: &[u8]) -> bool {
    if rights.kernel() {
        return true;
    }
    let mut text = heapless::String::<{ sdt_core::ops::MODULE_NAME_LEN + 4 }>::new();
    let module = core::str::from_utf8(module).unwrap_or_default();
    let fits =
        text.push(':').is_ok() && text.push_str(module).is_ok() && text.push_str("::").is_ok();
    let spec = Spec::parse(&text, Field::Name).ok().filter(|_| fits && !module.is_empty());
    spec.is_some_and(|spec| tracer.next_probe(&spec, 0, rights).is_some())
}
