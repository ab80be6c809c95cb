//! Finds the locals that an argument expression uses, and decides whether it can be moved out of its function.
//!
//! The compiler resolves the names, not this module: it resolves each name with its own token, and the evaluator gets
//! the resulting value instead of the name. Two names may look the same but mean different locals, if they come from
//! different macros, and no stable function compares their hygiene. Therefore each occurrence of a name counts as a
//! separate local. If the tokens do not show whether a name belongs to the function or to the expression, it is not
//! replaced, and the evaluator, which is a closure, captures it by reference. That is correct, but may keep a local in
//! memory.

use proc_macro2::{Ident, Span};
use quote::{format_ident, quote_spanned};
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    AngleBracketedGenericArguments, Expr, ExprConst, ExprPath, ExprRepeat, ExprUnsafe, FieldValue,
    Pat, Path, Stmt, Type,
};

/// The greatest number of locals for an evaluator. Each takes up to two registers in the cold block.
const MAX_LOCALS: usize = 5;

/// The greatest number of arguments that are evaluated in the cold block: each takes a register there, all at the same
/// time.
const MOST_IN_PLACE: usize = 6;

/// Properties of an expression that its tokens show.
#[derive(Default)]
struct Survey {
    /// It may call something that is not inlined.
    calls: bool,
    /// It leaves the function, or changes a local: it must stay in place.
    stays: bool,
    /// It may declare names that its tokens do not show: no name is known to belong to the function.
    declares: bool,
    /// Names that the expression itself binds.
    bound: Vec<String>,
}

impl Visit<'_> for Survey {
    fn visit_expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Call(call) => {
                // `Some(x)` constructs a value. All other calls are functions, or look like constructors of types that
                // may be costly to pass. The name of a function is not a local.
                if let Expr::Path(callee) = &*call.func {
                    self.calls |= !callee.path.is_ident("Some");
                    call.args.iter().for_each(|arg| self.visit_expr(arg));
                    return;
                }
                self.calls = true;
            }
            Expr::MethodCall(_) | Expr::Macro(_) | Expr::Verbatim(_) => self.calls = true,
            Expr::Assign(_)
            | Expr::Async(_)
            | Expr::Await(_)
            | Expr::Break(_)
            | Expr::Continue(_)
            | Expr::Return(_)
            | Expr::Try(_)
            | Expr::Yield(_) => self.stays = true,
            Expr::Binary(binary) => self.stays |= is_assignment(&binary.op),
            Expr::Reference(reference) => self.stays |= reference.mutability.is_some(),
            Expr::RawAddr(raw) => {
                self.stays |= matches!(raw.mutability, syn::PointerMutability::Mut(_));
            }
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        self.declares |= matches!(stmt, Stmt::Item(_) | Stmt::Macro(_));
        visit::visit_stmt(self, stmt);
    }

    fn visit_pat(&mut self, pattern: &Pat) {
        match pattern {
            // A binding by reference refers to the local itself.
            Pat::Ident(binding) => {
                self.declares |= binding.by_ref.is_some();
                self.bound.push(binding.ident.to_string());
            }
            Pat::Macro(_) | Pat::Verbatim(_) => self.declares = true,
            _ => {}
        }
        visit::visit_pat(self, pattern);
    }
}

/// Returns the name, if the path may be a local: one lower-case segment.
fn local_name(path: &ExprPath) -> Option<&Ident> {
    let name = path.path.get_ident().filter(|_| path.qself.is_none())?;
    name.to_string().starts_with(|c: char| c.is_lowercase() || c == '_').then_some(name)
}

fn is_assignment(op: &syn::BinOp) -> bool {
    use syn::BinOp::*;
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

/// A local that an evaluator gets.
pub(crate) struct Local {
    /// Its name in the function, with the hygiene of its occurrence.
    pub(crate) name: Ident,
    /// Whether it is in an `unsafe` block of the expression, where it may be a `static mut`.
    pub(crate) in_unsafe: bool,
    /// Its replacement in the evaluator: a reference to it.
    pub(crate) reference: Ident,
}

/// Replaces names of locals by `*reference`.
struct TakeOut<'a> {
    bound: &'a [String],
    locals: Vec<Local>,
    /// The number of enclosing `unsafe` blocks.
    in_unsafe: usize,
}

