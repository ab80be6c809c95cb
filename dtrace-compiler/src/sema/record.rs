//! Sets the types and attributes of nodes.

use dtrace_abi::ErrTag;
use dtrace_abi::dif::CtfKind;
use dtrace_abi::stability::Attribute;

use super::{Kind, Node, NodeFlags, Session};
use crate::error::Result;
use crate::place::Place;
use crate::text;
use crate::types::TypeId;

impl Session<'_> {
    /// Sets the type of a node, and the flags that follow from it.
    pub fn assign_type(&self, node: &mut Node, ty: TypeId, user: bool) {
        let types = self.types();
        let kind = types.kind(ty);
        let by_ref = match kind {
            CtfKind::Struct
            | CtfKind::Union
            | CtfKind::Forward
            | CtfKind::Array
            | CtfKind::Function => true,
            CtfKind::Float => types.size(ty) > 8,
            _ => ty == types.special().dynamic,
        };
        node.flags = NodeFlags {
            signed: types.integer(ty).is_some_and(|(_, signed)| signed),
            bit_field: types.is_bit_field(ty),
            by_ref,
            user,
            cooked: true,
            ..node.flags
        };
        node.ty = Some(ty);
    }

    /// Sets the type of a node to that of another one.
    pub fn propagate(&self, from: &Node, to: &mut Node) {
        to.flags = NodeFlags { lvalue: false, ..from.flags };
        to.ty = from.ty;
    }

    /// Sets the stability of a node; an error if the program requires more.
    pub fn assign_attr(&self, node: &mut Node, attr: Attribute) -> Result<()> {
        self.check_attr(node, attr)?;
        node.attr = attr;
        Ok(())
    }

    fn check_attr(&self, node: &Node, attr: Attribute) -> Result<()> {
        match self.state.options.minimum_stability {
            Some(least) if attr.is_less_than(least) => {
                self.attr_error(node.place, &self.node_name(node), attr)
            }
            _ => Ok(()),
        }
    }

    /// Sets the stability of a clause; an error if the program requires more.
    pub fn check_clause_attr(&self, place: Place, attr: Attribute) -> Result<()> {
        match self.state.options.minimum_stability {
            Some(least) if attr.is_less_than(least) => self.attr_error(place, "clause", attr),
            _ => Ok(()),
        }
    }

    fn attr_error<T>(&self, place: Place, what: &str, attr: Attribute) -> Result<T> {
        let message = format!("attributes for {what} ({attr}) are less than predefined minimum");
        self.error_at(place, ErrTag::AttrMin, message)
    }

    /// Returns the name of a node in errors (`dt_node_name`, dt_parser.c).
    pub fn node_name(&self, node: &Node) -> String {
        let op = |text: &str| format!("operator {text}");
        match &node.kind {
            Kind::Int(value) => format!("integer constant {value:#x}"),
            Kind::Str(bytes) => format!("string constant \"{}\"", text::escape(bytes)),
            Kind::Ident(name) => format!("identifier {name}"),
            Kind::AggIdent(name) => format!("identifier @{name}"),
            Kind::Sym(id) => match &self.ident(*id).symbol {
                Some(symbol) => format!("symbol {}`{}", symbol.module, symbol.name),
                None => format!("symbol {}", self.ident(*id).name),
            },
            Kind::Var(id, _)
            | Kind::Arg { ident: id, .. }
            | Kind::Text { ident: id, .. }
            | Kind::Element { ident: id, .. } => {
                let ident = self.ident(*id);
                format!("{} {}", ident.kind.name(), ident.name)
            }
            Kind::Func(id, _) => {
                let ident = self.ident(*id);
                format!("{} {}( )", ident.kind.name(), ident.name)
            }
            Kind::Agg { ident, .. } => format!("aggregation @{}", self.ident(*ident).name),
            Kind::TextIn(inner, _) => self.node_name(inner),
            Kind::Unary(unary, _) => op(unary.text()),
            Kind::Binary(binary, ..) => op(binary.text()),
            Kind::Assign(None, ..) => op("="),
            Kind::Assign(Some(binary), ..) => op(&format!("{}=", binary.text())),
            Kind::Ternary(..) => op("?"),
            Kind::Index(..) => op("["),
            Kind::Dot(..) => op("."),
            Kind::Arrow(..) => op("->"),
            Kind::Cast(..) => op("("),
            Kind::Xlate(..) => op("xlate"),
        }
    }
}
