//! Actions (`dt_action_*`, dt_cc.c).

use dtrace_abi::ErrTag;
use dtrace_abi::action::{Action, LibAction, UstackArg};
use dtrace_abi::dif::{DifType, Instr};
use dtrace_abi::option::{OptionId, UNSET};

use super::print;
use crate::codegen;
use crate::error::Result;
use crate::program::{Act, Difo};
use crate::sema::{Function, IdentId, Kind, Node, Session, TracingFunction};

/// The default number of frames (`dtrace_stackframes_default`).
const USUAL_FRAMES: u64 = 20;

/// Adds the actions of a call. Returns its format, if it has one.
pub(super) fn compile(
    session: &mut Session<'_>,
    node: &Node,
    id: IdentId,
    args: &[Node],
    actions: &mut Vec<Act>,
) -> Result<Option<Vec<u8>>> {
    let Some(Function::Act(call)) = session.ident(id).function else { return Ok(None) };
    let first = args.first().unwrap_or(node);
    match call {
        TracingFunction::Printf => {
            return print::printf(session, node, id, args, Action::Printf, actions);
        }
        TracingFunction::System => {
            return print::printf(session, node, id, args, Action::System, actions);
        }
        TracingFunction::Freopen => {
            return print::printf(session, node, id, args, Action::Freopen, actions);
        }
        TracingFunction::Printa => return print::printa(session, node, id, args, actions),
        TracingFunction::Print => return trace(session, first, true, actions),
        TracingFunction::Trace => return trace(session, first, false, actions),
        TracingFunction::Breakpoint => actions.push(plain(Action::Breakpoint, 0)),
        TracingFunction::Panic => actions.push(plain(Action::Panic, 0)),
        TracingFunction::Stop => actions.push(plain(Action::Stop, 0)),
        TracingFunction::Chill => value(session, first, Action::Chill, actions)?,
        TracingFunction::Raise => value(session, first, Action::Raise, actions)?,
        TracingFunction::Speculate => value(session, first, Action::Speculate, actions)?,
        TracingFunction::Commit => value(session, first, Action::Commit, actions)?,
        TracingFunction::Discard => value(session, first, Action::Discard, actions)?,
        TracingFunction::Exit => {
            value(session, first, Action::Exit, actions)?;
            resize(actions, 4);
        }
        TracingFunction::Clear => {
            let agg = aggregation(session, node, id, args, 1..=1, Tags::CLEAR)?;
            actions.push(library(constant(agg.into()), LibAction::Clear));
        }
        TracingFunction::Denormalize => {
            let agg = aggregation(session, node, id, args, 1..=1, Tags::NORMALIZE)?;
            actions.push(library(constant(agg.into()), LibAction::Denormalize));
        }
        TracingFunction::Normalize => {
            let agg = aggregation(session, node, id, args, 2..=2, Tags::NORMALIZE)?;
            actions.push(library(constant(agg.into()), LibAction::Normalize));
            let difo = codegen::generate(session, &args[1])?;
            actions.push(library(difo, LibAction::Normalize));
        }
        TracingFunction::Trunc => {
            let agg = aggregation(session, node, id, args, 1..=2, Tags::TRUNC)?;
            actions.push(library(constant(agg.into()), LibAction::Trunc));
            optional(session, args.get(1), LibAction::Trunc, actions)?;
        }
        TracingFunction::Ftruncate => actions.push(library(constant(0), LibAction::Ftruncate)),
        TracingFunction::Setopt => {
            let difo = codegen::generate(session, first)?;
            actions.push(library(difo, LibAction::Setopt));
            optional(session, args.get(1), LibAction::Setopt, actions)?;
        }
        TracingFunction::Stack => actions.push(stack(session, args)?),
        TracingFunction::Ustack | TracingFunction::Jstack => {
            actions.push(ustack(session, call, args)?)
        }
        TracingFunction::Sym
        | TracingFunction::Mod
        | TracingFunction::Usym
        | TracingFunction::Umod
        | TracingFunction::Uaddr => {
            actions.push(symbol(session, call, first)?);
        }
        TracingFunction::Return => {
            let message =
                "return( ) is not supported: probes cannot change the return value of a function";
            return session.error_at(node.place, ErrTag::FuncUndef, message);
        }
        TracingFunction::Tracemem => tracemem(session, args, actions)?,
        TracingFunction::Printm => printm(session, args, actions)?,
    }
    Ok(None)
}