impl TakeOut<'_> {
    /// Records the local, and returns its replacement in the evaluator.
    fn reference(&mut self, name: &Ident) -> Ident {
        // The span of the local, so that errors point there; a unique name.
        let span = Span::mixed_site().located_at(name.span());
        let reference = format_ident!("__sdt_local_{}", self.locals.len(), span = span);
        let in_unsafe = self.in_unsafe > 0;
        self.locals.push(Local { name: name.clone(), in_unsafe, reference: reference.clone() });
        reference
    }

    /// Visits the operand of `&`. If the operand is a local, or a part of one, the local is not replaced.
    fn visit_place(&mut self, place: &mut Expr) {
        match place {
            Expr::Path(_) => {}
            Expr::Field(field) => self.visit_place(&mut field.base),
            Expr::Index(index) => {
                self.visit_place(&mut index.expr);
                self.visit_expr_mut(&mut index.index);
            }
            Expr::Paren(paren) => self.visit_place(&mut paren.expr),
            Expr::Group(group) => self.visit_place(&mut group.expr),
            _ => self.visit_expr_mut(place),
        }
    }
}

impl VisitMut for TakeOut<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Path(path) => {
                if let Some(name) = local_name(path)
                    && !self.bound.iter().any(|bound| name == bound)
                {
                    let (span, reference) = (name.span(), self.reference(name));
                    *expr = Expr::Verbatim(quote_spanned!(span=> (*#reference)));
                }
                return;
            }
            // The address is that of the local itself, and is valid as long as the local: the closure captures it.
            Expr::Reference(reference) => return self.visit_place(&mut reference.expr),
            Expr::RawAddr(raw) => return self.visit_place(&mut raw.expr),
            Expr::Call(call) if matches!(&*call.func, Expr::Path(_)) => {
                call.args.iter_mut().for_each(|arg| self.visit_expr_mut(arg));
                return;
            }
            _ => {}
        }
        visit_mut::visit_expr_mut(self, expr);
    }

    fn visit_expr_unsafe_mut(&mut self, block: &mut ExprUnsafe) {
        self.in_unsafe += 1;
        visit_mut::visit_expr_unsafe_mut(self, block);
        self.in_unsafe -= 1;
    }

    fn visit_field_value_mut(&mut self, field: &mut FieldValue) {
        // `S { x }` becomes `S { x: *reference }`.
        field.colon_token.get_or_insert_default();
        visit_mut::visit_field_value_mut(self, field);
    }

    fn visit_expr_repeat_mut(&mut self, repeat: &mut ExprRepeat) {
        self.visit_expr_mut(&mut repeat.expr);
    }

    // Items below contain no locals, only constants.
    fn visit_expr_const_mut(&mut self, _: &mut ExprConst) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
    fn visit_path_mut(&mut self, _: &mut Path) {}
    fn visit_angle_bracketed_generic_arguments_mut(
        &mut self,
        _: &mut AngleBracketedGenericArguments,
    ) {
    }
}

