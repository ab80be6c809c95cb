//! The description of the type of data that `print` records. A program that was enabled at boot is read by another run of dtrace,
//! which may have other types: it finds the type by this description.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::store::Types;
use super::ty::{Type, TypeId};

impl Types {
    /// Returns the description of a type: the module `D`, the type's number, a hash of its shape, and its name. CTF
    /// counts types from 1, so the number of an integer type is that of libdtrace.
    pub fn printed(&self, id: TypeId) -> String {
        format!(
            "D`{}`{:x}`{}",
            u64::from(id.0) + 1,
            self.shape(id, &mut HashMap::new()),
            self.name(id)
        )
    }

    /// Returns the type for a description of [`printed`](Self::printed), of this run or another one.
    ///
    /// # Errors
    /// The name of the type, if no type has that name and the same members here.
    pub fn of_printed<'a>(&self, text: &'a str) -> Result<TypeId, &'a str> {
        let mut parts = text.splitn(4, '`').skip(1);
        let (number, shape) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let name = parts.next().unwrap_or(text);
        let number: u32 = number.parse().map_err(|_| name)?;
        let number = number.checked_sub(1).ok_or(name)?;
        let shape = u64::from_str_radix(shape, 16).map_err(|_| name)?;
        let mut shapes = HashMap::new();
        let is_it = |&id: &TypeId| self.name(id) == name && self.shape(id, &mut shapes) == shape;
        // In the same run, the type has the same number, so that number is tried first.
        let same = Some(TypeId(number)).filter(|id| (id.0 as usize) < self.types.len());
        let all = (0..self.types.len() as u32).map(TypeId);
        same.into_iter().chain(all).find(is_it).ok_or(name)
    }

    /// Returns a hash of everything that affects how `print` shows data of a type: names, sizes, offsets and values of
    /// all parts. Targets of pointers count only by name. `shapes` caches results, because the number of paths to a
    /// nested type can grow exponentially.
    fn shape(&self, id: TypeId, shapes: &mut HashMap<TypeId, u64>) -> u64 {
        if let Some(&shape) = shapes.get(&id) {
            return shape;
        }
        // FNV-1a, of 64 bits.
        let begin = 0xcbf2_9ce4_8422_2325_u64;
        let text = self.describe(id, shapes);
        let shape = text
            .bytes()
            .fold(begin, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        shapes.insert(id, shape);
        shape
    }

    /// Returns a text that describes a type, and contains the shapes of the types in it.
    fn describe(&self, id: TypeId, shapes: &mut HashMap<TypeId, u64>) -> String {
        let mut to = self.name(id);
        if id == self.special.string {
            // The size of a string is not part of its shape: the size of the record gives it.
            return to;
        }
        // Writing to a string does not fail.
        let _ = match self.get(id) {
            Type::Int { bits, signed, char, .. } => write!(to, ":{bits}{signed}{char}"),
            Type::Float { bits, .. } => write!(to, ":{bits}"),
            Type::Typedef(_, of) => {
                let mut at = *of;
                while let Type::Typedef(name, next) = self.get(at)
                    && at != self.special.string
                {
                    let _ = write!(to, "={name}");
                    at = *next;
                }
                write!(to, "={:x}", self.shape(at, shapes))
            }
            Type::Array(of, _) => write!(to, "={:x}", self.shape(*of, shapes)),
            Type::Record { members, size, .. } => {
                let _ = write!(to, "{size}{{");
                for member in members {
                    let (name, shape) = (member.name.as_deref(), self.shape(member.ty, shapes));
                    let _ = write!(to, "{}@{} {shape:x}", name.unwrap_or(""), member.offset);
                }
                write!(to, "}}")
            }
            Type::Enum { values, .. } => write!(to, "{values:?}"),
            Type::Pointer(_) | Type::Function | Type::Forward(..) => Ok(()),
        };
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Member;

    /// Returns a struct of two members, after this number of other declarations.
    fn pair(types: &mut Types, before: u32, second: &str) -> TypeId {
        let int = types.special().int;
        (0..before).for_each(|count| _ = types.array(int, count + 1));
        let member = |name: &str, offset| Member { name: Some(name.into()), ty: int, offset };
        let members = vec![member("x", 0), member(second, 32)];
        let tag = Some("pair".into());
        types.add(Type::Record { union: false, tag, members, size: 8 })
    }

    #[test]
    fn a_type_is_found_by_what_it_is_wherever_it_stands() {
        let (mut then, mut now) = (Types::new(256), Types::new(16));
        let written = pair(&mut then, 3, "y");
        let text = then.printed(written);
        assert_eq!(then.of_printed(&text), Ok(written));
        assert_eq!(now.of_printed(&text), Err("struct pair"));
        pair(&mut now, 0, "z");
        assert_eq!(now.of_printed(&text), Err("struct pair"));
        let here = pair(&mut now, 9, "y");
        assert_ne!(here, written);
        assert_eq!(now.of_printed(&text), Ok(here));
        let string = then.printed(then.special().string);
        assert_eq!(now.of_printed(&string), Ok(now.special().string));
    }

    #[test]
    fn what_is_no_type_is_none() {
        let types = Types::new(256);
        for text in ["", "D`", "D`x`y`z", "D`4`0`int", "D`0`0`int", "D`4294967295`0`int", "%d\n"] {
            assert!(types.of_printed(text).is_err(), "{text}");
        }
    }
}