fn plain(kind: Action, arg: u64) -> Act {
    Act { kind, difo: None, keys: 0, arg, name: None }
}

/// Returns a DIFO that returns a constant.
pub(super) fn constant(value: u64) -> Difo {
    Difo {
        code: vec![Instr::setx(0, 1), Instr::ret(1)],
        places: Vec::new(),
        integers: vec![value],
        strings: Vec::new(),
        variables: Vec::new(),
        returns: DifType::INT,
        destructive: false,
    }
}

/// Returns a DIFO without a useful result, for `printf` without arguments.
pub(super) fn nothing() -> Difo {
    Difo { code: vec![Instr::ret(0)], integers: Vec::new(), ..constant(0) }
}

pub(super) fn with_difo(kind: Action, difo: Difo) -> Act {
    Act { kind, difo: Some(difo), keys: 0, arg: 0, name: None }
}

/// Returns the action that records a value.
pub(super) fn recorded(session: &mut Session<'_>, value: &Node, kind: Action) -> Result<Act> {
    let difo = codegen::generate(session, value)?;
    Ok(Act { name: session.argument_name(value), ..with_difo(kind, difo) })
}

fn library(difo: Difo, action: LibAction) -> Act {
    Act { arg: action.number().into(), ..with_difo(Action::LibAct, difo) }
}

fn optional(
    session: &mut Session<'_>,
    arg: Option<&Node>,
    action: LibAction,
    actions: &mut Vec<Act>,
) -> Result<()> {
    let difo = match arg {
        Some(arg) => codegen::generate(session, arg)?,
        None => constant(0),
    };
    actions.push(library(difo, action));
    Ok(())
}

fn value(
    session: &mut Session<'_>,
    arg: &Node,
    kind: Action,
    actions: &mut Vec<Act>,
) -> Result<()> {
    actions.push(with_difo(kind, codegen::generate(session, arg)?));
    Ok(())
}

/// Changes the size of the last action's datum.
fn resize(actions: &mut [Act], size: u32) {
    if let Some(difo) = actions.last_mut().and_then(|act| act.difo.as_mut()) {
        difo.returns.size = size;
    }
}

/// The tags of the errors of an action on an aggregation.
struct Tags {
    count: ErrTag,
    agg: ErrTag,
    scalar: ErrTag,
    undefined: ErrTag,
}

impl Tags {
    const CLEAR: Self = Self {
        count: ErrTag::ClearProto,
        agg: ErrTag::ClearAggarg,
        scalar: ErrTag::Unknown,
        undefined: ErrTag::ClearAggbad,
    };
    const NORMALIZE: Self = Self {
        count: ErrTag::NormalizeProto,
        agg: ErrTag::NormalizeAggarg,
        scalar: ErrTag::NormalizeScalar,
        undefined: ErrTag::NormalizeAggbad,
    };
    const TRUNC: Self = Self {
        count: ErrTag::TruncProto,
        agg: ErrTag::TruncAggarg,
        scalar: ErrTag::TruncScalar,
        undefined: ErrTag::TruncAggbad,
    };
}

