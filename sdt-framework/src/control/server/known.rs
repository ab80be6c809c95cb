//! Answers about the kernel: its symbols, and the declarations of its modules.

use dtrace_abi::spec::{Field, Spec};
use dtrace_protocol::{Declared, Reply, Symbol};
use heapless::Vec;

use super::refusal::Refusal;
use super::reply::Answer;
use crate::base::rights::Rights;
use crate::control::tracer::Tracer;
use crate::kernel;

/// Bytes of an answer besides those of a text that it carries: the numbers, and the longest name of a module.
const OVERHEAD: usize = 32 + sdt_core::ops::MODULE_NAME_LEN;
/// The greatest number of bytes in one answer.
const PART: usize = 1024;

/// Answers with the symbol at an address.
pub(super) fn at(
    tracer: &dyn Tracer,
    address: u64,
    answer: &mut Answer<'_>,
) -> Result<usize, Refusal> {
    symbol(answer, |show| tracer.symbol(address, show))
}

/// Answers with the symbol of a name.
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
    ask: impl FnOnce(&mut dyn FnMut(kernel::Symbol<'_>)),
) -> Result<usize, Refusal> {
    let mut done = None;
    ask(&mut |symbol| {
        let kernel::Symbol { module, name, address, size } = symbol;
        let symbol = Symbol { module, name, address, size };
        done = Some(answer.plain(&Reply::Symbol(Some(symbol))));
    });
    done.unwrap_or_else(|| answer.plain(&Reply::Symbol(None)))
}

/// Answers with a part of a module's declarations, if the line may use one of its probes. Otherwise the answer shows
/// only that the module exists, without its name and its declarations.
pub(super) fn declared(
    tracer: &dyn Tracer,
    rights: Rights,
    index: u32,
    at: u32,
    answer: &mut Answer<'_>,
) -> Result<usize, Refusal> {
    let room = answer.draft.len().saturating_sub(OVERHEAD).min(PART);
    let mut found = None;
    // The host may hold a lock during the call, so this copies the text first, and calls the framework afterwards.
    tracer.declared(index as usize, &mut |of| found = Some(Piece::of(&of, at as usize, room)));
    let Some(piece) = found else { return answer.plain(&Reply::Declared(None)) };
    let shown = if may_see(tracer, rights, &piece.module) {
        let (next, end) = (piece.next as u32, piece.end as u32);
        Declared { module: &piece.module, text: &piece.text, next, end }
    } else {
        Declared { module: b"", text: b"", next: at, end: at }
    };
    answer.plain(&Reply::Declared(Some(shown)))
}

/// A part of a module's declarations.
struct Piece {
    module: Vec<u8, { sdt_core::ops::MODULE_NAME_LEN }>,
    text: Vec<u8, PART>,
    /// The offset in the text at which the next part begins.
    next: usize,
    /// The length of the text, at which the last part ends.
    end: usize,
}

impl Piece {
    /// Returns the part at `at` that fits.
    fn of(
        &kernel::ModuleText { module, text }: &kernel::ModuleText<'_>,
        at: usize,
        room: usize,
    ) -> Self {
        let mut piece = Self { module: Vec::new(), text: Vec::new(), next: at, end: text.len() };
        // Copies the name, cut to the length of a name in a description.
        piece.module.extend(module.iter().copied().take(sdt_core::ops::MODULE_NAME_LEN));
        while piece.text.len() < room
            && let Some(&byte) = text.get(piece.next)
        {
            piece.next += 1;
            // NULs have no meaning, so they are not sent.
            if byte != 0 {
                // There is room.
                let _ = piece.text.push(byte);
            }
        }
        if piece.text.is_empty() {
            piece.next = piece.end;
        }
        piece
    }
}

/// Returns whether a line with these rights may use any probe of a module.
fn may_see(tracer: &dyn Tracer, rights: Rights, module: &[u8]) -> bool {
    if rights.kernel() {
        return true;
    }
    let mut text = heapless::String::<{ sdt_core::ops::MODULE_NAME_LEN + 4 }>::new();
    let module = core::str::from_utf8(module).unwrap_or_default();
    let fits =
        text.push(':').is_ok() && text.push_str(module).is_ok() && text.push_str("::").is_ok();
    let spec = Spec::parse(&text, Field::Name).ok().filter(|_| fits && !module.is_empty());
    let probe = spec.and_then(|spec| tracer.next_probe(&spec, 0, rights));
    // The module's name can be a valid pattern, which matches probes of other modules too.
    probe.is_some_and(|probe| probe.module().to_bytes() == module.as_bytes())
}
