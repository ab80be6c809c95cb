//! Which locals an argument expression uses, and whether it can be moved out of its function.

use std::collections::BTreeMap;

use proc_macro2::Span;
use quote::{format_ident, quote_spanned};
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprPath, FieldValue, Ident, PatIdent};

/// Most locals an evaluator is handed. Each takes up to two registers in the cold block.
const MAX_LOCALS: usize = 5;

/// What an expression does, as far as its tokens tell.
#[derive(Default)]
struct Survey {
    /// It may call something that is not inlined.
    calls: bool,
    /// It leaves the function, or changes a local: it has to stay where it is.
    stays: bool,
    /// What may be locals: lower-case names, and `self`.
    names: BTreeMap<String, Ident>,
    /// Names that the expression itself binds.
    bound: Vec<Ident>,
}

impl Visit<'_> for Survey {
    fn visit_expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Call(call) => {
                // `Some(x)` and the like build a value; a function's name is no local.
                if let Expr::Path(callee) = &*call.func {
                    self.calls |= !is_constructor(callee);
                    call.args.iter().for_each(|arg| self.visit_expr(arg));
                    return;
                }
                self.calls = true;
            }
            Expr::MethodCall(_) | Expr::Macro(_) => self.calls = true,
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
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_expr_path(&mut self, path: &ExprPath) {
        if let Some(name) = local_name(path) {
            self.names.insert(name.to_string(), name.clone());
        }
    }

    fn visit_pat_ident(&mut self, pattern: &PatIdent) {
        self.bound.push(pattern.ident.clone());
        visit::visit_pat_ident(self, pattern);
    }
}

/// The name, if the path may be that of a local: one lower-case segment.
fn local_name(path: &ExprPath) -> Option<&Ident> {
    let name = path.path.get_ident().filter(|_| path.qself.is_none())?;
    name.to_string().starts_with(|c: char| c.is_lowercase() || c == '_').then_some(name)
}

fn is_constructor(callee: &ExprPath) -> bool {
    let last = callee.path.segments.last().map(|segment| segment.ident.to_string());
    last.is_some_and(|name| name.starts_with(char::is_uppercase))
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

/// Puts `*reference` wherever a captured local stands.
struct Replace<'a>(&'a [Local]);

impl VisitMut for Replace<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Expr::Path(path) = expr
            && let Some(name) = local_name(path)
            && let Some(local) = self.0.iter().find(|local| local.name == *name)
        {
            let reference = &local.reference;
            *expr = Expr::Verbatim(quote_spanned!(name.span()=> (*#reference)));
            return;
        }
        visit_mut::visit_expr_mut(self, expr);
    }

    fn visit_field_value_mut(&mut self, field: &mut FieldValue) {
        // `S { x }` has to become `S { x: *reference }`.
        field.colon_token.get_or_insert_default();
        visit_mut::visit_field_value_mut(self, field);
    }
}

/// A local that an evaluator is handed.
pub(crate) struct Local {
    /// Its name in the function.
    pub(crate) name: Ident,
    /// What stands for it in the evaluator: a reference to it.
    pub(crate) reference: Ident,
}

/// Takes argument expressions out of their function, if they may call something and can be moved:
/// the locals they use, which the expressions name by reference from then on.
pub(crate) fn take_out(args: &mut [Expr]) -> Option<Vec<Local>> {
    let mut survey = Survey::default();
    args.iter().for_each(|arg| survey.visit_expr(arg));
    for bound in &survey.bound {
        survey.names.remove(&bound.to_string());
    }
    if !survey.calls || survey.stays || survey.names.len() > MAX_LOCALS {
        return None;
    }
    let locals: Vec<_> = survey
        .names
        .into_values()
        .enumerate()
        .map(|(i, name)| {
            // Where the local stands, so that errors point there; a name that meets no other.
            let span = Span::mixed_site().located_at(name.span());
            let reference = format_ident!("__sdt_local_{i}", span = span);
            Local { name, reference }
        })
        .collect();
    args.iter_mut().for_each(|arg| Replace(&locals).visit_expr_mut(arg));
    Some(locals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::ToTokens;

    fn taken(arg: &str) -> Option<(Vec<String>, String)> {
        let mut args = [syn::parse_str::<Expr>(arg).unwrap()];
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

    #[test]
    fn calls_are_taken_out_with_their_locals() {
        let (names, expr) = taken("checksum(x, self.y)").unwrap();
        assert_eq!(names, ["self", "x"]);
        assert_eq!(expr, tokens("checksum((*__sdt_local_1), (*__sdt_local_0).y)"));
    }

    #[test]
    fn what_the_expression_binds_is_not_captured() {
        let (names, _) = taken("v.iter().map(|x| x + y).sum()").unwrap();
        assert_eq!(names, ["v", "y"]);
    }

    #[test]
    fn shorthand_fields_are_written_out() {
        let (_, expr) = taken("f(S { x })").unwrap();
        assert_eq!(expr, tokens("f(S { x: (*__sdt_local_0) })"));
    }

    #[test]
    fn what_changes_locals_or_leaves_the_function_stays() {
        for arg in ["f({ x += 1; x })", "f(x?)", "f(&mut x)", "{ x = f(); x }", "f({ return })"] {
            assert!(taken(arg).is_none(), "{arg}");
        }
    }

    #[test]
    fn too_many_locals_stay() {
        assert!(taken("f(a, b, c, d, e)").is_some());
        assert!(taken("f(a, b, c, d, e, g)").is_none());
    }
}
