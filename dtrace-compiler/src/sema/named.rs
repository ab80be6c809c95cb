//! `args.path`: arguments by name.

use dtrace_abi::ErrTag;
use dtrace_abi::dif::CtfKind;

use super::cook::Use;
use super::ident::Cooking;
use super::{IdentId, Kind, Node, Session};
use crate::arguments::{self, Found, Shape};
use crate::error::Result;
use crate::suggest::closest;
use crate::surroundings::{Argument, ProbeInfo};
use crate::syntax::{BinaryOp, UnaryOp};

/// The name in `args.pointer.is_some`, which is 1 if the pointer is not NULL.
const IS_SOME: &str = "is_some";

/// Returns the name in `args.name` or `args->name`.
pub(crate) fn name_in(node: &Node) -> Option<&str> {
    let (Kind::Dot(base, name) | Kind::Arrow(base, name)) = &node.kind else { return None };
    matches!(&base.kind, Kind::Ident(base) if base == "args").then_some(name)
}

/// An argument by name: `args`, the probes, the argument.
type Named = (IdentId, ProbeInfo, Found);

impl Session<'_> {
    /// Returns the name of the argument to which a cooked node refers, as a program writes it after `args.`.
    pub fn argument_name(&self, node: &Node) -> Option<String> {
        let (Kind::Arg { mapping, .. } | Kind::Text { mapping, .. }) = node.kind else {
            return None;
        };
        let probe = self.probe.as_ref()?;
        let info = probe.named.as_ref().or(probe.info.as_ref())?;
        let index = info.arguments.iter().position(|argument| argument.mapping == mapping)?;
        arguments::name_of(&info.arguments, index)
    }

    /// Returns the argument that a node names; `None` if the node is not `args.name`.
    fn find_named(&mut self, node: &Node) -> Result<Option<Named>> {
        let Some(name) = name_in(node) else { return Ok(None) };
        let Some(id) = self.global("args").filter(|&id| self.ident(id).cooking == Cooking::Args)
        else {
            return Ok(None);
        };
        let named = self.probe.as_ref().and_then(|probe| probe.named.clone());
        let found = named.and_then(|info| {
            let found = arguments::find(&info.arguments, name)?;
            Some((id, info, found))
        });
        match found {
            Some(found) => Ok(Some(found)),
            None => {
                let message = match self.probe {
                    Some(_) => {
                        format!("args.{name} is unknown: no probe of the description exists yet")
                    }
                    None => format!("args.{name} may not be referenced outside of a probe clause"),
                };
                let positions = "arg0 to arg9 have the arguments as numbers".to_owned();
                self.error_with_hint(
                    ErrTag::ArgsNone,
                    message,
                    self.probe.is_some().then_some(positions),
                )
            }
        }
    }

    /// Cooks `args.name` and its parts, such as `args.name.len`; `None` if the node is something else.
    pub fn cook_named(&mut self, node: &Node) -> Result<Option<Node>> {
        if let Some((id, info, Found { index, shape })) = self.find_named(node)? {
            let name = &info.arguments[index].name;
            self.check_named(&info.arguments[index])?;
            if matches!(shape, Shape::Wide | Shape::Pair) {
                let how = match shape {
                    Shape::Wide => {
                        format!("has 128 bits: use args.{name}.low and args.{name}.high")
                    }
                    _ => format!("is two values: use args[{index}] and args[{}]", index + 1),
                };
                return self.error(ErrTag::ArgsType, format!("args.{name} {how}"));
            }
            if shape == Shape::Text {
                return self.text(node, id, &info, index).map(Some);
            }
            return self.position(node, id, &info, index).map(Some);
        }
        let (Kind::Dot(base, part) | Kind::Arrow(base, part)) = &node.kind else {
            return Ok(None);
        };
        let Some((id, info, Found { index, shape })) = self.find_named(base)? else {
            return Ok(None);
        };
        if let Some(offset) = shape.parts().iter().position(|known| *known == Some(&**part)) {
            return self.position(node, id, &info, index + offset).map(Some);
        }
        let is_address = info.arguments[index].native.ends_with('*');
        let is_member = shape == Shape::One && matches!(node.kind, Kind::Arrow(..));
        if part == IS_SOME && is_address && !is_member {
            return self.is_some(node, id, &info, index).map(Some);
        }
        if shape == Shape::One {
            return Ok(None);
        }
        let name = &info.arguments[index].name;
        let parts = shape.parts().into_iter().flatten();
        let similar = closest(part, parts.clone());
        let has = parts.map(|part| format!("args.{name}.{part}")).collect::<Vec<_>>().join(", ");
        let message = match has.is_empty() {
            true => format!("args.{name} has no members"),
            false => format!("args.{name} has no member {part}, only {has}"),
        };
        self.unknown_name(ErrTag::TypeMember, message, similar)
    }

    /// Returns the value at a position of the arguments.
    fn position(
        &mut self,
        node: &Node,
        id: IdentId,
        info: &ProbeInfo,
        index: usize,
    ) -> Result<Node> {
        self.note_use(id, Use::READ);
        self.cook_argument(Node::new(node.place, Kind::Int(0)), id, info, index)
    }

    /// Returns the node of a text argument. The position has its address, the next position its length.
    fn text(&mut self, node: &Node, id: IdentId, info: &ProbeInfo, index: usize) -> Result<Node> {
        self.note_use(id, Use::READ);
        self.check_named(&info.arguments[index])?;
        let kind = Kind::Text { ident: id, mapping: info.arguments[index].mapping };
        let mut text = Node::new(node.place, kind);
        self.assign_type(&mut text, self.types().special().string, false);
        self.assign_attr(&mut text, info.attributes.args)?;
        text.flags.cooked = true;
        Ok(text)
    }

    /// Returns an error if programs cannot use a named argument.
    fn check_named(&self, argument: &Argument) -> Result<()> {
        self.check_argument(argument, &format!("args.{}", argument.name))
    }

    /// Returns the pointer at a position of the arguments, with its native type: without translation.
    fn address(
        &mut self,
        node: &Node,
        id: IdentId,
        info: &ProbeInfo,
        index: usize,
    ) -> Result<Node> {
        self.note_use(id, Use::READ);
        let argument = &info.arguments[index];
        self.check_named(argument)?;
        let Some((ty, user)) = self.argument_type(info, &argument.native) else {
            let message = format!("failed to resolve native type for args.{}", argument.name);
            return self.error(ErrTag::ArgsType, message);
        };
        let kind = Kind::Arg { ident: id, mapping: argument.mapping, xlator: None };
        let mut address = Node::new(node.place, kind);
        self.assign_type(&mut address, ty, user);
        self.assign_attr(&mut address, info.attributes.args)?;
        address.flags.cooked = true;
        Ok(address)
    }

    /// Returns whether an address is not NULL.
    fn is_some(
        &mut self,
        node: &Node,
        id: IdentId,
        info: &ProbeInfo,
        index: usize,
    ) -> Result<Node> {
        let address = self.address(node, id, info, index)?;
        let mut null = Node::new(node.place, Kind::Int(0));
        self.assign_type(&mut null, self.types().special().int, false);
        null.flags.cooked = true;
        let kind = Kind::Binary(BinaryOp::NotEqual, Box::new(address), Box::new(null));
        self.cook(Node::new(node.place, kind), Use::READ)
    }

    /// Cooks `args.name[index]` of a slice or text; `None` if the node is something else.
    pub fn cook_slice(&mut self, node: &Node) -> Result<Option<Node>> {
        let Kind::Index(base, keys) = &node.kind else { return Ok(None) };
        let Some((id, info, Found { index, shape })) = self.find_named(base)? else {
            return Ok(None);
        };
        if !matches!(shape, Shape::Text | Shape::Slice) {
            return Ok(None);
        }
        let name = &info.arguments[index].name;
        let [key] = &keys[..] else {
            let message = format!("cannot access args.{name} as an associative array");
            return self.error(ErrTag::ArrBadref, message);
        };
        let key = self.cook_boxed(key.clone(), Use::READ)?;
        if !self.is_integer(&key) {
            let message = format!("the index of args.{name} must be an integer");
            return self.error(ErrTag::OpInt, message);
        }
        let mut pointer = self.address(node, id, &info, index)?;
        let target = self.types().target(self.ty(&pointer));
        if target.is_none_or(|target| {
            self.types().is_void(target) || self.types().kind(target) == CtfKind::Forward
        }) {
            let message = format!("the elements of args.{name} have no known size");
            return self.error(ErrTag::OpVfptr, message);
        }
        let mapping = info.arguments[index].mapping;
        let attr = pointer.attr.min(key.attr);
        pointer.kind = Kind::Element { ident: id, mapping, index: key };
        self.assign_attr(&mut pointer, attr)?;
        let element = Kind::Unary(UnaryOp::Deref, Box::new(pointer));
        self.cook(Node::new(node.place, element), Use::READ).map(Some)
    }
}
