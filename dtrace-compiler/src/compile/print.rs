//! `printf`, `printa`, `system` and `freopen` (`dt_printf_validate`, dt_printf.c).

use dtrace_abi::ErrTag;
use dtrace_abi::action::Action;

use super::action::{check_defined, constant, nothing, recorded, with_difo};
use super::format::{self, Takes};
use crate::error::Result;
use crate::program::Act;
use crate::sema::{Function, IdentId, Kind, Node, Session};
use crate::types::Type;

/// The file name of `freopen("")`: the original output (`DT_FREOPEN_RESTORE`, dt_impl.h).
const RESTORE: &[u8] = b".";

/// A format in a call, and the values to which it applies.
struct Values<'n> {
    /// The function's name.
    function: &'n str,
    /// The number of arguments before the values.
    before: usize,
    values: Vec<Node>,
    /// The values are an aggregation's keys.
    aggregation: Option<Action>,
}

pub(super) fn printf(
    session: &mut Session<'_>,
    node: &Node,
    id: IdentId,
    args: &[Node],
    kind: Action,
    actions: &mut Vec<Act>,
) -> Result<Option<Vec<u8>>> {
    let name = session.ident(id).name.clone();
    let [format, values @ ..] = args else { return Ok(None) };
    let Kind::Str(text) = &format.kind else {
        let message = format!(
            "{name}( ) argument #1 is incompatible with prototype:\n\tprototype: string constant\n\t argument: {}",
            session.type_name(format)
        );
        return session.error_at(node.place, ErrTag::PrintfArgFmt, message);
    };
    let mut text = text.clone();
    if kind == Action::Freopen {
        if text == RESTORE {
            let message = format!("{name}( ) argument #1 cannot be \".\"");
            return session.error_at(node.place, ErrTag::FreopenInvalid, message);
        }
        if text.is_empty() {
            text = RESTORE.to_vec();
        }
    }
    session.place = node.place;
    let checked = Values { function: &name, before: 1, values: values.to_vec(), aggregation: None };
    let (used, text) = validate(session, &text, &checked)?;
    if used < values.len() {
        let message = format!(
            "{name}( ) prototype mismatch: only {used} arguments required by this format string"
        );
        return session.error(ErrTag::PrintfArgExtra, message);
    }
    if values.is_empty() {
        actions.push(with_difo(kind, nothing()));
    }
    for value in values {
        actions.push(recorded(session, value, kind)?);
    }
    Ok(Some(text))
}

pub(super) fn printa(
    session: &mut Session<'_>,
    node: &Node,
    id: IdentId,
    args: &[Node],
    actions: &mut Vec<Act>,
) -> Result<Option<Vec<u8>>> {
    let name = session.ident(id).name.clone();
    let (mut format, aggs) = match args {
        [first, rest @ ..] => match &first.kind {
            Kind::Str(text) => (Some(text.clone()), rest),
            _ => (None, args),
        },
        [] => (None, args),
    };
    let first_number = 1 + usize::from(format.is_some());
    if aggs.is_empty() {
        let count = args.len();
        let message =
            format!("{name}( ) prototype mismatch: {count} args passed, {first_number} expected");
        return session.error_at(node.place, ErrTag::PrintaProto, message);
    }
    let mut first = None;
    for (index, arg) in aggs.iter().enumerate() {
        let Kind::Agg { ident: agg, .. } = arg.kind else {
            let message = format!(
                "{name}( ) argument #{} is incompatible with prototype:\n\tprototype: aggregation\n\t argument: {}",
                first_number + index,
                session.type_name(arg)
            );
            return session.error_at(node.place, ErrTag::PrintaAggarg, message);
        };
        check_defined(session, node, agg, ErrTag::PrintaAggbad)?;
        match first {
            Some(first) => compare_keys(session, first, agg)?,
            None => {
                first = Some(agg);
                if let Some(text) = &mut format {
                    session.place = node.place;
                    let values = keys(session, agg);
                    let function = session.ident(agg).agg_function;
                    let function = function.and_then(|id| session.ident(id).function);
                    // If one format shows several aggregations, all are treated as signed. FreeBSD 13 does the same if
                    // a sum is printed beside a count().
                    let aggregation = match function {
                        _ if aggs.len() > 1 => Some(Action::Sum),
                        Some(Function::Agg(action)) => Some(action),
                        _ => Some(Action::Count),
                    };
                    let checked = Values { function: &name, before: 1, values, aggregation };
                    *text = validate(session, text, &checked)?.1;
                }
            }
        }
        let number = session.ident(agg).id;
        actions.push(with_difo(Action::Printa, constant(number.into())));
    }
    Ok(format)
}

/// Returns nodes with the types of an aggregation's keys.
fn keys(session: &Session<'_>, agg: IdentId) -> Vec<Node> {
    let signature = session.ident(agg).signature.as_ref();
    let params = signature.map(|signature| &signature.params[..]).unwrap_or_default();
    params.iter().flatten().map(|param| (*param.node).clone()).collect()
}

/// Checks that aggregations that are printed together have the same keys.
fn compare_keys(session: &Session<'_>, first: IdentId, second: IdentId) -> Result<()> {
    let (left, right) = (keys(session, first), keys(session, second));
    let (first, second) = (&session.ident(first).name, &session.ident(second).name);
    if left.len() != right.len() {
        let s = |count: usize| if count == 1 { "" } else { "s" };
        let message = format!(
            "printa( ): @{first} and @{second} do not have matching key signatures: @{first} has {} key{}, @{second} has {} key{}",
            left.len(),
            s(left.len()),
            right.len(),
            s(right.len())
        );
        return session.error(ErrTag::PrintaAggkey, message);
    }
    for (index, (l, r)) in left.iter().zip(&right).enumerate() {
        if !session.is_assignable(l, r) {
            let number = index + 1;
            let message = format!(
                "printa( ): @{second}[ ] key #{number} is incompatible with @{first}:\n{first:>9} key #{number}: {}\n{second:>9} key #{number}: {}",
                session.type_name(l),
                session.type_name(r)
            );
            return session.error(ErrTag::PrintaAggproto, message);
        }
    }
    Ok(())
}

