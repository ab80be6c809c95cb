//! Compiles trees to programs (dt_cc.c).

mod action;
mod aggregate;
mod clause;
mod context;
mod follow;
mod format;
mod named;
mod print;
mod spec;
mod sugar;

use dtrace_abi::ErrTag;

use crate::error::Result;
use crate::parse::Parsed;
use crate::place::Place;
use crate::program::Program;
use crate::sema::{Node, Session};
use crate::surroundings::Description;
use crate::syntax::{Clause, Item, ItemKind, Stmt, StmtKind};

use spec::Arguments;
pub use spec::Specifies;

/// A clause whose expressions have been built.
#[derive(Clone, Debug)]
struct Built {
    probes: Vec<(Description, Place)>,
    predicate: Option<Node>,
    body: Vec<Step>,
}

/// A statement of a clause.
#[derive(Clone, Debug)]
enum Step {
    Expr(Node, Place),
    If(Node, Vec<Step>, Vec<Step>),
}

/// Compiles a parsed source.
pub(crate) fn compile(
    session: &mut Session<'_>,
    parsed: Parsed,
    arguments: &[String],
    specifies: Specifies,
) -> Result<Program> {
    let mut arguments = Arguments { all: arguments, used: parsed.used_arguments };
    let mut clauses = Vec::new();
    let mut items = 0;
    for item in &parsed.program.items {
        session.place = item.place;
        items += usize::from(!matches!(item.kind, ItemKind::Decl(..) | ItemKind::Control(_)));
        if let Some(clause) = declare(session, item, &mut arguments, specifies)? {
            clauses.push(clause);
        }
    }
    session.place = parsed.program.end;
    if let Some(error) = parsed.error {
        return Err(error);
    }
    session.check_pragmas()?;
    check_arguments(session, &arguments)?;
    let mut sugared = Vec::new();
    for clause in clauses {
        sugared.extend(sugar::expand(session, clause)?);
    }
    if items == 0 && !session.state.options.empty {
        return session.error(ErrTag::Empty, "empty D program translation unit");
    }
    let mut program = Program::default();
    for clause in &sugared {
        clause::compile(session, clause, &mut program)?;
    }
    program.listed = std::mem::take(&mut session.listed);
    Ok(program)
}

/// Processes an item; a clause is only built.
fn declare(
    session: &mut Session<'_>,
    item: &Item,
    arguments: &mut Arguments<'_>,
    specifies: Specifies,
) -> Result<Option<Built>> {
    match &item.kind {
        ItemKind::Clause(clause) => {
            return build(session, clause, arguments, specifies).map(Some);
        }
        ItemKind::Decl(specs, declarators) => session.declare(specs, declarators)?,
        ItemKind::Inline(specs, declarator, value) => {
            session.declare_inline(item.place, specs, declarator, value)?;
        }
        ItemKind::Translator { .. } => session.declare_xlator(item)?,
        ItemKind::Provider { .. } => session.declare_provider(item)?,
        ItemKind::Control(words) => session.control(words)?,
    }
    Ok(None)
}

fn build(
    session: &mut Session<'_>,
    clause: &Clause,
    arguments: &mut Arguments<'_>,
    specifies: Specifies,
) -> Result<Built> {
    let mut probes = Vec::new();
    for probe in &clause.probes {
        probes.push(spec::describe(session, probe, arguments, specifies)?);
    }
    if !session.state.modules.is_empty() {
        context::approach(session, probes.first().map(|(description, _)| description));
    }
    let predicate =
        clause.predicate.as_ref().map(|predicate| session.build(predicate)).transpose()?;
    let body = steps(session, clause.body.as_deref().unwrap_or_default())?;
    session.state.types.look_in(None);
    Ok(Built { probes, predicate, body })
}

fn steps(session: &mut Session<'_>, body: &[Stmt]) -> Result<Vec<Step>> {
    body.iter()
        .map(|stmt| {
            Ok(match &stmt.kind {
                StmtKind::Expr(expr) => Step::Expr(session.build(expr)?, stmt.place),
                StmtKind::If(test, yes, no) => {
                    let test = session.build(test)?;
                    let yes = steps(session, yes)?;
                    Step::If(test, yes, steps(session, no.as_deref().unwrap_or_default())?)
                }
            })
        })
        .collect()
}

/// Checks that the program uses the last argument; otherwise there are too many arguments.
fn check_arguments(session: &Session<'_>, arguments: &Arguments<'_>) -> Result<()> {
    let (Some(last), Some(false)) = (arguments.all.last(), arguments.used.last()) else {
        return Ok(());
    };
    let index = arguments.all.len() - 1;
    if index == 0 || session.state.options.unused_arguments {
        return Ok(());
    }
    let message = format!("extraneous argument '{last}' (${index} is not referenced)");
    session.error(ErrTag::MacroUnused, message)
}
