//! `args` and `uregs`, arrays of the kernel (`dt_idcook_args`, `dt_idcook_regs`, dt_ident.c).

use dtrace_abi::ErrTag;

use super::{IdentId, Kind, Node, Session};
use crate::arguments;
use crate::error::Result;
use crate::surroundings::{Argument, ProbeInfo};
use crate::types::TypeId;

impl Session<'_> {
    fn one_constant(&self, id: IdentId, args: &[Node]) -> Result<u64> {
        let name = &self.ident(id).name;
        let [arg] = args else {
            let count = args.len();
            let space = if count == 1 { " " } else { "s " };
            let message =
                format!("{name}[ ] prototype mismatch: {count} arg{space}passed, 1 expected");
            return self.error(ErrTag::ProtoLen, message);
        };
        match arg.int() {
            Some(index) => Ok(index),
            None => {
                let message = format!(
                    "{name}[ ] argument #1 is incompatible with prototype:\n\tprototype: integer constant\n\t argument: {}",
                    self.types().name(self.ty(arg))
                );
                self.error(ErrTag::ProtoArg, message)
            }
        }
    }

    pub fn cook_args(&mut self, node: Node, id: IdentId, args: &[Node]) -> Result<Node> {
        let index = self.one_constant(id, args)?;
        self.complete_function();
        let Some(probe) = self.probe.clone() else {
            return self.error(
                ErrTag::ArgsNone,
                "args[ ] may not be referenced outside of a probe clause",
            );
        };
        let Some(info) = &probe.info else {
            let message = format!(
                "args[ ] may not be referenced because probe description {} matches an unstable set of probes",
                probe.description
            );
            return self.error(ErrTag::ArgsMulti, message);
        };
        if let Some(why) = &info.untyped {
            let message = format!("args[{}] has no type: {why}", index as i64);
            return self.error(ErrTag::ArgsType, message);
        }
        let Some(index) = usize::try_from(index).ok().filter(|&index| index < info.arguments.len())
        else {
            let message =
                format!("index {} is out of range for {} args[ ]", index as i64, probe.description);
            return self.error(ErrTag::ArgsIdx, message);
        };
        self.cook_argument(node, id, info, index)
    }

    /// Adds the arguments to the properties of the current probe, if it is one of a function.
    fn complete_function(&mut self) {
        let Some(probe) = &mut self.probe else { return };
        let is_incomplete = |info: &&ProbeInfo| {
            info.is_function && info.arguments.is_empty() && info.untyped.is_none()
        };
        if probe.info.as_ref().filter(is_incomplete).is_some() {
            let each = self.surroundings.each(&probe.description).into_iter().next();
            probe.info = each.map(|(_, info)| info).or_else(|| probe.info.take());
        }
    }

    /// Returns an error if programs cannot use an argument. `what` names it.
    pub(super) fn check_argument(&self, argument: &Argument, what: &str) -> Result<()> {
        match &argument.obstacle {
            Some(why) => self.error(ErrTag::ArgsType, format!("{what} has no value: {why}")),
            None => Ok(()),
        }
    }

    /// Cooks a node as an argument of the probe by its index.
    pub(super) fn cook_argument(
        &mut self,
        mut node: Node,
        id: IdentId,
        info: &ProbeInfo,
        index: usize,
    ) -> Result<Node> {
        let argument = &info.arguments[index];
        let name = arguments::name_of(&info.arguments, index);
        let what = name.map_or_else(
            || format!("args[{index}]"),
            |name| format!("args.{name} (args[{index}])"),
        );
        self.check_argument(argument, &what)?;
        let native = self.argument_type(info, &argument.native);
        let translated = if argument.translated.is_empty() {
            native
        } else {
            self.argument_type(info, &argument.translated)
        };
        let (native, translated) = match (native, translated) {
            (_, None) => {
                let message = format!("failed to resolve translated type for args[{index}]");
                return self.error(ErrTag::ArgsType, message);
            }
            (None, _) => {
                let message = format!("failed to resolve native type for args[{index}]");
                return self.error(ErrTag::ArgsType, message);
            }
            (Some(native), Some(translated)) => (native, translated),
        };
        let ((native, native_user), (translated, user)) = (native, translated);
        let mut from = self.type_node(native);
        from.flags.user = native_user;
        let mut to = self.type_node(translated);
        to.flags.user = user;
        let mapping = argument.mapping;
        let attr = info.attributes.args;
        let mut arg = Kind::Arg { ident: id, mapping, xlator: None };
        if arguments::is_text(&info.arguments, argument) {
            node.kind = Kind::Text { ident: id, mapping };
            self.assign_type(&mut node, translated, false);
            self.assign_attr(&mut node, attr)?;
            return Ok(node);
        }
        if native == translated || self.is_assignable(&from, &to) {
            node.kind = arg;
            self.assign_type(&mut node, translated, user);
        } else if let Some((xlator, pointer)) = self.find_xlator(&from, translated) {
            if let Kind::Arg { xlator: slot, .. } = &mut arg {
                *slot = Some((xlator, pointer));
            }
            node.kind = arg;
            self.assign_type(&mut node, self.types().special().dynamic, false);
        } else {
            let message = format!(
                "translator for args[{index}] from {} to {} is not defined",
                self.type_name(&from),
                self.type_name(&to)
            );
            return self.error(ErrTag::ArgsXlator, message);
        }
        node.flags.lvalue = true;
        self.assign_attr(&mut node, attr)?;
        Ok(node)
    }

    /// Returns the type that a provider names for an argument, and whether the value is in the memory of a process.
    pub(super) fn argument_type(&mut self, info: &ProbeInfo, name: &str) -> Option<(TypeId, bool)> {
        if info.is_function
            && let Some(ty) = self.described_type(name)
        {
            return Some((ty, false));
        }
        let (name, user) = match name.strip_prefix("userland ") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let own = self.state.types.lookup_in(&info.module, name);
        Some((own.or_else(|| self.type_named(name))?, user))
    }

    /// Returns a node that has a type and nothing else, for functions that compare the types of nodes.
    pub fn type_node(&self, ty: TypeId) -> Node {
        *self.param(ty).node
    }

    pub fn cook_regs(&mut self, node: &mut Node, id: IdentId, args: &[Node]) -> Result<()> {
        let index = self.one_constant(id, args)?;
        if args[0].flags.signed && (index as i64) < 0 {
            let name = &self.ident(id).name;
            let message = format!("index {} is out of range for array {name}", index as i64);
            return self.error(ErrTag::RegsIdx, message);
        }
        let ty = self.types().special().uint64;
        self.ident_mut(id).ty = Some(ty);
        self.assign_type(node, ty, false);
        Ok(())
    }
}
