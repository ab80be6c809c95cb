//! Requests about functions to trace.

use dtrace_abi::function::Window;
use dtrace_protocol::{
    FunctionProbe, FunctionSite, FunctionWindow, Items, RefusedFunction, Reply, Why, WhyNoFunction,
};

use super::refusal::Refusal;
use super::reply::Answer;
use crate::base::rights::Rights;
use crate::control::functions::{self, FunctionError};
use crate::control::tracer::Tracer;
use crate::run::consumer::ConsumerId;

/// Refuses lines without the right to trace functions.
const fn need_right(rights: Rights) -> Result<(), Refusal> {
    if rights.functions() { Ok(()) } else { Err(refused(FunctionError::NotPermitted)) }
}

const fn refused(error: FunctionError) -> Refusal {
    Refusal::Function(error)
}

/// The text whose functions may be traced.
pub(super) fn text(
    tracer: &dyn Tracer,
    rights: Rights,
    answer: &mut Answer<'_>,
) -> Result<usize, Refusal> {
    need_right(rights)?;
    let (text, left) = tracer.function_text().ok_or(refused(FunctionError::NotSupported))?;
    let (left, free) = (u32::try_from(left), u32::try_from(text.free_stack()));
    let reply = Reply::FunctionText {
        build_id: text.build_id(),
        left: left.unwrap_or(u32::MAX),
        free_stack: free.unwrap_or(u32::MAX),
    };
    answer.with_items(&reply, |writer| {
        for address in text.handlers() {
            // If not all addresses fit, the consumer does not exclude the others, and the kernel refuses functions that
            // it cannot trace.
            if writer.push(&address.wrapping_sub(text.slide())).is_err() {
                break;
            }
        }
        Ok(())
    })
}

/// Adds the functions of a request.
pub(super) fn add(
    tracer: &dyn Tracer,
    rights: Rights,
    open: ConsumerId,
    build_id: &[u8],
    items: Items<'_>,
    answer: &mut Answer<'_>,
) -> Result<usize, Refusal> {
    need_right(rights)?;
    let (text, _) = tracer.function_text().ok_or(refused(FunctionError::NotSupported))?;
    if text.slide_of(build_id).is_none() {
        return Err(refused(FunctionError::Build));
    }
    // Checks the whole frame before the first site is added.
    if items.iter::<FunctionSite<'_>>().any(|item| item.is_err()) {
        return Err(Refusal::Plain(Why::NotUnderstood, "the request has damaged functions"));
    }
    answer.with_items(&Reply::Functions, |writer| {
        let mut result = Ok(());
        tracer.adding_functions(&mut || {
            let mut probe = None;
            for (index, item) in items.iter::<FunctionSite<'_>>().flatten().enumerate() {
                probe = item.probe.or(probe);
                let added = match probe {
                    Some(probe) => tracer.add_function(open, build_id, &site(&probe, &item)),
                    None => Err(FunctionError::Name),
                };
                let Err(error) = added else { continue };
                if let FunctionError::Consumer(error) = error {
                    result = Err(error);
                    return;
                }
                // The answer always fits: each of its items is shorter than the corresponding item of the request.
                let _ = writer.push(&RefusedFunction { index: index as u32, why: why(error) });
            }
        });
        result
    })
}

fn site<'a>(probe: &FunctionProbe<'a>, item: &FunctionSite<'a>) -> functions::FunctionSite<'a> {
    let FunctionProbe { module, function, is_return } = *probe;
    let FunctionSite { address, offset, code, window, .. } = *item;
    let window = window.map(|FunctionWindow { before, after }| Window { before, after });
    functions::FunctionSite { module, function, is_return, address, offset, code, window }
}

const fn why(error: FunctionError) -> WhyNoFunction {
    match error {
        FunctionError::Name => WhyNoFunction::Name,
        FunctionError::Instruction => WhyNoFunction::Instruction,
        FunctionError::Stack => WhyNoFunction::Stack,
        FunctionError::Address => WhyNoFunction::Address,
        FunctionError::Bytes => WhyNoFunction::Bytes,
        FunctionError::Overlap => WhyNoFunction::Overlap,
        FunctionError::NoRoom => WhyNoFunction::NoRoom,
        _ => WhyNoFunction::Other,
    }
}
