//! The *rooms* of modules: each holds the types that one module declares, by name. So two modules can declare different
//! structs with one name.

use std::collections::HashMap;

use super::store::Types;
use super::ty::{Room, Type, TypeId};

/// The room of the types of functions, which debug information describes. No module has such a name.
pub(crate) const DEBUG: &str = "debug information";

impl Types {
    /// Returns the room of a module.
    pub(crate) fn room(&self, module: &str) -> Option<usize> {
        self.rooms.rooms.iter().position(|room| room.module == module)
    }

    /// Returns the index of a module's room, after creating the room if necessary.
    pub(crate) fn make_room(&mut self, module: &str) -> usize {
        self.room(module).unwrap_or_else(|| {
            self.rooms.rooms.push(Room { module: module.into(), named: HashMap::new() });
            self.rooms.rooms.len() - 1
        })
    }

    /// Sets the room to which new declarations are added; `None` for declarations of the program.
    pub(crate) fn declare_in(&mut self, room: Option<usize>) {
        self.rooms.declaring = room;
    }

    /// Returns the room to which new declarations are added.
    pub(crate) const fn declaring(&self) -> Option<usize> {
        self.rooms.declaring
    }

    /// Sets the room that is searched first.
    pub(crate) fn look_in(&mut self, room: Option<usize>) {
        self.rooms.near = room;
    }

    /// Returns the rooms in the order in which names are searched.
    pub(crate) fn order(&self) -> impl Iterator<Item = usize> {
        let near = self.rooms.near;
        near.into_iter().chain((0..self.rooms.rooms.len()).filter(move |&room| Some(room) != near))
    }

    /// Names a type in the room to which new declarations are added.
    pub(super) fn give_name(&mut self, name: String, id: TypeId) {
        match self.rooms.declaring.and_then(|room| self.rooms.rooms.get_mut(room)) {
            Some(room) => room.named.insert(name, id),
            None => self.named.insert(name, id),
        };
    }

    /// Records that a new type belongs to the room to which new declarations are added.
    pub(super) fn give_owner(&mut self, id: TypeId) {
        if let Some(room) = self.rooms.declaring {
            self.rooms.owners.insert(id, room);
        }
    }

    /// Returns whether a type comes from debug information.
    pub(crate) fn is_of_debug(&self, id: TypeId) -> bool {
        let owner = self.rooms.owners.get(&id).and_then(|room| self.rooms.rooms.get(*room));
        owner.is_some_and(|room| room.module == DEBUG)
    }

    /// Returns whether two types belong to different modules.
    pub(super) fn are_strangers(&self, left: TypeId, right: TypeId) -> bool {
        let owner = |id| self.rooms.owners.get(&id);
        matches!((owner(left), owner(right)), (Some(left), Some(right)) if left != right)
    }

    fn named_in(&self, room: usize, name: &str) -> Option<TypeId> {
        self.rooms.rooms.get(room)?.named.get(name).copied()
    }

    /// Returns the type of a name. Searches the room to which new declarations are added, then the types of D and of programs,
    /// then other modules.
    pub(super) fn find_name(&self, name: &str) -> Option<TypeId> {
        let own = self.rooms.declaring.and_then(|room| self.named_in(room, name));
        own.or_else(|| self.named.get(name).copied())
            .or_else(|| self.order().find_map(|room| self.named_in(room, name)))
    }

    /// Returns the program's definition of a struct, union or enum that a module only mentions. Debug information has definitions of
    /// its own.
    pub(super) fn definition(&self, of: TypeId, kind: &str, tag: &str) -> Option<TypeId> {
        if self.rooms.rooms.is_empty() || self.is_of_debug(of) {
            return None;
        }
        let id = *self.named.get(&format!("{kind} {tag}"))?;
        matches!(self.get(id), Type::Record { .. } | Type::Enum { .. }).then_some(id)
    }

    /// Returns the type of a name in the room to which new declarations are added.
    pub(crate) fn declared(&self, name: &str) -> Option<TypeId> {
        match self.rooms.declaring {
            Some(room) => self.named_in(room, name),
            None => self.named.get(name).copied(),
        }
    }

    /// Returns a module's own type by its name; see [`lookup`](Self::lookup).
    pub(crate) fn lookup_in(&mut self, module: &str, name: &str) -> Option<TypeId> {
        let room = self.room(module)?;
        self.lookup_with(name, |types, name| types.named_in(room, name))
    }

    /// Returns whether a module has a type of this name.
    pub(crate) fn has_in(&self, module: &str, name: &str) -> bool {
        self.room(module).is_some_and(|room| self.named_in(room, name).is_some())
    }
}
