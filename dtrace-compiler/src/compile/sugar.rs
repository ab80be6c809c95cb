//! `if` and `else`: clauses with predicates (dt_sugar.c).
//!
//! Each condition becomes a clause-local variable, and each run of statements a separate clause with a predicate that
//! tests the variable. A fault in one of them sets a thread-local variable, so that the others are skipped.

use super::{Built, Step};
use crate::error::Result;
use crate::place::Place;
use crate::sema::{Kind, Node, Session};
use crate::surroundings::Description;
use crate::syntax::{BinaryOp, IntLit, UnaryOp};

struct Expander<'s, 'a> {
    session: &'s mut Session<'a>,
    probes: Vec<(Description, Place)>,
    conditions: u32,
    clauses: Vec<Built>,
}

/// Returns the clauses to which a clause expands.
pub(super) fn expand(session: &mut Session<'_>, clause: Built) -> Result<Vec<Built>> {
    if !clause.body.iter().any(|step| matches!(step, Step::If(..))) {
        return Ok(vec![clause]);
    }
    let mut expander =
        Expander { session, probes: clause.probes, conditions: 0, clauses: Vec::new() };
    let condition = match clause.predicate {
        Some(predicate) => expander.condition(predicate, 0)?,
        None => 0,
    };
    expander.steps(clause.body, condition)?;
    let (probes, conditions) = (expander.probes.clone(), expander.conditions);
    let mut clauses = expander.clauses;
    if conditions != 0 {
        let clear = set(session, error_variable(session), 0)?;
        clauses.insert(0, Built { probes, predicate: None, body: vec![clear] });
    }
    if clauses.len() > 1 && !session.state.catches_errors {
        session.state.catches_errors = true;
        let probe = Description {
            provider: "dtrace".into(),
            name: "ERROR".into(),
            ..Description::default()
        };
        let body = vec![set(session, error_variable(session), 1)?];
        clauses.insert(0, Built { probes: vec![(probe, session.place)], predicate: None, body });
    }
    Ok(clauses)
}

fn node(session: &Session<'_>, kind: Kind) -> Node {
    Node::new(session.place, kind)
}

fn scoped(session: &Session<'_>, scope: &str, name: String) -> Node {
    let scope = node(session, Kind::Ident(scope.into()));
    node(session, Kind::Arrow(Box::new(scope), name))
}

fn error_variable(session: &Session<'_>) -> Node {
    scoped(session, "self", "%error".into())
}

fn no_error(session: &Session<'_>) -> Node {
    let error = error_variable(session);
    node(session, Kind::Unary(UnaryOp::Not, Box::new(error)))
}

fn set(session: &mut Session<'_>, variable: Node, value: u64) -> Result<Step> {
    let value = session.constant(session.place, IntLit::plain(value))?;
    let set = node(session, Kind::Assign(None, Box::new(variable), Box::new(value)));
    Ok(Step::Expr(set, session.place))
}

impl Expander<'_, '_> {
    fn variable(&self, condition: u32) -> Node {
        scoped(self.session, "this", format!("%condition_{condition}"))
    }

    fn and(&mut self, left: Node, right: Node) -> Result<Node> {
        let place = self.session.place;
        match self.session.fold_binary(place, BinaryOp::AndAnd, &left, &right)? {
            Some(folded) => Ok(folded),
            None => {
                let kind = Kind::Binary(BinaryOp::AndAnd, Box::new(left), Box::new(right));
                Ok(node(self.session, kind))
            }
        }
    }

    /// Adds a clause that evaluates a condition, combined with the enclosing one. Returns its number.
    fn condition(&mut self, test: Node, before: u32) -> Result<u32> {
        self.conditions += 1;
        let number = self.conditions;
        let left = if before == 0 {
            self.session.constant(self.session.place, IntLit::plain(1))?
        } else {
            self.variable(before)
        };
        let value = self.and(left, test)?;
        let variable = self.variable(number);
        let set = node(self.session, Kind::Assign(None, Box::new(variable), Box::new(value)));
        let body = vec![Step::Expr(set, self.session.place)];
        let predicate = Some(no_error(self.session));
        self.clauses.push(Built { probes: self.probes.clone(), predicate, body });
        Ok(number)
    }

    fn run(&mut self, body: Vec<Step>, condition: u32) -> Result<()> {
        let predicate = if condition == 0 {
            (self.conditions != 0).then(|| no_error(self.session))
        } else {
            let no_error = no_error(self.session);
            let variable = self.variable(condition);
            Some(self.and(no_error, variable)?)
        };
        self.clauses.push(Built { probes: self.probes.clone(), predicate, body });
        Ok(())
    }

    fn steps(&mut self, steps: Vec<Step>, condition: u32) -> Result<()> {
        let mut run = Vec::new();
        for step in steps {
            match step {
                Step::Expr(..) => run.push(step),
                Step::If(test, yes, no) => {
                    if !run.is_empty() {
                        self.run(std::mem::take(&mut run), condition)?;
                    }
                    let inner = self.condition(test, condition)?;
                    self.steps(yes, inner)?;
                    if !no.is_empty() {
                        let variable = self.variable(inner);
                        let not = node(self.session, Kind::Unary(UnaryOp::Not, Box::new(variable)));
                        let other = self.condition(not, condition)?;
                        self.steps(no, other)?;
                    }
                }
            }
        }
        if !run.is_empty() {
            self.run(run, condition)?;
        }
        Ok(())
    }
}
