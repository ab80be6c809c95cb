//! Aggregations (`dt_compile_agg`, dt_cc.c).

use dtrace_abi::ErrTag;
use dtrace_abi::action::Action;
use dtrace_abi::aggregation::{Llquantize, Lquantize};
use dtrace_abi::dif::DifType;

use super::action::{constant, recorded, stack, symbol, ustack, with_difo};
use crate::codegen;
use crate::error::Result;
use crate::program::Act;
use crate::sema::{Function, IdentId, Kind, Node, Session, TracingFunction};

/// Returns the actions of `@name[keys] = function(...)`: the variable, the keys, the value.
pub(super) fn compile(
    session: &mut Session<'_>,
    node: &Node,
    actions: &mut Vec<Act>,
) -> Result<()> {
    let Kind::Agg { ident: agg, keys, func } = &node.kind else { return Ok(()) };
    let Some(func) = func else {
        let message = format!("expression has null effect: @{}", session.ident(*agg).name);
        return session.error_at(node.place, ErrTag::AggNull, message);
    };
    let Kind::Func(function, args) = &func.kind else { return Ok(()) };
    let name = session.ident(*function).name.clone();
    if args.first().is_some_and(|arg| !session.is_scalar(arg)) {
        let message = format!("{name}( ) argument #1 must be of scalar type");
        return session.error_at(func.place, ErrTag::AggScalar, message);
    }
    let Some(Function::Agg(kind)) = session.ident(*function).function else { return Ok(()) };
    let before = actions.len();
    let number = session.ident(*agg).id;
    actions.push(with_difo(Action::DifExpr, constant(number.into())));
    for key in keys {
        let act = self::key(session, key)?;
        actions.push(act);
    }
    let (arg, increment) = match kind {
        Action::Lquantize => (lquantize(session, node, *agg, args)?, args.get(4)),
        Action::Llquantize => (llquantize(session, node, *agg, args)?, args.get(5)),
        Action::Quantize => (0, args.get(1)),
        _ => (0, None),
    };
    let most = match kind {
        Action::Lquantize => 5,
        Action::Llquantize => 6,
        _ => 2,
    };
    if let Some(increment) = increment {
        if !session.is_scalar(increment) {
            let message =
                format!("{name}( ) increment value (argument #{most}) must be of scalar type");
            return session.error_at(node.place, ErrTag::ProtoArg, message);
        }
        if args.len() > most {
            let message = format!(
                "{name}( ) prototype mismatch: {} args passed, at most {most} expected",
                args.len()
            );
            return session.error_at(increment.place, ErrTag::ProtoLen, message);
        }
        let mut difo = codegen::generate(session, increment)?;
        difo.returns = DifType::VOID;
        actions.push(with_difo(Action::DifExpr, difo));
    }
    let keys = u32::try_from(actions.len() - before).unwrap_or(u32::MAX);
    let difo = match args.first() {
        Some(value) => Some(codegen::generate(session, value)?),
        None => None,
    };
    actions.push(Act { kind, difo, keys, arg, name: None });
    Ok(())
}

/// Returns the action for a key. The kernel computes stacks and symbols.
fn key(session: &mut Session<'_>, key: &Node) -> Result<Act> {
    if let Kind::Func(id, args) = &key.kind
        && let Some(Function::Act(call)) = session.ident(*id).function
    {
        match (call, args.first()) {
            (TracingFunction::Stack, _) => return stack(session, args),
            (TracingFunction::Ustack | TracingFunction::Jstack, _) => {
                return ustack(session, call, args);
            }
            (
                TracingFunction::Sym
                | TracingFunction::Mod
                | TracingFunction::Usym
                | TracingFunction::Umod
                | TracingFunction::Uaddr,
                Some(arg),
            ) => {
                return symbol(session, call, arg);
            }
            _ => {}
        }
    }
    recorded(session, key, Action::DifExpr)
}

/// Stores the argument of an aggregation if none is stored yet. Returns the stored argument if it differs from `arg`.
fn remember(session: &mut Session<'_>, agg: IdentId, arg: u64) -> Option<u64> {
    let signature = session.ident_mut(agg).signature.get_or_insert_default();
    if signature.argument == 0 {
        signature.argument = arg;
    }
    Some(signature.argument).filter(|&before| before != arg)
}

