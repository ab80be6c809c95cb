//! Constants: their types, and folding of operators. Calculations use 64-bit registers; the type only determines size
//! and sign.

use dtrace_abi::ErrTag;
use dtrace_abi::dif::CtfKind;

use super::{Kind, Node, Session};
use crate::error::Result;
use crate::place::Place;
use crate::syntax::{BinaryOp, IntLit, UnaryOp};
use crate::types::TypeId;

/// The types of constants, and the largest of each (`_dtrace_ints_64`, dt_open.c).
const INTS: [(&str, u64); 6] = [
    ("int", i32::MAX as u64),
    ("unsigned int", u32::MAX as u64),
    ("long", i64::MAX as u64),
    ("unsigned long", u64::MAX),
    ("long long", i64::MAX as u64),
    ("unsigned long long", u64::MAX),
];

impl Session<'_> {
    /// Returns a constant with its type: the first type that can hold it, beginning with the type of its suffix. A
    /// decimal constant does not become unsigned.
    pub fn constant(&mut self, place: Place, int: IntLit) -> Result<Node> {
        let first = usize::from(int.unsigned) + 2 * usize::from(int.longs);
        let step = if int.decimal || int.unsigned { 2 } else { 1 };
        for (name, limit) in INTS.iter().skip(first).step_by(step) {
            if int.value <= *limit {
                let ty = self.state.types.lookup(name);
                let mut node = Node::new(place, Kind::Int(int.value));
                self.assign_type(&mut node, ty.unwrap_or(self.types().special().int), false);
                return Ok(node);
            }
        }
        self.error(
            ErrTag::IntOflow,
            format!(
                "integer constant {:#x} cannot be represented in any built-in integral type",
                int.value
            ),
        )
    }

    /// Returns a constant of type `int`.
    pub fn int_node(&self, place: Place, value: u64) -> Node {
        let mut node = Node::new(place, Kind::Int(value));
        self.assign_type(&mut node, self.types().special().int, false);
        node
    }

    /// Returns the common type of two integers: the larger one, then the unsigned one.
    pub fn promoted(&self, left: &Node, right: &Node) -> TypeId {
        let int = self.types().special().int;
        let rank = |node: &Node| {
            let ty = if self.kind(node) == CtfKind::Enum { int } else { self.ty(node) };
            let (bits, signed) = self.types().integer(ty).unwrap_or((32, true));
            (ty, bits + u32::from(!signed))
        };
        let ((left, left_rank), (right, right_rank)) = (rank(left), rank(right));
        let right_wins = if left_rank == right_rank {
            self.types().resolve(left) < self.types().resolve(right)
        } else {
            left_rank < right_rank
        };
        if right_wins { right } else { left }
    }

    /// Sets the type and the attributes of a node from two integers.
    pub fn promote(&self, left: &Node, right: &Node, node: &mut Node) -> Result<()> {
        self.assign_type(node, self.promoted(left, right), false);
        self.assign_attr(node, left.attr.min(right.attr))
    }

    /// Folds an operator with one operand.
    pub fn fold_unary(&self, op: UnaryOp, mut operand: Node) -> std::result::Result<Node, Node> {
        let Some(value) = operand.int() else { return Err(operand) };
        let folded = match op {
            UnaryOp::Plus => value,
            UnaryOp::Neg if operand.flags.signed => value.wrapping_neg(),
            UnaryOp::Neg => value.wrapping_neg() & mask(self.size(&operand)),
            UnaryOp::BitNot => !value,
            UnaryOp::Not => u64::from(value == 0),
            _ => return Err(operand),
        };
        operand.kind = Kind::Int(folded);
        Ok(operand)
    }

    /// Folds an operator between constants.
    pub fn fold_binary(
        &mut self,
        place: Place,
        op: BinaryOp,
        left: &Node,
        right: &Node,
    ) -> Result<Option<Node>> {
        let (Some(l), Some(r)) = (left.int(), right.int()) else { return Ok(None) };
        let mut node = self.int_node(place, 0);
        let signed = {
            let mut both = node.clone();
            self.promote(left, right, &mut both)?;
            both.flags.signed
        };
        let less = |l: u64, r: u64| if signed { (l as i64) < r as i64 } else { l < r };
        let truth = match op {
            BinaryOp::OrOr => Some(l != 0 || r != 0),
            BinaryOp::XorXor => Some((l != 0) != (r != 0)),
            BinaryOp::AndAnd => Some(l != 0 && r != 0),
            BinaryOp::Equal => Some(l == r),
            BinaryOp::NotEqual => Some(l != r),
            BinaryOp::Less => Some(less(l, r)),
            BinaryOp::LessEqual => Some(!less(r, l)),
            BinaryOp::Greater => Some(less(r, l)),
            BinaryOp::GreaterEqual => Some(!less(l, r)),
            _ => None,
        };
        if let Some(truth) = truth {
            node.kind = Kind::Int(truth.into());
            return Ok(Some(node));
        }
        let value = match op {
            BinaryOp::Or => l | r,
            BinaryOp::Xor => l ^ r,
            BinaryOp::And => l & r,
            // As on a processor, only the lower six bits of the count matter.
            BinaryOp::Shl => l.wrapping_shl(r as u32),
            BinaryOp::Shr => l.wrapping_shr(r as u32),
            BinaryOp::Add => l.wrapping_add(r),
            BinaryOp::Sub => l.wrapping_sub(r),
            BinaryOp::Mul => l.wrapping_mul(r),
            BinaryOp::Div if signed => (l as i64).wrapping_div(r as i64) as u64,
            BinaryOp::Div => l / r,
            BinaryOp::Rem if signed => (l as i64).wrapping_rem(r as i64) as u64,
            BinaryOp::Rem => l % r,
            _ => return Ok(None),
        };
        if matches!(op, BinaryOp::Shl | BinaryOp::Shr) {
            self.propagate(left, &mut node);
        } else {
            self.promote(left, right, &mut node)?;
        }
        node.kind = Kind::Int(value);
        Ok(Some(node))
    }

    /// Converts a constant to the size of another type. Truncation does not sign-extend the result from its new highest bit
    /// (`dt_cast`, dt_parser.c).
    pub fn cast_constant(&self, to: &Node, value: &mut Node) {
        let Some(bits) = value.int() else { return };
        let (from_size, to_size) = (self.size(value).min(8), self.size(to).min(8));
        let shift = |size: u64| ((8 - size) * 8) as u32;
        let cast = if to_size < from_size {
            // A size of 0: libdtrace's shift by 64 leaves the value unchanged.
            bits.wrapping_shl(shift(to_size)).wrapping_shr(shift(to_size))
        } else if to_size > from_size {
            let (n, s) = (shift(from_size), ((to_size - from_size) * 8) as u32);
            let high = bits.wrapping_shl(n);
            if value.flags.signed {
                (((high as i64).wrapping_shr(s)) as u64).wrapping_shr(n.wrapping_sub(s))
            } else {
                high.wrapping_shr(n)
            }
        } else {
            bits
        };
        value.kind = Kind::Int(cast);
    }
}

/// Returns a mask of `size` bytes.
const fn mask(size: u64) -> u64 {
    if size >= 8 || size == 0 { u64::MAX } else { (1 << (size * 8)) - 1 }
}