/// Returns the number of the aggregation that is the argument of an action; a scalar may follow it.
fn aggregation(
    session: &Session<'_>,
    node: &Node,
    id: IdentId,
    args: &[Node],
    counts: std::ops::RangeInclusive<usize>,
    tags: Tags,
) -> Result<u32> {
    let name = &session.ident(id).name;
    if !counts.contains(&args.len()) {
        let expected = match (args.len(), counts.start() == counts.end()) {
            (_, true) => counts.start().to_string(),
            (0, false) => "at least 1".into(),
            _ => "no more than 2".into(),
        };
        let message = format!(
            "{name}( ) prototype mismatch: {} args passed, {expected} expected",
            args.len()
        );
        return session.error_at(node.place, tags.count, message);
    }
    let Kind::Agg { ident, .. } = args[0].kind else {
        let message = format!(
            "{name}( ) argument #1 is incompatible with prototype:\n\tprototype: aggregation\n\t argument: {}",
            session.type_name(&args[0])
        );
        return session.error_at(node.place, tags.agg, message);
    };
    if args.get(1).is_some_and(|arg| !session.is_scalar(arg)) {
        let message = format!("{name}( ) argument #2 must be of scalar type");
        return session.error_at(node.place, tags.scalar, message);
    }
    check_defined(session, node, ident, tags.undefined)?;
    Ok(session.ident(ident).id)
}

/// Checks that this program or an earlier one has assigned the aggregation.
pub(super) fn check_defined(
    session: &Session<'_>,
    node: &Node,
    agg: IdentId,
    tag: ErrTag,
) -> Result<()> {
    let ident = session.ident(agg);
    if ident.generation == session.state.generation && !ident.flags.modified {
        let message = format!("undefined aggregation: @{}", ident.name);
        return session.error_at(node.place, tag, message);
    }
    Ok(())
}

fn trace(
    session: &mut Session<'_>,
    arg: &Node,
    print: bool,
    actions: &mut Vec<Act>,
) -> Result<Option<Vec<u8>>> {
    let (name, void, dynamic, agg) = if print {
        ("print", ErrTag::PrintVoid, ErrTag::PrintDyn, ErrTag::PrintAgg)
    } else {
        ("trace", ErrTag::TraceVoid, ErrTag::TraceDyn, ErrTag::TraceAgg)
    };
    if session.is_void(arg) {
        let message = format!("{name}( ) may not be applied to a void expression");
        return session.error_at(arg.place, void, message);
    }
    if session.translator(arg).is_some_and(|(_, pointer)| pointer) {
        let message = format!("{name}( ) may not be applied to a translated pointer");
        return session.error_at(arg.place, dynamic, message);
    }
    if matches!(arg.kind, Kind::Agg { .. }) {
        let hint = if print { " -- did you mean printa()?" } else { "" };
        let message = format!("{name}( ) may not be applied to an aggregation{hint}");
        return session.error_at(arg.place, agg, message);
    }
    actions.push(recorded(session, arg, Action::DifExpr)?);
    // The consumer needs the type, and has the same table of types.
    Ok(print.then(|| session.types().printed(session.ty(arg)).into_bytes()))
}

/// Returns the number of frames: the one in the call, or the value of an option; 0 for the kernel's default. At most
/// `maxframes`.
fn frames(session: &Session<'_>, said: Option<u64>, option: OptionId) -> u64 {
    let options = &session.state.options;
    let frames = said.unwrap_or(match options.get(option) {
        UNSET => 0,
        value => value as u64,
    });
    match options.max_frames {
        Some(most) if frames == 0 => USUAL_FRAMES.min(most.into()),
        Some(most) => frames.min(most.into()),
        None => frames,
    }
}

pub(super) fn stack(session: &Session<'_>, args: &[Node]) -> Result<Act> {
    let mut said = None;
    if let Some(size) = args.first() {
        if args.len() > 1 {
            let message = "stack( ) prototype mismatch: too many arguments";
            return session.error_at(size.place, ErrTag::StackProto, message);
        }
        let Some(size) = size.positive() else {
            let message = "stack( ) size must be a non-zero positive integral constant expression";
            return session.error_at(size.place, ErrTag::StackSize, message);
        };
        said = Some(size);
    }
    Ok(plain(Action::Stack, frames(session, said, OptionId::Stackframes)))
}

