//! Clauses (`dt_cook_clause`, dt_parser.c; `dt_compile_one_clause`, dt_cc.c).

use dtrace_abi::ErrTag;
use dtrace_abi::action::Action;
use dtrace_abi::dif::DifType;
use dtrace_abi::stability::Attribute;

use super::follow::Follow;
use super::named::{self, Context};
use super::{Built, Step, action, aggregate, context};
use crate::codegen;
use crate::error::Result;
use crate::place::Place;
use crate::program::{Act, Ecb, Program, Statement};
use crate::sema::{IdKind, Kind, Node, Session, Use};
use crate::surroundings::Description;

/// A cooked statement.
type Cooked = (Node, Place);

/// Collects the expressions of statements, in order.
fn expressions<'c>(steps: &'c [Step], into: &mut Vec<&'c Node>) {
    for step in steps {
        match step {
            Step::Expr(node, _) => into.push(node),
            Step::If(condition, then, otherwise) => {
                into.push(condition);
                expressions(then, into);
                expressions(otherwise, into);
            }
        }
    }
}

/// Compiles a clause for each of its probe descriptions.
pub(super) fn compile(
    session: &mut Session<'_>,
    clause: &Built,
    program: &mut Program,
) -> Result<()> {
    let end = session.place;
    let mut statements = Vec::new();
    expressions(&clause.body, &mut statements);
    let contexts =
        named::contexts(session, &clause.probes, clause.predicate.as_ref(), &statements)?;
    for Context { description, place, named } in contexts {
        session.place = place;
        context::enter(session, &description, named)?;
        session.place = end;
        let ecb = compile_one(session, clause, &description)?;
        context::leave(session);
        program.ecbs.push(ecb);
    }
    Ok(())
}

fn compile_one(
    session: &mut Session<'_>,
    clause: &Built,
    description: &Description,
) -> Result<Ecb> {
    let probe_attr = session.probe.as_ref().map_or(Attribute::DEFAULT, |probe| probe.attr);
    let (predicate, body, attr) = cook(session, clause, probe_attr)?;
    let mut ecb = Ecb {
        probe: description.clone(),
        predicate: None,
        actions: Vec::new(),
        statements: Vec::new(),
    };
    if let Some(predicate) = predicate {
        ecb.predicate = Some(codegen::generate(session, &predicate)?);
    }
    if body.is_empty() {
        let attr = Attribute::DEFAULT;
        ecb.statements.push(Statement { actions: 0, text: None, probe_attr, attr });
    }
    let mut follow = Follow::default();
    for (node, place) in &body {
        let before = ecb.actions.len();
        let text = statement(session, node, &mut ecb.actions)?;
        let actions = ecb.actions.len() - before;
        ecb.statements.push(Statement { actions, text, probe_attr, attr });
        let place = match node.kind {
            Kind::Agg { .. } => node.place,
            _ => *place,
        };
        follow.add(session, place, &ecb.actions[before..])?;
    }
    Ok(ecb)
}

/// Cooks the predicate and the body. The body is cooked first, because it may declare variables that the predicate uses. If the
/// body refers to an unknown variable, cooks the predicate first, so that its error has precedence, and then the body again.
fn cook(
    session: &mut Session<'_>,
    clause: &Built,
    probe_attr: Attribute,
) -> Result<(Option<Node>, Vec<Cooked>, Attribute)> {
    let place = session.place;
    session.check_clause_attr(place, probe_attr)?;
    let first = cook_body(session, &clause.body);
    let missing = |tag| matches!(tag, Some(ErrTag::IdentUndef | ErrTag::VarUndef));
    let first = match first {
        Err(error) if clause.predicate.is_some() && missing(error.tag) => {
            session.place = place;
            None
        }
        result => Some(result?),
    };
    let mut attr = first.as_ref().map_or(probe_attr, |(_, attr)| *attr);
    let predicate = match &clause.predicate {
        Some(predicate) => {
            session.region = Some("predicate");
            let predicate = session.cook(predicate.clone(), Use::READ)?;
            attr = attr.min(predicate.attr);
            if !session.is_scalar(&predicate) {
                let message = "predicate result must be of scalar type";
                return session.error(ErrTag::PredScalar, message);
            }
            session.region = None;
            Some(predicate)
        }
        None => None,
    };
    let body = match first {
        Some((body, _)) => body,
        None => {
            let (body, body_attr) = cook_body(session, &clause.body)?;
            attr = attr.min(body_attr);
            body
        }
    };
    session.check_clause_attr(place, attr)?;
    Ok((predicate, body, attr))
}

fn cook_body(session: &mut Session<'_>, body: &[Step]) -> Result<(Vec<Cooked>, Attribute)> {
    session.region = Some("action list");
    let mut attr = Attribute::DEFAULT;
    let mut cooked = Vec::new();
    for step in body {
        let Step::Expr(node, place) = step else { continue };
        let node = session.at(*place, |session| session.cook(node.clone(), Use::READ))?;
        attr = attr.min(node.attr);
        cooked.push((node, *place));
    }
    session.region = None;
    Ok((cooked, attr))
}

/// Returns the actions of a statement, and its format, if it has one.
fn statement(
    session: &mut Session<'_>,
    node: &Node,
    actions: &mut Vec<Act>,
) -> Result<Option<Vec<u8>>> {
    match &node.kind {
        Kind::Agg { .. } => {
            aggregate::compile(session, node, actions)?;
            Ok(None)
        }
        Kind::Func(id, args) if session.ident(*id).kind == IdKind::ActFunc => {
            action::compile(session, node, *id, args, actions)
        }
        _ => {
            let mut difo = codegen::generate(session, node)?;
            difo.returns = DifType::VOID;
            actions.push(action::with_difo(Action::DifExpr, difo));
            Ok(None)
        }
    }
}
