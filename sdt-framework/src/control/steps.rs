//! Decodes the actions of clauses that need no machine: those that only store simple numbers and strings of arguments, or use
//! them as keys and values of aggregations. Most clauses of frequent probes are of this kind.

use dtrace_abi::action::Action;

use crate::machine::Simple;
use crate::run::clause::{ClauseAction, Target};
use crate::run::field::Field;
use crate::run::fire::HAS_INTERPRETER;
use crate::run::step::{Step, TextPlace, TextStep, Then};

/// The error for a clause that needs the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotPlain;

/// Returns the number of steps of a clause with these actions; `None` if the clause is not plain.
pub(crate) fn count(acts: &[ClauseAction]) -> Option<usize> {
    steps(acts).try_fold(0, |count, step| step.map(|_| count + 1)).ok()
}

/// Decodes the actions of a clause. All actions have their offsets already.
pub(crate) fn steps(acts: &[ClauseAction]) -> impl Iterator<Item = Result<Step, NotPlain>> {
    // The first two words of the current tuple: the number of the aggregation, and the number of its variable.
    let mut begins = (0, 0);
    (1..).zip(acts).filter_map(move |(action, act)| {
        let Some(what) = act.simple else {
            return Some(text(action, act, acts).map(Step::Text).ok_or(NotPlain));
        };
        let then = match (&act.target, act.field, what) {
            (Target::Record, Some(field), _) => Then::Record(field),
            (Target::Record, None, _) if act.kind == Action::Exit => {
                Then::Exit(Field::new(act.record.offset, act.record.size))
            }
            (Target::Key(None), Some(field), _) => Then::Key(field),
            // The number of the variable is a constant, and has its own word (`dtrace_aggvarid_t`).
            (Target::Key(Some(id)), Some(Field::SECOND), Simple::Constant(variable)) => {
                begins = (*id, variable);
                return None;
            }
            (Target::Value(of), ..) if !of.increments => {
                let (id, variable) = begins;
                Then::Value { id, variable, keys: of.keys as u32, function: of.function }
            }
            _ => return Some(Err(NotPlain)),
        };
        Some(Ok(Step::Number { action, what, then }))
    })
}

/// Returns the step of an action that stores the string of an argument. The machine reads strings that the step cannot read, so
/// there is no such step without the machine.
fn text(action: u32, act: &ClauseAction, acts: &[ClauseAction]) -> Option<TextStep> {
    let text = act.text().filter(|_| HAS_INTERPRETER)?;
    // `action` counts from 1, so this is the index of the next action.
    let next = acts.get(action as usize).map(|next| &next.target);
    let place = match (&act.target, next) {
        (Target::Record, _) => TextPlace::Record,
        (Target::Key(None), Some(Target::Value(_))) => TextPlace::LastKey,
        (Target::Key(None), _) => TextPlace::Key,
        _ => return None,
    };
    Some(TextStep { text, place, action, offset: act.record.offset, size: act.record.size })
}