/// Checks a format against its values. Returns the number of values that it uses, and the kernel's form of the format.
fn validate(session: &mut Session<'_>, text: &[u8], with: &Values<'_>) -> Result<(usize, Vec<u8>)> {
    let Values { function, before, values, aggregation } = with;
    let format = format::parse(session, text)?;
    if text.is_empty() {
        let message = format!("{function}( ) format string is empty");
        return session.error(ErrTag::PrintfFmtEmpty, message);
    }
    let special = session.types().special();
    let agg_type = if *aggregation == Some(Action::Count) { special.uint64 } else { special.int64 };
    let agg_node = session.type_node(agg_type);
    let mut used = 0;
    let mut letters = Vec::new();
    for (index, conversion) in format.conversions.iter().enumerate() {
        let number = index + 1;
        let name = &conversion.name;
        let takes = format::takes(name).unwrap_or(Takes::Nothing);
        if takes == Takes::Nothing {
            letters.push(name.clone());
            continue;
        }
        let dynamic = [(conversion.width_argument, "*"), (conversion.precision_argument, ".*")];
        for (_, star) in dynamic.into_iter().filter(|(wanted, _)| *wanted) {
            let Some(value) = values.get(used) else {
                let message = format!(
                    "{function}( ) prototype mismatch: conversion #{number} (%{name}) is missing a corresponding \"{star}\" argument"
                );
                return session.error(ErrTag::PrintfDynProto, message);
            };
            used += 1;
            if !session.is_integer(value) {
                let message = format!(
                    "{function}( ) argument #{} is incompatible with conversion #{number} prototype:\n\tconversion: % {star} {name}\n\t prototype: int\n\t  argument: {}",
                    used + before,
                    session.type_name(value)
                );
                return session.error(ErrTag::PrintfDynType, message);
            }
        }
        let (value, what) = if conversion.aggregation {
            if aggregation.is_none() {
                let message = format!(
                    "%@ conversion requires an aggregation and is not for use with {function}( )"
                );
                return session.error(ErrTag::PrintfAggConv, message);
            }
            (&agg_node, "aggregating action".to_string())
        } else {
            let Some(value) = values.get(used) else {
                let message = format!(
                    "{function}( ) prototype mismatch: conversion #{number} (%{name}) is missing a corresponding value argument"
                );
                return session.error(ErrTag::PrintfArgProto, message);
            };
            used += 1;
            (value, format!("argument #{}", used + before))
        };
        if !fits(session, takes, value) {
            let message = format!(
                "{function}( ) {what} is incompatible with conversion #{number} prototype:\n\tconversion: %{name}\n\t prototype: {}\n\t  argument: {}",
                takes.prototype(),
                session.type_name(value)
            );
            return session.error(ErrTag::PrintfArgType, message);
        }
        letters.push(conversion.letters(session.size(value), value.flags.signed));
    }
    Ok((used, format.write(&letters)))
}

fn fits(session: &mut Session<'_>, takes: Takes, value: &Node) -> bool {
    let ty = session.types().resolve(session.ty(value));
    match takes {
        Takes::Address => {
            session.is_pointer(value) || session.is_integer(value) || session.is_symaddr(value)
        }
        Takes::UserAddress => {
            let target = session.surroundings.macro_variable("target").unwrap_or(0);
            session.is_usymaddr(value)
                || target != 0 && (session.is_pointer(value) || session.is_integer(value))
        }
        Takes::SmallInteger => session.is_integer(value) && session.size(value) <= 4,
        Takes::Integer => session.is_integer(value),
        Takes::Float => session.is_float(value),
        Takes::Type(name) => {
            let wanted = session.type_named(name);
            wanted.is_some_and(|wanted| session.types().compatible(ty, wanted))
        }
        Takes::Short => is_named(session, value, &["short", "signed short", "unsigned short"]),
        Takes::Long => is_named(session, value, &["long", "signed long", "unsigned long"]),
        Takes::LongLong => {
            is_named(session, value, &["long long", "signed long long", "unsigned long long"])
                || is_typedef_of(session, value, &["int64_t", "uint64_t"])
        }
        Takes::Str => {
            session.is_string(value)
                || matches!(session.types().get(ty), Type::Array(of, _) if session.types().is_char(*of))
        }
        Takes::WideStr => matches!(
            session.types().get(ty),
            Type::Array(of, _) if session.types().integer(*of).is_some_and(|(bits, _)| bits == 32)
        ),
        Takes::Stack => session.is_stack(value),
        Takes::Time => session.is_integer(value) && session.size(value) == 8,
        Takes::Nothing => true,
    }
}

fn is_named(session: &Session<'_>, value: &Node, names: &[&str]) -> bool {
    let ty = session.types().resolve(session.ty(value));
    names.contains(&session.types().name(ty).as_str())
}

/// Returns whether a type, or a typedef on the way to it, has one of these names.
fn is_typedef_of(session: &Session<'_>, value: &Node, names: &[&str]) -> bool {
    let mut ty = session.ty(value);
    while let Type::Typedef(name, to) = session.types().get(ty) {
        if names.contains(&name.as_str()) {
            return true;
        }
        ty = *to;
    }
    false
}