/// Prepares argument expressions for an evaluator, if they may call functions or are many, and can be moved. Returns
/// the used locals, which the expressions then access by reference.
pub(crate) fn take_out(args: &mut Vec<Expr>) -> Option<Vec<Local>> {
    let mut survey = Survey::default();
    args.iter().for_each(|arg| survey.visit_expr(arg));
    let is_costly = survey.calls || args.len() > MOST_IN_PLACE;
    if !is_costly || survey.stays {
        return None;
    }
    if survey.declares {
        return Some(Vec::new());
    }
    let mut taken = args.clone();
    let mut take_out = TakeOut { bound: &survey.bound, locals: Vec::new(), in_unsafe: 0 };
    taken.iter_mut().for_each(|arg| take_out.visit_expr_mut(arg));
    let locals = take_out.locals;
    if locals.len() > MAX_LOCALS {
        return None;
    }
    *args = taken;
    Some(locals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::ToTokens;

    fn taken(arg: &str) -> Option<(Vec<String>, String)> {
        let mut args = vec![syn::parse_str::<Expr>(arg).unwrap()];
        let locals = take_out(&mut args)?;
        let names = locals.iter().map(|local| local.name.to_string()).collect();
        Some((names, args[0].to_token_stream().to_string()))
    }

    fn tokens(text: &str) -> String {
        syn::parse_str::<proc_macro2::TokenStream>(text).unwrap().to_string()
    }

    #[test]
    fn cheap_arguments_stay() {
        for arg in ["x", "x + 1", "self.len", "&x.y", "Some(x)", "x as u64", "v[i]"] {
            assert!(taken(arg).is_none(), "{arg}");
        }
    }

    /// The constructed value may be costly to pass.
    #[test]
    fn constructors_are_taken_out() {
        for arg in ["Shown(err)", "Shown::<64>::new(err)", "Ok(x)", "wrap::Port(x)"] {
            assert!(taken(arg).is_some(), "{arg}");
        }
    }

    #[test]
    fn calls_are_taken_out_with_their_locals() {
        let (names, expr) = taken("checksum(x, self.y)").unwrap();
        assert_eq!(names, ["x", "self"]);
        assert_eq!(expr, tokens("checksum((*__sdt_local_0), (*__sdt_local_1).y)"));
    }

    /// Two names that look the same may come from different macros.
    #[test]
    fn each_occurrence_of_a_name_is_a_local() {
        let (names, expr) = taken("f(x, x)").unwrap();
        assert_eq!(names, ["x", "x"]);
        assert_eq!(expr, tokens("f((*__sdt_local_0), (*__sdt_local_1))"));
    }

    #[test]
    fn names_that_may_be_the_expressions_own_stay() {
        for (arg, captured) in [
            ("v.iter().map(|x| x + y).sum()", vec!["v", "y"]),
            ("f(x, match o { Some(x) => x, None => y })", vec!["o", "y"]),
            ("f({ let x = y; x })", vec!["y"]),
            ("f({ const X: u8 = 1; x })", vec![]),
            ("f({ fn x() {} x })", vec![]),
            ("f({ declare!(x); x })", vec![]),
            ("f(match x { ref y => y })", vec![]),
        ] {
            let (names, _) = taken(arg).unwrap();
            assert_eq!(names, captured, "{arg}");
        }
    }

    #[test]
    fn what_names_no_local_stays() {
        for arg in ["f([0; n])", "f(const { n })", "f::<{ n }>()", "f(0 as [u8; n])", "f(LIMIT)"] {
            let (names, _) = taken(arg).unwrap();
            assert!(names.is_empty(), "{arg}: {names:?}");
        }
    }

    #[test]
    fn what_has_its_address_taken_stays() {
        for (arg, captured) in [
            ("f(&x)", vec![]),
            ("f(&x.y[i].z)", vec!["i"]),
            ("f(&raw const x)", vec![]),
            ("f(&*x)", vec!["x"]),
            ("f(&(x + 1))", vec!["x"]),
            ("f(&g(x))", vec!["x"]),
        ] {
            let (names, _) = taken(arg).unwrap();
            assert_eq!(names, captured, "{arg}");
        }
    }

    #[test]
    fn shorthand_fields_are_written_out() {
        let (_, expr) = taken("f(S { x })").unwrap();
        assert_eq!(expr, tokens("f(S { x: (*__sdt_local_0) })"));
    }

    #[test]
    fn what_changes_locals_or_leaves_the_function_stays() {
        for arg in [
            "f({ x += 1; x })",
            "f(x?)",
            "f(&mut x)",
            "f(&raw mut x)",
            "{ x = f(); x }",
            "f({ return })",
        ] {
            assert!(taken(arg).is_none(), "{arg}");
        }
    }

    #[test]
    fn too_many_locals_stay() {
        assert!(taken("f(a, b, c, d, e)").is_some());
        assert!(taken("f(a, b, c, d, e, g)").is_none());
    }
}
