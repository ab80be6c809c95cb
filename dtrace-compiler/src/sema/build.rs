//! Builds nodes from trees: folds constants, finds functions, looks up types.

use dtrace_abi::ErrTag;
use dtrace_abi::dif::CtfKind;

use super::{IdKind, Kind, Node, Session};
use crate::error::Result;
use crate::place::Place;
use crate::syntax::{BinaryOp, Expr, ExprKind, TypeName, UnaryOp};

impl Session<'_> {
    /// Builds the node of an expression.
    pub fn build(&mut self, expr: &Expr) -> Result<Node> {
        self.at(expr.place, |session| session.build_here(expr))
    }

    fn build_all(&mut self, exprs: &[Expr]) -> Result<Vec<Node>> {
        exprs.iter().map(|expr| self.build(expr)).collect()
    }

    fn boxed(&mut self, expr: &Expr) -> Result<Box<Node>> {
        Ok(Box::new(self.build(expr)?))
    }

    fn build_here(&mut self, expr: &Expr) -> Result<Node> {
        let place = expr.place;
        let kind = match &expr.kind {
            ExprKind::Int(int) => return self.constant(place, *int),
            ExprKind::Str(bytes) => {
                let mut node = Node::new(place, Kind::Str(bytes.clone()));
                self.assign_type(&mut node, self.types().special().string, false);
                return Ok(node);
            }
            ExprKind::Ident(name) => return Ok(self.build_ident(place, name)),
            ExprKind::Agg(name) => Kind::AggIdent(name.clone()),
            ExprKind::Unary(op, operand) => {
                let operand = self.build(operand)?;
                return self.build_unary(place, *op, operand);
            }
            ExprKind::Binary(op, left, right) => {
                let (left, right) = (self.build(left)?, self.build(right)?);
                self.check_divisor(Some(*op), &right)?;
                match self.fold_binary(place, *op, &left, &right)? {
                    Some(folded) => return Ok(folded),
                    None => Kind::Binary(*op, Box::new(left), Box::new(right)),
                }
            }
            ExprKind::Assign(op, left, right) => {
                let (left, right) = (self.boxed(left)?, self.boxed(right)?);
                self.check_divisor(*op, &right)?;
                Kind::Assign(*op, left, right)
            }
            ExprKind::Ternary(test, yes, no) => {
                let (test, yes, no) = (self.boxed(test)?, self.boxed(yes)?, self.boxed(no)?);
                match test.int() {
                    Some(0) => return Ok(*no),
                    Some(_) => return Ok(*yes),
                    None => Kind::Ternary(test, yes, no),
                }
            }
            ExprKind::Call(function, args) => {
                let function = self.build(function)?;
                let args = self.build_all(args)?;
                return self.build_call(place, &function, args);
            }
            ExprKind::Index(array, keys) => Kind::Index(self.boxed(array)?, self.build_all(keys)?),
            ExprKind::Dot(base, name) => Kind::Dot(self.boxed(base)?, name.clone()),
            ExprKind::Arrow(base, name) => Kind::Arrow(self.boxed(base)?, name.clone()),
            ExprKind::Cast(ty, value) => {
                let ty = self.type_ref(ty)?;
                let mut to = Node::new(place, Kind::Int(0));
                self.assign_type(&mut to, ty.ty, ty.user);
                let mut value = self.build(value)?;
                if value.int().is_some() && self.is_integer(&to) {
                    self.cast_constant(&to, &mut value);
                    self.propagate(&to, &mut value);
                    let attr = ty.attr.min(value.attr);
                    self.assign_attr(&mut value, attr)?;
                    return Ok(value);
                }
                Kind::Cast(ty, Box::new(value))
            }
            ExprKind::SizeofType(ty) => {
                let ty = self.type_ref(ty)?;
                return self.size_constant(place, self.types().size(ty.ty));
            }
            ExprKind::Offsetof(ty, member) => return self.build_offsetof(place, ty, member),
            ExprKind::Xlate(ty, value) => {
                let ty = self.type_ref(ty)?;
                Kind::Xlate(ty, self.boxed(value)?, None)
            }
        };
        Ok(Node::new(place, kind))
    }

    /// Builds a name; an inline or enumerator that is a constant is replaced by the constant.
    fn build_ident(&mut self, place: Place, name: &str) -> Node {
        let root = self.global(name).and_then(|id| self.ident(id).inline.as_ref()?.root.as_ref());
        if let Some(root) = root.filter(|root| root.int().is_some()) {
            let mut node = Node::new(place, root.kind.clone());
            self.propagate(root, &mut node);
            return node;
        }
        Node::new(place, Kind::Ident(name.into()))
    }

    fn build_unary(&mut self, place: Place, op: UnaryOp, operand: Node) -> Result<Node> {
        let operand = match self.fold_unary(op, operand) {
            Ok(folded) => return Ok(folded),
            Err(operand) => operand,
        };
        if let (UnaryOp::Sizeof, Kind::Str(bytes)) = (op, &operand.kind) {
            return self.size_constant(place, bytes.len() as u64 + 1);
        }
        Ok(Node::new(place, Kind::Unary(op, Box::new(operand))))
    }

    fn size_constant(&mut self, place: Place, size: u64) -> Result<Node> {
        if size == 0 {
            let message = "cannot apply sizeof to an operand of unknown size";
            return self.error(ErrTag::SizeofType, message);
        }
        let mut node = Node::new(place, Kind::Int(size));
        self.assign_type(&mut node, self.types().special().size, false);
        Ok(node)
    }

    fn check_divisor(&self, op: Option<BinaryOp>, right: &Node) -> Result<()> {
        match op {
            Some(BinaryOp::Div | BinaryOp::Rem) if right.int() == Some(0) => {
                self.error(ErrTag::DivZero, "expression contains division by zero")
            }
            _ => Ok(()),
        }
    }

    fn build_call(&mut self, place: Place, function: &Node, args: Vec<Node>) -> Result<Node> {
        let Kind::Ident(name) = &function.kind else {
            return self.error(ErrTag::FuncIdent, "function designator is not of function type");
        };
        if self.global(name).is_none() {
            self.declare_conventional(None, name);
        }
        let Some(id) = self.global(name) else {
            let message = format!("undefined function name: {name}");
            return self.unknown_name(ErrTag::FuncUndef, message, self.close_global(name));
        };
        let kind = self.ident(id).kind;
        if kind == IdKind::Array && self.ident(id).flags.inline {
            // An inline with parameters may be called like a function, in addition to `name[...]`.
            return Ok(Node::new(place, Kind::Index(Box::new(function.clone()), args)));
        }
        if !matches!(kind, IdKind::Func | IdKind::AggFunc | IdKind::ActFunc) {
            return self.error(
                ErrTag::FuncIdkind,
                format!("{} '{name}' may not be referenced as a function", kind.name()),
            );
        }
        let mut node = Node::new(function.place, Kind::Func(id, args));
        // The node of a function has the place of its name.
        node.place = Place { start: place.start, ..function.place };
        Ok(node)
    }

    fn build_offsetof(&mut self, place: Place, ty: &TypeName, name: &str) -> Result<Node> {
        let ty = self.type_ref(ty)?.ty;
        if !matches!(self.types().kind(ty), CtfKind::Struct | CtfKind::Union) {
            return self
                .error(ErrTag::OffsetofType, "offsetof operand must be a struct or union type");
        }
        let Some(member) = self.types().member(ty, name) else {
            let message = format!("failed to determine offset of {name}: Invalid member name");
            return self.error(ErrTag::Unknown, message);
        };
        if self.types().is_bit_field(member.ty) {
            let message = format!("cannot take offset of a bit-field: {name}");
            return self.error(ErrTag::OffsetofBitfield, message);
        }
        self.constant(place, crate::syntax::IntLit::plain(member.offset / 8))
    }
}
