//! Structs behind pointers that debug information describes. They are declared when a program first uses such a pointer.

use dtrace_abi::dif::CtfKind;

use super::{Kind, Node, Session};
use crate::declared::{self, Keep};
use crate::types::{DEBUG, Type, TypeId, split_stars};

impl Session<'_> {
    /// Returns the type of a pointer to a struct or union that debug information describes: `struct shop::Order *`; `None` if the
    /// name is that of another type.
    pub fn described_type(&mut self, name: &str) -> Option<TypeId> {
        let (base, stars) = split_stars(name);
        let (kind, tag) = [(CtfKind::Struct, "struct "), (CtfKind::Union, "union ")]
            .into_iter()
            .find_map(|(kind, word)| Some((kind, base.strip_prefix(word)?)))?;
        let room = self.state.module(DEBUG);
        let types = &mut self.state.types;
        let mut ty = types.lookup_in(DEBUG, &base).unwrap_or_else(|| {
            types.declare_in(Some(room));
            let ty = types.forward(kind, tag);
            types.declare_in(None);
            ty
        });
        for _ in 0..stars {
            ty = self.state.types.pointer(ty);
        }
        self.describe(ty);
        Some(ty)
    }

    /// Declares the struct behind a pointer, if debug information describes it and it is not declared yet.
    pub fn describe(&mut self, ty: TypeId) {
        let mut base = self.types().resolve(ty);
        while let Some(target) = self.types().target(base) {
            base = self.types().resolve(target);
        }
        if !matches!(self.types().get(base), Type::Forward(..)) || !self.types().is_of_debug(base) {
            return;
        }
        let name = self.types().c_name(base);
        let Some(declared) = self.surroundings.declarations(&name) else { return };
        let room = self.state.module(DEBUG);
        let before = self.types().declaring();
        self.state.types.declare_in(Some(room));
        // If the declarations contradict each other, structs lack members, and the use of these is an error.
        let _ = declared::define(&mut self.state.types, &declared, Keep::Known);
        self.state.types.declare_in(before);
    }

    /// Returns a node as the text in it, if its type is a struct that contains text; otherwise the node.
    pub fn as_text(&self, node: Node) -> Node {
        let text = node.ty.filter(|_| !matches!(node.kind, Kind::TextIn(..)));
        let Some(places) = text.and_then(|ty| self.types().text(ty)) else { return node };
        let (place, attr) = (node.place, node.attr);
        let mut text = Node::new(place, Kind::TextIn(Box::new(node), places));
        self.assign_type(&mut text, self.types().special().string, false);
        (text.attr, text.flags.cooked) = (attr, true);
        text
    }

    /// Returns the struct that a node shows as text; otherwise the node.
    pub fn without_text(node: Box<Node>) -> Box<Node> {
        match node.kind {
            Kind::TextIn(inner, _) => inner,
            _ => node,
        }
    }
}