fn lquantize(session: &mut Session<'_>, node: &Node, agg: IdentId, args: &[Node]) -> Result<u64> {
    let [_, base, limit, rest @ ..] = args else { return Ok(0) };
    let bound = |arg: &Node, number: u32, of_type, of_value| {
        let Some(value) = arg.int() else {
            let message = format!("lquantize( ) argument #{number} must be an integer constant");
            return session.error_at(arg.place, of_type, message);
        };
        match i32::try_from(value as i64) {
            Ok(value) => Ok(value),
            Err(_) => {
                let message = format!("lquantize( ) argument #{number} must be a 32-bit quantity");
                session.error_at(arg.place, of_value, message)
            }
        }
    };
    let base = bound(base, 1, ErrTag::LquantBasetype, ErrTag::LquantBaseval)?;
    let limit = bound(limit, 2, ErrTag::LquantLimtype, ErrTag::LquantLimval)?;
    let wrong = |tag, message: &str| session.error_at(node.place, tag, message);
    if limit < base {
        let message = "lquantize( ) base (argument #1) must be less than limit (argument #2)";
        return wrong(ErrTag::LquantMismatch, message);
    }
    let mut step = 1;
    if let Some(arg) = rest.first() {
        let Some(value) = arg.positive() else {
            let message = "lquantize( ) argument #3 must be a non-zero positive integer constant";
            return session.error_at(arg.place, ErrTag::LquantSteptype, message);
        };
        step = match u16::try_from(value) {
            Ok(step) => step,
            Err(_) => {
                let message = "lquantize( ) argument #3 must be a 16-bit quantity";
                return session.error_at(arg.place, ErrTag::LquantStepval, message);
            }
        };
    }
    let levels = (i64::from(limit) - i64::from(base)) / i64::from(step);
    if levels == 0 {
        let message =
            "lquantize( ) step (argument #3) too large: must have at least one quantization level";
        return wrong(ErrTag::LquantSteplarge, message);
    }
    let Ok(levels) = u16::try_from(levels) else {
        let message = "lquantize( ) step (argument #3) too small: number of quantization levels must be a 16-bit quantity";
        return wrong(ErrTag::LquantStepsmall, message);
    };
    let now = Lquantize { base, step, levels };
    if let Some(before) = remember(session, agg, now.encode()) {
        let before = Lquantize::decode(before);
        let end = |l: Lquantize| i64::from(l.base) + i64::from(l.levels) * i64::from(l.step);
        let width = |l: Lquantize| i64::from(l.levels) * i64::from(l.step);
        let (tag, what, number, expected, found) = if before.base != base {
            (ErrTag::LquantMatchbase, "base", 1, i64::from(before.base), i64::from(base))
        } else if width(before) != width(now) {
            (ErrTag::LquantMatchlim, "limit", 2, end(before), end(now))
        } else {
            (ErrTag::LquantMatchstep, "step", 3, i64::from(before.step), i64::from(step))
        };
        let message = format!(
            "lquantize( ) {what} (argument #{number}) doesn't match previous declaration: expected {expected}, found {found}"
        );
        return session.error_at(node.place, tag, message);
    }
    Ok(now.encode())
}

/// The names of the arguments of `llquantize`, and the tags of their errors.
const LL_ARGS: [(&str, ErrTag, ErrTag, ErrTag); 4] = [
    ("factor", ErrTag::LlquantFactortype, ErrTag::LlquantFactorval, ErrTag::LlquantFactormatch),
    ("low magnitude", ErrTag::LlquantLowtype, ErrTag::LlquantLowval, ErrTag::LlquantLowmatch),
    ("high magnitude", ErrTag::LlquantHightype, ErrTag::LlquantHighval, ErrTag::LlquantHighmatch),
    (
        "linear steps per magnitude",
        ErrTag::LlquantNsteptype,
        ErrTag::LlquantNstepval,
        ErrTag::LlquantNstepmatch,
    ),
];

fn llquantize(session: &mut Session<'_>, node: &Node, agg: IdentId, args: &[Node]) -> Result<u64> {
    let mut values = [0u16; 4];
    for (index, (name, of_type, of_value, _)) in LL_ARGS.iter().enumerate() {
        let Some(arg) = args.get(index + 1) else { return Ok(0) };
        let number = index + 1;
        let Some(value) = arg.int() else {
            let message =
                format!("llquantize( ) argument #{number} ({name}) must be an integer constant");
            return session.error_at(arg.place, *of_type, message);
        };
        values[index] = match u16::try_from(value) {
            Ok(value) => value,
            Err(_) => {
                let message = format!(
                    "llquantize( ) argument #{number} ({name}) must be an unsigned 16-bit quantity"
                );
                return session.error_at(arg.place, *of_value, message);
            }
        };
    }
    let [factor, low, high, steps] = values;
    let wrong = |tag, message: String| session.error_at(node.place, tag, message);
    if factor < 2 {
        let message = "llquantize( ) factor (argument #1) must be two or more";
        return wrong(ErrTag::LlquantFactorsmall, message.into());
    }
    if low >= high {
        let message = "llquantize( ) high magnitude (argument #3) must be greater than low magnitude (argument #2)";
        return wrong(ErrTag::LlquantMagrange, message.into());
    }
    if steps < factor {
        let message = "llquantize( ) factor (argument #1) must be less than or equal to the number of linear steps per magnitude (argument #4)";
        return wrong(ErrTag::LlquantFactornsteps, message.into());
    }
    let mut power = u64::from(factor);
    while power < u64::from(steps) {
        power *= u64::from(factor);
    }
    if steps % factor != 0 || power % u64::from(steps) != 0 {
        let message = "llquantize( ) factor (argument #1) must evenly divide the number of steps per magnitude (argument #4), and the number of steps per magnitude must evenly divide a power of the factor";
        return wrong(ErrTag::LlquantFactoreven, message.into());
    }
    // The power after the highest magnitude, plus one, must fit.
    if u64::from(factor).checked_pow(u32::from(high) + 2).is_none() {
        let message = format!(
            "llquantize( ) factor ({factor}) raised to power of high magnitude ({high}) plus 1 overflows 64-bits"
        );
        return wrong(ErrTag::LlquantMagtoobig, message);
    }
    let now = Llquantize { factor, low, high, steps };
    if let Some(before) = remember(session, agg, now.encode()) {
        let before = Llquantize::decode(before);
        let before = [before.factor, before.low, before.high, before.steps];
        let differs = before.iter().zip(values).position(|(before, now)| *before != now);
        let index = differs.unwrap_or(0);
        let (name, _, _, tag) = LL_ARGS[index];
        let message = format!(
            "llquantize( ) {name} (argument #{}) doesn't match previous declaration: expected {}, found {}",
            index + 1,
            before[index],
            values[index]
        );
        return session.error_at(node.place, tag, message);
    }
    Ok(now.encode())
}