pub(super) fn ustack(session: &Session<'_>, call: TracingFunction, args: &[Node]) -> Result<Act> {
    let (kind, option) = match call {
        TracingFunction::Jstack => (Action::Jstack, OptionId::Jstackframes),
        _ => (Action::Ustack, OptionId::Ustackframes),
    };
    let mut said = None;
    if let Some(count) = args.first() {
        said = count.positive();
        if said.is_none() {
            let message = "ustack( ) argument #1 must be a non-zero positive integer constant";
            return session.error_at(count.place, ErrTag::UstackFrames, message);
        }
    }
    let mut arg = UstackArg { frames: frames(session, said, option) as u32, string_size: 0 };
    let strings = session.state.options.get(OptionId::Jstackstrsize);
    if call == TracingFunction::Jstack && strings != UNSET {
        arg.string_size = strings as u32;
    }
    if let Some(size) = args.get(1) {
        let Some(value) = size.int().filter(|&v| !size.flags.signed || v as i64 >= 0) else {
            let message = "ustack( ) argument #2 must be a positive integer constant";
            return session.error_at(size.place, ErrTag::UstackStrsize, message);
        };
        if args.len() > 2 {
            let message = "ustack( ) prototype mismatch: too many arguments";
            return session.error_at(size.place, ErrTag::UstackProto, message);
        }
        arg.string_size = value as u32;
    }
    Ok(plain(kind, arg.encode()))
}

/// Returns the action for an address that is shown as a symbol: eight bytes of any type.
pub(super) fn symbol(session: &mut Session<'_>, call: TracingFunction, arg: &Node) -> Result<Act> {
    let kind = match call {
        TracingFunction::Mod => Action::Mod,
        TracingFunction::Usym => Action::Usym,
        TracingFunction::Umod => Action::Umod,
        TracingFunction::Uaddr => Action::Uaddr,
        _ => Action::Sym,
    };
    let mut difo = codegen::generate(session, arg)?;
    difo.returns.size = 8;
    Ok(with_difo(kind, difo))
}

fn tracemem(session: &mut Session<'_>, args: &[Node], actions: &mut Vec<Act>) -> Result<()> {
    let [address, limit, rest @ ..] = args else { return Ok(()) };
    if !session.is_integer(address) && !session.is_pointer(address) {
        let message = format!(
            "tracemem( ) argument #1 is incompatible with prototype:\n\tprototype: pointer or integer\n\t argument: {}",
            session.type_name(address)
        );
        return session.error_at(address.place, ErrTag::TracememAddr, message);
    }
    let Some(limit_size) = limit.positive() else {
        let message =
            "tracemem( ) argument #2 must be a non-zero positive integral constant expression";
        return session.error_at(limit.place, ErrTag::TracememSize, message);
    };
    if let [size, more @ ..] = rest {
        if !more.is_empty() {
            let message = "tracemem ( ) prototype mismatch: expected at most 3 args";
            return session.error_at(size.place, ErrTag::TracememArgs, message);
        }
        if !session.is_scalar(size) {
            let message = "tracemem ( ) dynamic size (argument #3) must be of scalar type";
            return session.error_at(size.place, ErrTag::TracememDynsize, message);
        }
        let mut difo = codegen::generate(session, size)?;
        difo.returns = DifType::INT;
        actions.push(with_difo(Action::TracememDynsize, difo));
    }
    let mut difo = codegen::generate(session, address)?;
    difo.returns.flags |= DifType::BYREF;
    difo.returns.size = u32::try_from(limit_size).unwrap_or(u32::MAX);
    actions.push(with_difo(Action::Tracemem, difo));
    Ok(())
}

fn printm(session: &mut Session<'_>, args: &[Node], actions: &mut Vec<Act>) -> Result<()> {
    let [size, address, ..] = args else { return Ok(()) };
    let Some(bytes) = size.positive() else {
        let message =
            "printm( ) argument #1 must be a non-zero positive integral constant expression";
        return session.error_at(size.place, ErrTag::PrintmSize, message);
    };
    if !session.is_pointer(address) {
        let message = format!(
            "printm( ) argument #2 is incompatible with prototype:\n\tprototype: pointer\n\t argument: {}",
            session.type_name(address)
        );
        return session.error_at(address.place, ErrTag::PrintmAddr, message);
    }
    let mut difo = codegen::generate(session, address)?;
    difo.returns.flags |= DifType::BYREF;
    difo.returns.size = u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(8);
    actions.push(with_difo(Action::Printm, difo));
    Ok(())
}
