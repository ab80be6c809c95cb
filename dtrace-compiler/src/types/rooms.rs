//! Names of types that modules declare. Each module has a room of its own, so that two can have different structs of one name.

use std::collections::HashMap;

use super::{Type, TypeId, Types};

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Rooms {
    rooms: Vec<Room>,
    /// Whose a type is.
    owners: HashMap<TypeId, usize>,
    /// What is declared now is this one's.
    declaring: Option<usize>,
    /// Whose names come before those of others: the module of the probe that is compiled for.
    near: Option<usize>,
}

#[derive(Clone, Debug)]
struct Room {
    module: String,
    named: HashMap<String, TypeId>,
}

impl Types {
    /// The room of a module.
    pub(crate) fn room(&self, module: &str) -> Option<usize> {
        self.rooms.rooms.iter().position(|room| room.module == module)
    }

    /// The room of a module, which it has from now on.
    pub(crate) fn make_room(&mut self, module: &str) -> usize {
        self.room(module).unwrap_or_else(|| {
            self.rooms.rooms.push(Room { module: module.into(), named: HashMap::new() });
            self.rooms.rooms.len() - 1
        })
    }

    /// What is declared from now on is a module's, or the program's.
    pub(crate) fn declare_in(&mut self, room: Option<usize>) {
        self.rooms.declaring = room;
    }

    /// Whose it is.
    pub(crate) const fn declaring(&self) -> Option<usize> {
        self.rooms.declaring
    }

    /// A module's names come before those of other modules from now on.
    pub(crate) fn look_in(&mut self, room: Option<usize>) {
        self.rooms.near = room;
    }

    /// Rooms in the order in which names are looked for in them.
    pub(crate) fn order(&self) -> impl Iterator<Item = usize> {
        let near = self.rooms.near;
        near.into_iter().chain((0..self.rooms.rooms.len()).filter(move |&room| Some(room) != near))
    }

    /// A type gets a name, where things are declared now.
    pub(super) fn give_name(&mut self, name: String, id: TypeId) {
        match self.rooms.declaring.and_then(|room| self.rooms.rooms.get_mut(room)) {
            Some(room) => room.named.insert(name, id),
            None => self.named.insert(name, id),
        };
    }

    /// A type that has come to be is of who declares now.
    pub(super) fn give_owner(&mut self, id: TypeId) {
        if let Some(room) = self.rooms.declaring {
            self.rooms.owners.insert(id, room);
        }
    }

    /// Whether both are modules', and not of the same one.
    pub(super) fn are_strangers(&self, left: TypeId, right: TypeId) -> bool {
        let owner = |id| self.rooms.owners.get(&id);
        matches!((owner(left), owner(right)), (Some(left), Some(right)) if left != right)
    }

    fn named_in(&self, room: usize, name: &str) -> Option<TypeId> {
        self.rooms.rooms.get(room)?.named.get(name).copied()
    }

    /// What a name stands for: to a module that declares its own comes first, else what D and programs declare.
    pub(super) fn find_name(&self, name: &str) -> Option<TypeId> {
        let own = self.rooms.declaring.and_then(|room| self.named_in(room, name));
        own.or_else(|| self.named.get(name).copied())
            .or_else(|| self.order().find_map(|room| self.named_in(room, name)))
    }

    /// What a program has defined a struct or union as that a module only mentions.
    pub(super) fn definition(&self, kind: &str, tag: &str) -> Option<TypeId> {
        if self.rooms.rooms.is_empty() {
            return None;
        }
        let id = *self.named.get(&format!("{kind} {tag}"))?;
        matches!(self.get(id), Type::Record { .. } | Type::Enum { .. }).then_some(id)
    }

    /// The type of a name, if it was declared where things are declared now.
    pub(crate) fn declared(&self, name: &str) -> Option<TypeId> {
        match self.rooms.declaring {
            Some(room) => self.named_in(room, name),
            None => self.named.get(name).copied(),
        }
    }

    /// As [`lookup`](Self::lookup): a module's own type.
    pub(crate) fn lookup_in(&mut self, module: &str, name: &str) -> Option<TypeId> {
        let room = self.room(module)?;
        self.lookup_with(name, |types, name| types.named_in(room, name))
    }

    /// Whether a module has a type of this name.
    pub(crate) fn has_in(&self, module: &str, name: &str) -> bool {
        self.room(module).is_some_and(|room| self.named_in(room, name).is_some())
    }
}
